//! Decisions without the partition's lock: nanoseconds for a choice, its booking and its release, for
//! one thread and for two at once, and what they allocate.
//!
//! Not by criterion: what is asked for is the cost of a decision, and how two threads get in each
//! other's way, also on a machine that others share. So each figure is the least of many rounds that are
//! short enough to run without being interrupted.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]
#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DecisionId, PartitionKey, Role, WorkerId};
use pointsman_core::partition::Partition;
use pointsman_core::policy::selection::{InstanceSpec, Recipe, Rollout, Safeguards, TypeUse};
use pointsman_core::policy::{Catalog, Limits, OnFailure, SelectionSpec};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};

static TAKEN: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WORKERS: [u64; 4] = [1, 64, 1_024, 4_096];

const POLICIES: [&str; 5] =
    ["round-robin", "random", "power-of-two", "least-loaded", "device-aware"];

fn partition() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

fn router(policy_type: &str, workers: u64) -> Router {
    let selection = SelectionSpec {
        roles: [(Role::Aggregated, "it".into())].into(),
        instances: vec![InstanceSpec {
            name: "it".into(),
            recipe: Recipe::Whole(TypeUse {
                policy_type: policy_type.into(),
                parameters: Arc::default(),
                limits: Limits::default(),
            }),
            on_failure: OnFailure::Reject,
            discard_state: false,
            safeguards: Safeguards::default(),
            rollout: Rollout::default(),
        }],
    };
    let catalog = Catalog::builtin();
    let router = Router::new(Policies { catalog, selection, ..Policies::default() }, 7);
    for id in 0..workers {
        let spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition());
        router.upsert_worker(spec).expect("the bench's own worker is sound");
    }
    router
}

/// Decides so often, at some ten thousand a millisecond. Returns nanoseconds and allocations.
fn decide(partition: &Partition, decisions: u64, together: &Barrier) -> (f64, u64) {
    let request = RouteRequest::new("r", partition.key().clone(), 2_048);
    let decide = |n: u64| {
        let seed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let moment = Moment { now_ms: n / 10_000, seed };
        partition.hosted().choose(&request, DecisionId(n), moment)
    };
    assert!((0..1_000).all(|n| decide(n).is_some()), "it is decided without the lock");
    together.wait();
    let (before, watch) = (TAKEN.load(Ordering::Relaxed), Stopwatch::start());
    for n in 0..decisions {
        black_box(decide(n));
    }
    let nanos = watch.elapsed().as_nanos() as f64;
    (nanos / decisions as f64, TAKEN.load(Ordering::Relaxed) - before)
}

fn main() {
    // `cargo test` asks for one look at everything.
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { 300 };
    println!("| policy | workers | one thread | each of two | throughput of two | allocations |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for policy in POLICIES {
        for workers in WORKERS {
            let router = router(policy, workers);
            let partition = router.partition(&partition()).expect("its workers began it");
            // Whoever looks at every row is asked less often.
            let looks_at_all = matches!(policy, "least-loaded" | "device-aware");
            let decisions = if looks_at_all { 1 + 10_000 / workers } else { 10_000 };
            let (mut best, mut allocations) = ([f64::INFINITY; 2], 0);
            for _ in 0..rounds {
                for (threads, best) in (1..).zip(&mut best) {
                    let together = Barrier::new(threads);
                    let slowest = std::thread::scope(|scope| {
                        let decide = || decide(&partition, decisions, &together);
                        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(decide)).collect();
                        let done =
                            threads.into_iter().map(|thread| thread.join().expect("it ends"));
                        done.fold((0.0_f64, 0), |a, b| (a.0.max(b.0), a.1 + b.1))
                    });
                    *best = best.min(slowest.0);
                    if threads == 1 {
                        // Of two, one may still be starting while the other decides.
                        allocations += slowest.1;
                    }
                }
            }
            let [one, two] = best;
            let times = 2.0 * one / two;
            println!(
                "| {policy} | {workers} | {one:.0} ns | {two:.0} ns | {times:.2} | {allocations} |"
            );
        }
    }
}
