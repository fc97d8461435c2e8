//! Look-ups of the cache index while events are applied.
//!
//! One thread applies what a fleet tells, at a rate that is kept by the clock; another looks
//! prompts up and takes the time of each. Look-ups begin at random times, as requests come: one
//! after another without a pause, those that would have begun while one had to wait would be left
//! out, and the tail would look better than it is. Before that the same look-ups without events,
//! and the same loop without look-ups: what the machine itself does to a thread on a shared core
//! shows there.

mod loops;
mod stream;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::index::{Applied, Overlap, PrefixIndex, Tier};
use serde::Serialize;

use loops::{Applying, Fixture, Plan, Tail, apply, apply_all, look_up};
use stream::{Prompt, Told, Traffic};

/// Times look-ups while events are applied.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
    /// Fails if the look-ups beside events are slower than this, in microseconds at p99, in every
    /// run.
    #[arg(long, value_name = "MICROS", num_args = 0..=1, default_missing_value = "20")]
    check: Option<f64>,
    /// How many workers.
    #[arg(long, default_value_t = 256)]
    workers: u64,
    /// Blocks of all memories together; about one in six is another worker's too.
    #[arg(long, default_value_t = 1_200_000)]
    blocks: u64,
    /// Blocks that are stored a second; as many are removed beside them.
    #[arg(long, default_value_t = 200_000)]
    rate: u64,
    /// Look-ups a second, at random times.
    #[arg(long, default_value_t = 20_000.0)]
    lookups: f64,
    /// How long each run applies events; half as long for look-ups alone and for nothing.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How often; the machine is others' too, and the best run says most of the index.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Of the traffic.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Run {
    /// The loop with nothing in it.
    nothing: Tail,
    lookups_alone: Tail,
    lookups_beside_events: Tail,
    apply: Tail,
    applying: Applying,
}

#[derive(Debug, Serialize)]
struct Report {
    workers: u64,
    distinct_blocks: usize,
    held_blocks: usize,
    index_bytes_per_distinct_block: f64,
    mean_prompt_blocks: f64,
    mean_deepest_overlap: f64,
    /// The best first, by the look-ups beside events at p99.
    runs: Vec<Run>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut traffic = Traffic::new(args.workers, (args.blocks / args.workers) as u32, args.seed);
    let fixture = Fixture { index: PrefixIndex::default(), snapshot: snapshot(args.workers)? };

    // Twice as much as there is room for, so that the memories are full of what is usual.
    let mut applied = Applied::default();
    while (applied.stored as u64) < 2 * args.blocks {
        applied += apply(&fixture.index, &traffic.next());
    }
    ensure!(applied.orphaned == 0 && applied.unknown == 0, "events that don't fit: {applied:?}");
    let stats = fixture.index.stats();

    let (mut runs, mut prompts) = (vec![], vec![]);
    for _ in 0..args.runs.max(1) {
        let events;
        (events, prompts) = record(&mut traffic, &fixture.index, args.rate * args.seconds)?;
        runs.push(run(&fixture, &args, &events, &prompts)?);
    }
    let p99 = |run: &Run| run.lookups_beside_events.p99;
    runs.sort_by(|a, b| p99(a).total_cmp(&p99(b)));

