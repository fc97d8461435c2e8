//! What two threads get done together.

use std::sync::{Arc, Barrier};

use anyhow::{Context, Result};
use pointsman_benches::hosted;
use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;

use crate::bytes;
use crate::components::{self, PICKER};
use crate::partitions::{self, decide, key};
use crate::report::{Cell, Table};

const WORKERS: u64 = 64;

/// Decisions of a thread at a time: some 5 ms, as a shorter batch may be over before the other thread wakes.
const BATCH: u64 = 5_000;

/// The least that two threads have to do of what one does: where they don't wait for each other, and
/// where both want one partition's lock.
const LEAST_APART: f64 = 1.4;
const LEAST_TOGETHER: f64 = 0.5;

/// Nanoseconds of a decision by one thread and by the slower of two; each thread has its own request.
fn by_threads(router: &Router, requests: &[RouteRequest; 2], rounds: usize) -> Result<[f64; 2]> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (threads, best) in (1..).zip(&mut best) {
            let together = Barrier::new(threads);
            let decide = |request: &RouteRequest| {
                let warm = (0..BATCH).try_for_each(|n| decide(router, request, n));
                together.wait();
                let watch = Stopwatch::start();
                (0..BATCH).try_for_each(|n| decide(router, request, n))?;
                warm.map(|()| watch.elapsed().as_nanos() as f64 / BATCH as f64)
            };
            let slowest = std::thread::scope(|scope| -> Result<f64> {
                let its = requests.iter().take(threads);
                let all: Vec<_> = its.map(|request| scope.spawn(move || decide(request))).collect();
                let mut slowest = 0.0_f64;
                for thread in all {
                    slowest = slowest.max(thread.join().ok().context("a thread panicked")??);
                }
                Ok(slowest)
            })?;
            *best = best.min(slowest);
        }
    }
    Ok(best)
}

pub fn measure(rounds: usize) -> Result<Table> {
    let builtin = Catalog::builtin();
    let engine = components::engine()?;
    let catalog = components::catalog(&engine, PICKER)?;
    let mut table = Table::new(
        "threads",
        "Decisions without a lock have nothing in common but what is read; those of one partition under its lock go one after another, those of two partitions side by side.",
        &["decided by", "one thread, ns", "each of two, ns", "throughput of two", "allocations"],
    );
    let hosted = [(&builtin, "round-robin"), (&builtin, "least-loaded"), (&catalog, PICKER)];
    for (catalog, policy) in hosted {
        let measure =
            |rounds| hosted::measure(catalog, policy, WORKERS, rounds, bytes::allocations);
        let timed = measure(rounds * 3)?;
        let (counted, _) = bytes::counted(|| measure(1));
        let each = counted?.allocations as f64;
        let throughput = timed.throughput_of_two();
        let figures = [timed.one_ns, timed.two_ns, throughput, each].map(Cell::from);
        let name = format!("{policy}, hosted");
        table.row([Cell::from(&*name)].into_iter().chain(figures));
        table.at_most(format!("{name}: one by two threads"), 1.0 / throughput, 1.0 / LEAST_APART);
    }
    let router = Arc::new(partitions::router(&builtin, "default", 2, WORKERS)?);
    for (name, others, least) in [
        ("default, a partition for each", 1, LEAST_APART),
        ("default, one partition", 0, LEAST_TOGETHER),
    ] {
        let requests = [0, others].map(|at| RouteRequest::new("r", key(at), 2_048));
        let [one, two] = by_threads(&router, &requests, rounds * 3)?;
        let mut n = 0;
        let each = bytes::allocations_of(BATCH as usize, || {
            n += 1;
            // It has been decided often enough before.
            let _ = decide(&router, &requests[0], n);
        });
        let throughput = 2.0 * one / two;
        let figures = [one, two, throughput, each].map(Cell::from);
        table.row([Cell::from(name)].into_iter().chain(figures));
        table.at_most(format!("{name}: one by two threads"), 1.0 / throughput, 1.0 / least);
    }
    Ok(table)
}
