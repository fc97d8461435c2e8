//! The peer's linked code and ours, side by side: same inputs, same process, alternating in short
//! batches, medians. Conclude from the ratios; the machine's own speed changes under one's hands.
//!
//! `cargo run --release` prints a table, with `--json` one JSON document; with `--check` it fails where
//! a required factor is missed. The answers of both are compared before anything is timed.

mod bytes;
mod check;
mod decision;
mod hashing;
mod hosted;
mod index;
mod ours;
mod report;
mod select;
mod timing;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

use report::Report;

#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

/// Compares dynamo-kv-router 1.6.1 with Pointsman on the same inputs.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of a table.
    #[arg(long)]
    json: bool,
    /// Fails where a required factor is missed, after all has been printed.
    #[arg(long)]
    check: bool,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Fleets of so many workers, in place of each part's own.
    #[arg(long, value_delimiter = ',')]
    workers: Vec<u64>,
    /// Only one way in which caches are filled: half, staggered or mooncake.
    #[arg(long)]
    shape: Option<String>,
    /// How often each is measured; the median counts.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// The public trace that one of the shapes is made from.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mooncake_conversation_trace.jsonl"))]
    trace: std::path::PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Tokens to hashes.
    Hash,
    /// Prompts to columns.
    Lookup,
    /// Events to the index.
    Apply,
    /// Bytes for each block that a worker holds.
    Memory,
    /// A request and the fleet's state to a row, natively and by a component.
    Select,
    /// Hash, look up, select, reserve, free.
    Decision,
    /// Decisions without a lock; ours alone.
    Hosted,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The sizes of fleets for a part.
    fn sizes(&self, own: &[u64]) -> Vec<u64> {
        if self.workers.is_empty() { own.to_vec() } else { self.workers.clone() }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let report = run(&args)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    let missed = check::missed(&report);
    missed.iter().for_each(|missed| eprintln!("missed: {missed}"));
    ensure!(!args.check || missed.is_empty(), "{} required figures are missed", missed.len());
    Ok(())
}

fn run(args: &Args) -> Result<Report> {
    let mut report = Report::default();
    let rounds = args.rounds;
    if args.wants(Part::Select) || args.wants(Part::Decision) {
        let catalog = ours::catalog()?;
        for rows in args.sizes(&[64, 1_024, 4_096]) {
            if args.wants(Part::Select) {
                report.select.push(select::measure(&catalog, rows, rounds)?);
            }
        }
        for workers in args.sizes(&[8, 64, 1_024, 4_096]) {
            for index in [false, true] {
                // With it on, the peer takes a socket for each worker, of which there are only so many.
                let is_possible = !index || workers <= decision::MOST_SOCKETS;
                if args.wants(Part::Decision) && is_possible {
                    report.decision.push(decision::measure(&catalog, workers, index, rounds)?);
                }
            }
        }
    }
    if args.wants(Part::Hosted) {
        for workers in args.sizes(&[1, 64, 1_024, 4_096]) {
            report.hosted.push(hosted::measure(workers, rounds)?);
        }
    }
    if args.wants(Part::Hash) {
        report.hashing = Some(hashing::measure(rounds)?);
    }
    if ![Part::Lookup, Part::Apply, Part::Memory].into_iter().any(|part| args.wants(part)) {
        return Ok(report);
    }
    for workers in args.sizes(&[64, 1_024, 4_096]) {
        for shape in pointsman_benches::inputs::shapes(workers, &args.trace)? {
            if args.shape.as_ref().is_some_and(|name| name != shape.name) {
                continue;
            }
            if args.wants(Part::Lookup) {
                report.lookup.push(index::look_ups(&shape, rounds)?);
            }
            if args.wants(Part::Apply) {
                report.apply.push(index::applying(&shape, rounds)?);
            }
            if args.wants(Part::Memory) {
                report.memory.push(index::memory(&shape)?);
            }
        }
    }
    Ok(report)
}
