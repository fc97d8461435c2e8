//! Prints the tables, or one JSON document; with `--check`, fails if what is required isn't there.

mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use pointsman_trace::figures::without_end;
use pointsman_trace::plan::{Common, Planned};
use pointsman_trace::requests::{self, Arrivals};
use pointsman_trace::runs::{Row, run_all};
use pointsman_trace::sweep::{Sweep, sweep};
use serde::Serialize;

/// Replays a trace of prompts through the router's core, against simulated engines.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Fails if the default policy misses what is required of it: so much of the best cached share
    /// of its sweep, and the load so even.
    #[arg(long)]
    check: bool,
    /// Only one part.
    #[arg(long, conflicts_with = "check")]
    only: Option<Part>,
    /// How many times faster than recorded the requests come; several are several tables.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0])]
    speeds: Vec<f64>,
    /// When the requests of one timestamp come.
    #[arg(long, value_enum, default_value_t = Arrivals::Spread)]
    arrivals: Arrivals,
    /// How long answers take, over what the engines' model says; 0 ends a request with its first
    /// token.
    #[arg(long, default_value_t = 1.0)]
    answers: f64,
    /// How many engines.
    #[arg(long, default_value_t = 8)]
    workers: u64,
    /// Blocks of 512 tokens of each one's memory.
    #[arg(long, default_value_t = 10_000)]
    blocks: u32,
    /// Of the decisions' random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The most that a worker may have over the mean, for a run of the sweep to count as balanced.
    #[arg(long, default_value_t = 1.25)]
    balance: f64,
    /// The least that is required of the default's cached share over the best run's.
    #[arg(long, default_value_t = 0.9)]
    share: f64,
    /// The trace.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mooncake_conversation_trace.jsonl"))]
    trace: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Policies beside one another.
    Policies,
    /// The default policy's parameters over their ranges.
    Sweep,
    /// Late events, predictions, guesses.
    Knowledge,
}

#[derive(Debug, Serialize)]
struct AtSpeed {
    speed: f64,
    policies: Vec<Row>,
    sweep: Option<Sweep>,
    knowledge: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Report {
    requests: usize,
    prompt_tokens: u64,
    workers: u64,
    blocks: u32,
    seed: u64,
    answers: f64,
    spread: bool,
    /// The cached share of one cache without end.
    without_end: f64,
    speeds: Vec<AtSpeed>,
    /// What is required and missed.
    missed: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let trace = requests::read(&args.trace, args.arrivals)?;
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let mut report = Report {
        requests: trace.len(),
        prompt_tokens: trace.iter().map(|request| request.prompt_tokens).sum(),
        workers: args.workers,
        blocks: args.blocks,
        seed: args.seed,
        answers: args.answers,
        spread: args.arrivals == Arrivals::Spread,
        without_end: without_end(&trace),
        speeds: vec![],
        missed: vec![],
    };
    for &speed in &args.speeds {
        let &Args { workers, blocks, seed, answers, .. } = &args;
        let common = Common { workers, blocks, seed, speed, answers };
        let rows = |part, plans: fn(Common) -> Vec<Planned>| {
            run_all(&trace, if wanted(part) { plans(common) } else { vec![] })
        };
        let swept = wanted(Part::Sweep).then(|| sweep(&trace, common, args.balance)).transpose()?;
        report.missed.extend(swept.iter().flat_map(|sweep| missed(sweep, speed, &args)));
        report.speeds.push(AtSpeed {
            speed,
            policies: rows(Part::Policies, Common::policies)?,
            sweep: swept,
            knowledge: rows(Part::Knowledge, Common::knowledge)?,
        });
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        tables::print(&report);
    }
    let fails = args.check && !report.missed.is_empty();
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is required of the default policy and missed.
fn missed(sweep: &Sweep, speed: f64, args: &Args) -> Vec<String> {
    let mut missed = vec![];
    let balance = sweep.default.balance;
    if balance > args.balance {
        missed.push(format!("speed {speed}: balance {balance:.3}, at most {}", args.balance));
    }
    for reach in &sweep.reaches {
        for (among, share) in
            [("balanced", reach.default_over_balanced), ("all", reach.default_over_all)]
        {
            if share < args.share {
                missed.push(format!(
                    "speed {speed}: {share:.3} of the best of {among} runs with parameters up to {} times their defaults, at least {}",
                    reach.most, args.share
                ));
            }
        }
    }
    missed
}
