//! Decisions without the partition's lock: nanoseconds for a choice, its booking and its release, for
//! one thread and for two at once, and what they allocate.
//!
//! What is asked for is the cost of a decision, and how two threads get in each other's way, also on a machine
//! that others share. So each figure is the least of many rounds that are short enough to run without
//! being interrupted.

use std::hint::black_box;
use std::sync::{Arc, Barrier};

use anyhow::{Context, Result, ensure};
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::DecisionId;
use pointsman_core::partition::Partition;
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use serde_json::Map;

use crate::fleet;

/// Tokens of each prompt: the sample component takes multiples of ten for traps.
const TOKENS: u64 = 2_048;

/// What a decision costs.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Nanoseconds for one thread alone.
    pub one_ns: f64,
    /// Nanoseconds for the slower of two at once.
    pub two_ns: f64,
    /// Allocations of all decisions of one thread.
    pub allocations: u64,
}

impl Figures {
    /// How many times as many decisions two threads make in the same time.
    #[must_use]
    pub fn throughput_of_two(&self) -> f64 {
        2.0 * self.one_ns / self.two_ns
    }
}

/// Decides so often, at some ten thousand a millisecond. Returns nanoseconds and allocations; none if
/// a decision couldn't be made without the lock.
fn decide(
    partition: &Partition,
    decisions: u64,
    together: &Barrier,
    taken: fn() -> u64,
) -> Option<(f64, u64)> {
    let request = RouteRequest::new("r", partition.key().clone(), TOKENS);
    let decide = |n: u64| {
        let seed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let moment = Moment { now_ms: n / 10_000, seed };
        partition.hosted().choose(&request, DecisionId(n), moment)
    };
    let ready = (0..1_000).all(|n| decide(n).is_some());
    together.wait();
    let (before, watch) = (taken(), Stopwatch::start());
    for n in 0..decisions {
        black_box(decide(n));
    }
    let nanos = watch.elapsed().as_nanos() as f64;
    ready.then(|| (nanos / decisions as f64, taken() - before))
}

/// Measures a policy over workers of one rank each, in so many rounds. `taken` is how often memory
/// was taken in the whole process so far.
pub fn measure(
    catalog: &Catalog,
    policy_type: &str,
    workers: u64,
    rounds: usize,
    taken: fn() -> u64,
) -> Result<Figures> {
    let router = fleet::router(catalog, policy_type, &Map::new(), &Arc::default(), workers)?;
    let partition = fleet::partition(&router)?;
    // Whoever looks at every row is asked less often.
    let looks_at_all = !matches!(policy_type, "round-robin" | "random" | "power-of-two");
    let decisions = if looks_at_all { 1 + 10_000 / workers } else { 10_000 };
    let (mut best, mut allocations) = ([f64::INFINITY; 2], 0);
    for _ in 0..rounds {
        for (threads, best) in (1..).zip(&mut best) {
            let together = Barrier::new(threads);
            let done = std::thread::scope(|scope| {
                let decide = || decide(&partition, decisions, &together, taken);
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(decide)).collect();
                let done = threads.into_iter().map(|thread| thread.join().ok().flatten());
                done.collect::<Option<Vec<_>>>()
            });
            let done = done.context("a decision took the lock, or a thread ended early")?;
            *best = best.min(done.iter().map(|done| done.0).fold(0.0, f64::max));
            if threads == 1 {
                // Of two, one may still be starting while the other decides.
                allocations += done.iter().map(|done| done.1).sum::<u64>();
            }
        }
    }
    let [one_ns, two_ns] = best;
    ensure!(two_ns > 0.0, "nothing was measured");
    Ok(Figures { one_ns, two_ns, allocations })
}
