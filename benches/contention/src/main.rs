//! Look-ups of the cache index while events are applied.
//!
//! One thread applies what a fleet tells, at a rate that is kept by the clock; another looks
//! prompts up and takes the time of each. Look-ups begin at random times, as requests come: one
//! after another without a pause, those that would have begun while one had to wait would be left
//! out, and the tail would look better than it is. Before that the same look-ups without events,
//! and the same loop without look-ups: what the machine itself does to a thread on a shared core
//! shows there.

mod stream;

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hdrhistogram::Histogram;
use pointsman_core::clock::Chance;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{Applied, CacheEvent, Content, Overlap, PrefixIndex, Stored, Tier};
use serde::Serialize;

use stream::{Told, Traffic};

/// Times look-ups while events are applied.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
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
    /// How long.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Of the traffic.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Microseconds, and how often the thread was taken off its core meanwhile.
#[derive(Debug, Serialize)]
struct Tail {
    count: u64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    preempted: u64,
}

#[derive(Debug, Default, Serialize)]
struct Applying {
    events: u64,
    stored: usize,
    removed: usize,
    /// Stored blocks a second.
    rate: f64,
    /// What should be nothing, in blocks.
    orphaned: usize,
    unknown: usize,
    refused: usize,
    /// How far it was behind the clock at worst, in milliseconds.
    latest_ms: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    workers: u64,
    distinct_blocks: usize,
    held_blocks: usize,
    index_bytes_per_distinct_block: f64,
    mean_prompt_blocks: f64,
    mean_deepest_overlap: f64,
    /// The loop with nothing in it.
    nothing: Tail,
    lookups_alone: Tail,
    lookups_beside_events: Tail,
    apply: Tail,
    applying: Applying,
}

struct Fixture {
    index: PrefixIndex,
    snapshot: Snapshot,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut traffic = Traffic::new(args.workers, (args.blocks / args.workers) as u32, args.seed);
    let fixture = Fixture { index: PrefixIndex::default(), snapshot: snapshot(args.workers)? };

    // Twice as much as there is room for, so that the memories are full of what is usual.
    let mut applied = Applied::default();
    while (applied.stored as u64) < 2 * args.blocks {
        applied += apply(&fixture.index, &traffic.next());
    }
    ensure!(applied.orphaned == 0 && applied.unknown == 0, "events that don't fit: {applied:?}");
    traffic.prompts.clear();
    let (mut events, mut stored) = (vec![], 0);
    let before = traffic.next();
    apply(&fixture.index, &before);
    while stored < args.rate * args.seconds {
        let told = traffic.next();
        if let Told::Stored { names, .. } = &told {
            stored += names.len() as u64;
        }
        events.push(told);
    }
    let first = traffic.prompts.first().map_or(0, |(told, _)| *told);
    let prompts: Vec<(usize, Vec<u64>)> =
        std::mem::take(&mut traffic.prompts).into_iter().map(|(at, p)| (at - first, p)).collect();
    ensure!(!prompts.is_empty(), "no prompts in so short a time; make it longer");
    let stats = fixture.index.stats();

    let seconds = Duration::from_secs(args.seconds);
    let half = seconds / 2;
    let never = AtomicBool::new(false);
    let nowhere = AtomicUsize::new(0);
    let plan = |fixture, at_most| Plan { fixture, prompts: &prompts, rate: args.lookups, at_most };
    let nothing = look_up(&plan(None, half), &nowhere, &never)?;
    let alone = look_up(&plan(Some(&fixture), half), &nowhere, &never)?;

    let (over, position) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (beside, (apply, applying)) = std::thread::scope(|scope| {
        let applier = scope.spawn(|| {
            let applied = apply_all(&fixture.index, &events, args.rate, &position);
            over.store(true, Ordering::Relaxed);
            applied
        });
        let beside = look_up(&plan(Some(&fixture), seconds * 10), &position, &over);
        let applied = applier.join().ok().context("the thread that applies events broke off")?;
        anyhow::Ok((beside?, applied?))
    })?;

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
        nothing,
        lookups_alone: alone,
        lookups_beside_events: beside,
        apply,
        applying,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

/// What to look up, and how.
struct Plan<'a> {
    /// Where; none for the loop alone.
    fixture: Option<&'a Fixture>,
    prompts: &'a [(usize, Vec<u64>)],
    /// A second.
    rate: f64,
    at_most: Duration,
}

