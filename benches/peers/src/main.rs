//! The peer's linked code and ours, side by side: same inputs, same process, alternating in short
//! batches, medians. Conclude from the ratios; the machine's own speed changes under one's hands.
//!
//! `cargo run --release` prints a table, with `--json` one JSON document. The answers of both are
//! compared before anything is timed.

mod bytes;
mod hashing;
mod index;
mod timing;

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

/// Compares dynamo-kv-router 1.6.1 with Pointsman on the same inputs.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of a table.
    #[arg(long)]
    json: bool,
    /// Only one part.
    #[arg(long)]
    only: Option<Part>,
    /// Fleets of so many workers.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1_024, 4_096])]
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
}

#[derive(Debug, Default, Serialize)]
struct Report {
    hashing: Option<hashing::Figures>,
    lookup: Vec<index::LookupFigures>,
    apply: Vec<index::ApplyFigures>,
    memory: Vec<index::MemoryFigures>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let mut report = Report::default();
    if wanted(Part::Hash) {
        report.hashing = Some(hashing::measure(args.rounds)?);
    }
    for &workers in &args.workers {
        for shape in pointsman_benches::inputs::shapes(workers, &args.trace)? {
            if args.shape.as_ref().is_some_and(|name| name != shape.name) {
                continue;
            }
            if wanted(Part::Lookup) {
                report.lookup.push(index::look_ups(&shape, args.rounds)?);
            }
            if wanted(Part::Apply) {
                report.apply.push(index::applying(&shape, args.rounds)?);
            }
            if wanted(Part::Memory) {
                report.memory.push(index::memory(&shape)?);
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

/// One line: what both take, and how many times better ours is.
fn line(what: &str, workers: u64, shape: &str, peer: f64, ours: f64, factor: f64) {
    println!("{what:<16} {workers:>8} {shape:<10} {peer:>10.2} {ours:>10.2} {factor:>8.2}");
}

fn print(report: &Report) {
    if let Some(hashing::Figures { peer_blocks_us, peer_chain_us, ours_us, .. }) = report.hashing {
        println!(
            "hashing 2,048 tokens, block size 16 (us): peer, blocks {peer_blocks_us:.2} + chain {peer_chain_us:.2}; ours, both {ours_us:.2}"
        );
    }
    println!(
        "{:<16} {:>8} {:<10} {:>10} {:>10} {:>8}",
        "", "workers", "shape", "peer", "ours", "factor"
    );
    for f in &report.lookup {
        line("lookup (us)", f.workers, f.shape, f.peer_us, f.ours_us, f.peer_us / f.ours_us);
    }
    for f in &report.apply {
        let factor = f.ours_mblocks_s / f.peer_mblocks_s;
        line("apply (M/s)", f.workers, f.shape, f.peer_mblocks_s, f.ours_mblocks_s, factor);
    }
    for f in &report.memory {
        let factor = f.peer_bytes / f.ours_bytes;
        line("memory (bytes)", f.workers, f.shape, f.peer_bytes, f.ours_bytes, factor);
    }
    means("lookup", report.lookup.iter().map(|f| (f.workers, f.peer_us / f.ours_us)));
    means("apply", report.apply.iter().map(|f| (f.workers, f.ours_mblocks_s / f.peer_mblocks_s)));
}

/// The geometric mean of the factors over the shapes, by size of the fleet.
fn means(what: &str, factors: impl Iterator<Item = (u64, f64)>) {
    let mut by_workers = BTreeMap::<u64, Vec<f64>>::new();
    factors.for_each(|(workers, factor)| by_workers.entry(workers).or_default().push(factor));
    for (workers, factors) in by_workers {
        let mean = factors.iter().product::<f64>().powf(1.0 / factors.len() as f64);
        println!(
            "{what}, {workers} workers, geometric mean of {} shapes: {mean:.1}",
            factors.len()
        );
    }
}