    let mut overlap = Overlap::default();
    let mut deepest = 0.0;
    for (_, prompt) in prompts.iter().rev().take(1_000) {
        fixture.index.look_up(prompt, &fixture.snapshot, &mut overlap);
        deepest += overlap.blocks(Tier::Device).iter().copied().fold(0.0, f64::max);
    }
    let report = Report {
        workers: args.workers,
        distinct_blocks: stats.blocks,
        held_blocks: stats.held,
        index_bytes_per_distinct_block: stats.bytes as f64 / stats.blocks as f64,
        mean_prompt_blocks: prompts.iter().map(|(_, prompt)| prompt.len()).sum::<usize>() as f64
            / prompts.len() as f64,
        mean_deepest_overlap: deepest / prompts.len().min(1_000) as f64,
        runs,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    let fails = args.check.is_some_and(|most| report.runs.iter().all(|run| p99(run) >= most));
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The events until so many blocks are stored, and the prompts that come meanwhile.
fn record(
    traffic: &mut Traffic,
    index: &PrefixIndex,
    blocks: u64,
) -> Result<(Vec<Told>, Vec<Prompt>)> {
    traffic.prompts.clear();
    let (mut events, mut stored) = (vec![], 0);
    // What was told before the first prompt came is told already.
    while traffic.prompts.is_empty() {
        apply(index, &traffic.next());
    }
    while stored < blocks {
        let told = traffic.next();
        if let Told::Stored { names, .. } = &told {
            stored += names.len() as u64;
        }
        events.push(told);
    }
    let first = traffic.prompts.first().map(|(told, _)| *told);
    let first = first.context("no prompts in so short a time; make it longer")?;
    let prompts = std::mem::take(&mut traffic.prompts).into_iter();
    Ok((events, prompts.map(|(at, prompt)| (at - first, prompt)).collect()))
}

fn run(fixture: &Fixture, args: &Args, events: &[Told], prompts: &[Prompt]) -> Result<Run> {
    let seconds = Duration::from_secs(args.seconds);
    let plan = |fixture, at_most| Plan { fixture, prompts, rate: args.lookups, at_most };
    let (never, nowhere) = (AtomicBool::new(false), AtomicUsize::new(0));
    let nothing = look_up(&plan(None, seconds / 2), &nowhere, &never)?;
    let alone = look_up(&plan(Some(fixture), seconds / 2), &nowhere, &never)?;
    let (over, position) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let applier = scope.spawn(|| {
            let applied = apply_all(&fixture.index, events, args.rate, &position);
            over.store(true, Ordering::Relaxed);
            applied
        });
        let beside = look_up(&plan(Some(fixture), seconds * 10), &position, &over);
        let applied = applier.join().ok().context("the thread that applies events broke off")?;
        let (apply, applying) = applied?;
        Ok(Run { nothing, lookups_alone: alone, lookups_beside_events: beside?, apply, applying })
    })
}

fn snapshot(workers: u64) -> Result<Snapshot> {
    let partition =
        PartitionKey { model: "m".into(), routing_group: "g".into(), role: Role::Aggregated };
    let mut fleet = Fleet::default();
    for worker in 0..workers {
        fleet.upsert(WorkerSpec::new(WorkerId(worker), "http://w", partition.clone()))?;
    }
    Ok(fleet.snapshot(&partition))
}

fn print(report: &Report) {
    println!(
        "{} workers, {} distinct blocks, {} held, {:.1} bytes each; prompts of {:.0} blocks, the best worker has {:.0}",
        report.workers,
        report.distinct_blocks,
        report.held_blocks,
        report.index_bytes_per_distinct_block,
        report.mean_prompt_blocks,
        report.mean_deepest_overlap
    );
    println!(
        "{:<24} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "us", "count", "p50", "p99", "p99.9", "max", "preempted"
    );
    for run in &report.runs {
        let rows = [
            ("nothing", &run.nothing),
            ("look-up alone", &run.lookups_alone),
            ("look-up beside events", &run.lookups_beside_events),
            ("apply", &run.apply),
        ];
        for (name, tail) in rows {
            println!(
                "{name:<24} {:>10} {:>8.2} {:>8.2} {:>8.2} {:>10.1} {:>10}",
                tail.count, tail.p50, tail.p99, tail.p999, tail.max, tail.preempted
            );
        }
        let Applying { events, stored, removed, rate, orphaned, unknown, refused, latest_ms } =
            &run.applying;
        println!(
            "{events} events, {stored} blocks stored ({rate:.0}/s), {removed} removed, {orphaned} orphaned, {unknown} unknown, {refused} refused; at worst {latest_ms:.1} ms late\n"
        );
    }
}
