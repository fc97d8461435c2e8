//! Workers and clients that cost as little as can be, so that what stands between them shows.
//!
//! `workers` answers the OpenAI API on some ports, at once or in the time that a request's `user` field
//! asks for; `load` sends requests, reads the answers, and prints one line of JSON. Both are one thread
//! on loopback. `compare.py` starts them, and a router between them.

mod clients;
mod framing;
mod workers;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

/// Stand-ins for workers and clients.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Answers requests, until it is ended.
    Workers(workers::Args),
    /// Sends requests, and says how they went.
    Load(clients::Args),
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match args.role {
        Role::Workers(args) => runtime.block_on(workers::serve(args))?,
        Role::Load(args) => {
            println!("{}", serde_json::to_string(&runtime.block_on(clients::run(args))?)?)
        }
    }
    Ok(ExitCode::SUCCESS)
}