/// Looks prompts up until `over`: those that come about when as many events have been told as
/// `position` says.
fn look_up(plan: &Plan<'_>, position: &AtomicUsize, over: &AtomicBool) -> Result<Tail> {
    let &Plan { fixture, prompts, rate, at_most } = plan;
    let mut times = histogram()?;
    let mut overlap = Overlap::default();
    let mut chance = Chance::new(2);
    let (start, preempted) = (Instant::now(), preemptions());
    let mut due = 0.0;
    while !over.load(Ordering::Relaxed) && start.elapsed() < at_most {
        due += -(1.0 - chance.unit()).ln() / rate;
        let told = position.load(Ordering::Relaxed);
        let now = prompts.partition_point(|(when, _)| *when < told);
        let (_, prompt) = &prompts[(now + chance.below(16)).min(prompts.len() - 1)];
        let due_at = Duration::from_secs_f64(due);
        while start.elapsed() < due_at {
            spin_loop();
        }
        let begin = Instant::now();
        if let Some(Fixture { index, snapshot }) = fixture {
            index.look_up(black_box(prompt), snapshot, &mut overlap);
        }
        black_box(&overlap);
        let end = Instant::now();
        times.saturating_record((end - begin).as_nanos() as u64);
        // What was missed while the thread was off its core isn't made up for in a burst.
        due = due.max((end - start).as_secs_f64() - 0.001);
    }
    Ok(tail(&times, preemptions() - preempted))
}

/// Applies events at a rate.
fn apply_all(
    index: &PrefixIndex,
    events: &[Told],
    rate: u64,
    position: &AtomicUsize,
) -> Result<(Tail, Applying)> {
    let mut times = histogram()?;
    let mut done = Applying::default();
    let mut applied = Applied::default();
    let (start, preempted) = (Instant::now(), preemptions());
    for (at, told) in events.iter().enumerate() {
        let due = Duration::from_secs_f64(applied.stored as f64 / rate as f64);
        while start.elapsed() < due {
            spin_loop();
        }
        let begin = Instant::now();
        done.latest_ms = done.latest_ms.max((begin - start - due).as_secs_f64() * 1e3);
        applied += apply(index, told);
        times.saturating_record(begin.elapsed().as_nanos() as u64);
        position.store(at + 1, Ordering::Relaxed);
    }
    done.events = events.len() as u64;
    done.stored = applied.stored;
    done.removed = applied.removed;
    done.orphaned = applied.orphaned;
    done.unknown = applied.unknown;
    done.refused = applied.refused;
    done.rate = applied.stored as f64 / start.elapsed().as_secs_f64();
    Ok((tail(&times, preemptions() - preempted), done))
}

fn apply(index: &PrefixIndex, told: &Told) -> Applied {
    let rank = |&worker: &u64| WorkerRank { worker_id: WorkerId(worker), dp_rank: DpRank(0) };
    let tier = Tier::Device;
    match told {
        Told::Removed { worker, names } => {
            index.apply(rank(worker), CacheEvent::Removed { engines: names, tier })
        }
        Told::Stored { worker, parent, names, blocks } => {
            let content = Content::Blocks(blocks);
            let stored = Stored { parent: *parent, engines: names, content, tier };
            index.apply(rank(worker), CacheEvent::Stored(stored))
        }
    }
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

fn histogram() -> Result<Histogram<u64>> {
    // Up to a second, three digits.
    Histogram::new_with_bounds(1, 1_000_000_000, 3).context("the bounds of the histogram")
}

fn tail(times: &Histogram<u64>, preempted: u64) -> Tail {
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    Tail {
        count: times.len(),
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: times.max() as f64 / 1e3,
        preempted,
    }
}

/// How often this thread was taken off its core against its will; 0 where that can't be told.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
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
    let rows = [
        ("nothing", &report.nothing),
        ("look-up alone", &report.lookups_alone),
        ("look-up beside events", &report.lookups_beside_events),
        ("apply", &report.apply),
    ];
    for (name, tail) in rows {
        println!(
            "{name:<24} {:>10} {:>8.2} {:>8.2} {:>8.2} {:>10.1} {:>10}",
            tail.count, tail.p50, tail.p99, tail.p999, tail.max, tail.preempted
        );
    }
    let Applying { events, stored, removed, rate, orphaned, unknown, refused, latest_ms } =
        &report.applying;
    println!(
        "{events} events, {stored} blocks stored ({rate:.0}/s), {removed} removed, {orphaned} orphaned, {unknown} unknown, {refused} refused; at worst {latest_ms:.1} ms late"
    );
}
