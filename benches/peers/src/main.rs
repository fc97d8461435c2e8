//! The peer's linked code and ours, side by side: same inputs, same process, alternating in short
//! batches, medians. Conclude from the ratios; the machine's own speed changes under one's hands.
//!
//! `cargo run --release` prints a table, with `--json` one JSON document. The answers of both are
//! compared before anything is timed.

mod bytes;
mod hashing;
mod index;
mod inputs;
mod timing;

use anyhow::Result;
use clap::Parser;
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

/// Compares dynamo-kv-router 1.6.1 with Pointsman on the same inputs.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of a table.
    #[arg(long)]
    json: bool,
    /// How often each is measured; the median counts.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// The public trace that one of the shapes is made from.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mooncake_conversation_trace.jsonl"))]
    trace: std::path::PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    hashing: hashing::Figures,
    lookup: Vec<index::LookupFigures>,
    apply: Vec<index::ApplyFigures>,
    memory: Vec<index::MemoryFigures>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let hashing = hashing::measure(args.rounds)?;
    let mut report = Report { hashing, lookup: vec![], apply: vec![], memory: vec![] };
    for workers in [64, 1_024, 4_096] {
        for shape in inputs::shapes(workers, &args.trace)? {
            let (lookup, apply, memory) = index::measure(&shape, args.rounds)?;
            report.lookup.push(lookup);
            report.apply.push(apply);
            report.memory.push(memory);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &Report) {
    let hashing = &report.hashing;
    println!("hashing 2,048 tokens, block size 16 (us)   peer: blocks {:.2} + chain {:.2}   ours, both: {:.2}",
        hashing.peer_blocks_us, hashing.peer_chain_us, hashing.ours_us);
    println!("{:>8} {:<10} {:>12} {:>10} {:>6}   {:>12} {:>10} {:>6}   {:>10} {:>8} {:>6}",
        "workers", "shape", "lookup peer", "ours (us)", "x", "apply peer", "ours (M/s)", "x",
        "bytes peer", "ours", "x");
    for ((lookup, apply), memory) in report.lookup.iter().zip(&report.apply).zip(&report.memory) {
        println!("{:>8} {:<10} {:>12.2} {:>10.2} {:>6.1}   {:>12.1} {:>10.1} {:>6.1}   {:>10.1} {:>8.1} {:>6.2}",
            lookup.workers, lookup.shape, lookup.peer_us, lookup.ours_us,
            lookup.peer_us / lookup.ours_us,
            apply.peer_mblocks_s, apply.ours_mblocks_s,
            apply.ours_mblocks_s / apply.peer_mblocks_s,
            memory.peer_bytes, memory.ours_bytes, memory.ours_bytes / memory.peer_bytes);
    }
    for workers in [64, 1_024, 4_096] {
        let factors = report.lookup.iter().filter(|figures| figures.workers == workers);
        let factors: Vec<f64> = factors.map(|figures| figures.peer_us / figures.ours_us).collect();
        let mean = factors.iter().product::<f64>().powf(1.0 / factors.len() as f64);
        println!("{workers:>8} lookup, geometric mean of the factors: {mean:.1}");
    }
}
