//! The two loops that run beside each other, and the times that they take.
//!
//! Owns how look-ups and events are paced and timed: both begin when the clock says, whatever the
//! ones before took, and each is timed by itself. It doesn't know what is asked of the times.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use pointsman_core::clock::{Chance, Stopwatch};
use pointsman_core::fleet::Snapshot;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::index::{Applied, CacheEvent, Content, Overlap, PrefixIndex, Stored, Tier};
use serde::Serialize;

use crate::stream::{Prompt, Told};

/// Microseconds, and how often the thread was taken off its core meanwhile.
#[derive(Debug, Serialize)]
pub(crate) struct Tail {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    pub(crate) preempted: u64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Applying {
    pub(crate) events: u64,
    pub(crate) stored: usize,
    pub(crate) removed: usize,
    /// Stored blocks a second.
    pub(crate) rate: f64,
    /// What should be nothing, in blocks.
    pub(crate) orphaned: usize,
    pub(crate) unknown: usize,
    pub(crate) refused: usize,
    /// How far it was behind the clock at worst, in milliseconds.
    pub(crate) latest_ms: f64,
}

/// The index, and the fleet that it is looked up for.
pub(crate) struct Fixture {
    pub(crate) index: PrefixIndex,
    pub(crate) snapshot: Snapshot,
}

/// What to look up, and how.
pub(crate) struct Plan<'a> {
    /// Where; none for the loop alone.
    pub(crate) fixture: Option<&'a Fixture>,
    pub(crate) prompts: &'a [Prompt],
    /// A second.
    pub(crate) rate: f64,
    pub(crate) at_most: Duration,
}

/// Looks prompts up until `over`: those that come about when as many events have been told as
/// `position` says.
pub(crate) fn look_up(plan: &Plan<'_>, position: &AtomicUsize, over: &AtomicBool) -> Result<Tail> {
    let &Plan { fixture, prompts, rate, at_most } = plan;
    let mut times = histogram()?;
    let mut overlap = Overlap::default();
    let mut chance = Chance::new(2);
    let (start, preempted) = (Stopwatch::start(), preemptions());
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
        let watch = Stopwatch::start();
        if let Some(Fixture { index, snapshot }) = fixture {
            index.look_up(black_box(prompt), snapshot, &mut overlap);
        }
        black_box(&overlap);
        times.saturating_record(watch.elapsed().as_nanos() as u64);
        // What was missed while the thread was off its core isn't made up for in a burst.
        due = due.max(start.elapsed().as_secs_f64() - 0.001);
    }
    Ok(tail(&times, preemptions() - preempted))
}

/// Applies events at a rate.
pub(crate) fn apply_all(
    index: &PrefixIndex,
    events: &[Told],
    rate: u64,
    position: &AtomicUsize,
) -> Result<(Tail, Applying)> {
    let mut times = histogram()?;
    let mut done = Applying::default();
    let mut applied = Applied::default();
    let (start, preempted) = (Stopwatch::start(), preemptions());
    for (at, told) in events.iter().enumerate() {
        let due = Duration::from_secs_f64(applied.stored as f64 / rate as f64);
        while start.elapsed() < due {
            spin_loop();
        }
        let late = start.elapsed().saturating_sub(due);
        done.latest_ms = done.latest_ms.max(late.as_secs_f64() * 1e3);
        let watch = Stopwatch::start();
        applied += apply(index, told);
        times.saturating_record(watch.elapsed().as_nanos() as u64);
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

pub(crate) fn apply(index: &PrefixIndex, told: &Told) -> Applied {
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
