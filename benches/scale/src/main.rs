//! How the cost of a decision grows with what a router has to do with, and what each of those takes of memory.
//!
//! `cargo run --release` prints tables, each with what its slope comes from; with `--json` one document; with
//! `--check` it fails where something grows otherwise than it should. Conclude from the ratios within a run:
//! each time is the least of many short batches, of which those that are compared take turns.

#[expect(dead_code, reason = "its other users want more of it")]
#[path = "../../peers/src/bytes.rs"]
mod bytes;
#[expect(dead_code, reason = "others that read the guests want more of them")]
#[path = "../../../tests/guests/compose.rs"]
mod guests;

mod blocks;
mod components;
mod idle;
mod memory;
mod partitions;
mod report;
mod reservations;
mod rows;
mod threads;
mod timing;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

use report::Table;

#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

/// Measures how costs grow.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Fails where something grows otherwise than it should, after all has been printed.
    #[arg(long)]
    check: bool,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// How often each is measured; the least counts.
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Components whose instances are measured too, besides the small one that is at hand.
    #[arg(long)]
    component: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Workers that are chosen among.
    Rows,
    /// Models, each with workers of its own.
    Partitions,
    /// Blocks that the cache index knows.
    Blocks,
    /// Requests that workers have now.
    Reservations,
    /// Threads that decide at once.
    Threads,
    /// Bytes of each of these, and of a policy's instance.
    Memory,
    /// A host of components of which none decides.
    Idle,
}

impl Part {
    fn measure(self, args: &Args) -> Result<Table> {
        match self {
            Self::Rows => rows::measure(args.rounds),
            Self::Partitions => partitions::measure(args.rounds),
            Self::Blocks => blocks::measure(args.rounds),
            Self::Reservations => reservations::measure(args.rounds),
            Self::Threads => threads::measure(args.rounds),
            Self::Memory => memory::measure(&args.component),
            Self::Idle => idle::measure(args.rounds),
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wanted = |part: &&Part| args.only.is_empty() || args.only.contains(part);
    let mut tables = Vec::new();
    for part in Part::value_variants().iter().filter(wanted) {
        let table = part.measure(&args)?;
        if !args.json {
            table.print();
        }
        tables.push(table);
    }
    if args.json {
        let parts: Vec<_> = tables.iter().map(Table::json).collect();
        println!("{}", serde_json::to_string_pretty(&parts)?);
    }
    let missed: Vec<_> = tables.iter().flat_map(Table::missed).collect();
    missed.iter().for_each(|missed| eprintln!("missed: {missed}"));
    ensure!(
        !args.check || missed.is_empty(),
        "{} figures grow otherwise than they should",
        missed.len()
    );
    Ok(())
}
