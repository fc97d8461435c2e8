//! Bytes of each thing that a router may have many of.
//!
//! Heap is what the allocator was asked for and hasn't been given back, so without the allocator's own; resident
//! is what the process has of real memory, by `/proc/self/statm`: it also has what instances of components have
//! mapped, their linear memory above all. Where the allocator has free memory of earlier parts, heap isn't resident
//! anew, so that what is resident besides is a component's pages. Both are differences between having many and having few.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_benches::fleet;
use pointsman_core::policy::{Catalog, Limits, PolicyEnvironment, RouterSettings};
use pointsman_core::request::RouteRequest;
use serde_json::Map;

use crate::blocks::chain;
use crate::bytes;
use crate::components::{self, PICKER, WHOLE};
use crate::guests::guest;
use crate::partitions::{self, decide, key};
use crate::report::{Cell, Table};
use crate::reservations::{Live, chains};

/// Instances, or partitions, that there are of each kind.
const MANY: u64 = 100;

/// How many times as much the ten-thousandth may take as the thousandth.
const MOST_MORE: f64 = 2.0;

const PAGE: i64 = 4_096;

/// Resident bytes of this process.
fn resident() -> Result<i64> {
    let read = std::fs::read_to_string("/proc/self/statm").context("Linux tells by this file")?;
    let pages = read.split_whitespace().nth(1).context("the second is what is resident")?;
    Ok(pages.parse::<i64>()? * PAGE)
}

/// Heap bytes of what is made.
fn heap<T>(make: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let (made, taken) = bytes::counted(make);
    Ok((made?, taken.bytes as f64))
}

/// Heap and resident bytes of a partition of one worker that has decided, with this policy.
fn of_partition(catalog: &Catalog, policy: &str) -> Result<[f64; 2]> {
    let before = resident()?;
    let (router, taken) = heap(|| {
        let router = partitions::router(catalog, policy, MANY, 1)?;
        for at in 0..MANY {
            decide(&router, &RouteRequest::new("r", key(at), 2_048), at + 1)?;
        }
        Ok(router)
    })?;
    let resident = (resident()? - before) as f64;
    drop(black_box(router));
    Ok([taken, resident].map(|bytes| bytes / MANY as f64))
}

/// Heap bytes of each worker more, from so many to ten times as many.
fn of_worker(workers: u64) -> Result<f64> {
    let catalog = Catalog::builtin();
    let made = |workers| {
        heap(|| {
            let settings = Arc::default();
            let router = fleet::router(&catalog, "default", &Map::new(), &settings, workers)?;
            decide(&router, &RouteRequest::new("r", fleet::key(), 2_048), 1)?;
            Ok(router)
        })
    };
    let ((few, few_bytes), (many, many_bytes)) = (made(workers)?, made(workers * 10)?);
    drop((few, many));
    Ok((many_bytes - few_bytes) / (workers * 9) as f64)
}

/// Heap bytes of each live request more, from so many to ten times as many.
fn of_reservation(policy: &str, prompts: Vec<Arc<[u64]>>, live: usize) -> Result<f64> {
    let mut its = Live::new(policy, prompts, live, true)?;
    let ((), taken) = heap(|| its.fill(live * 10))?;
    Ok(taken / (live * 9) as f64)
}

/// Heap bytes of a built-in's instance.
fn of_builtin(policy: &str) -> Result<f64> {
    let catalog = Catalog::builtin();
    let provider = catalog.get(policy).context("it is built in")?;
    let environment = PolicyEnvironment {
        instance: "it".into(),
        partition: fleet::key(),
        block_size: fleet::BLOCK_SIZE,
        parameters: Arc::default(),
        settings: Arc::<RouterSettings>::default(),
        limits: Limits::default(),
        seed: 7,
        trial: false,
    };
    let (made, taken) = heap(|| {
        let made = (0..MANY).map(|_| provider.instantiate(&environment));
        Ok(made.collect::<Result<Vec<_>, _>>()?)
    })?;
    drop(black_box(made));
    Ok(taken / MANY as f64)
}

pub fn measure(more: &[PathBuf]) -> Result<Table> {
    let mut table = Table::new(
        "memory",
        "All grows in proportion; what a component's instance has beyond the heap is its pages, of which only those that it touches are there.",
        &["each", "heap, bytes", "resident, bytes", "from", "why so much"],
    );
    let mut row = |each: &str, heap: f64, resident: Option<f64>, from: &str, why: &str| {
        let resident = resident.map_or_else(|| Cell::from("-"), Cell::from);
        table.row([each.into(), heap.into(), resident, from.into(), why.into()]);
    };
    let [few, many] = [of_worker(100)?, of_worker(1_000)?];
    row("worker", many, None, "1,000 to 10,000", "its registration, and a place in each column");
    let [heap, resident] = of_partition(&Catalog::builtin(), "round-robin")?;
    row(
        "partition with one worker",
        heap,
        None,
        "0 to 100",
        "two pipelines, counters in stripes, and tables that begin small",
    );
    let shared = of_reservation("default", chains(), 10_000)?;
    row(
        "live reservation, one of 16 prompts",
        shared,
        None,
        "10,000 to 100,000",
        "a booking and its lease",
    );
    let own = of_reservation(
        "default",
        (1..200_000).step_by(2).map(chain).take(20_000).collect(),
        2_000,
    )?;
    row(
        "live reservation, 128 blocks of its own",
        own,
        None,
        "2,000 to 20,000",
        "the blocks that it is the only one to have, besides",
    );
    let hosted = of_reservation("round-robin", Vec::new(), 10_000)?;
    row(
        "live reservation, hosted",
        hosted,
        None,
        "10,000 to 100,000",
        "a count in a row's stripe; the lease is its owner's",
    );
    for policy in ["round-robin", "default"] {
        let bytes = of_builtin(policy)?;
        row(
            &format!("instance of {policy}"),
            bytes,
            None,
            "0 to 100",
            "its stages and their buffers",
        );
    }
    let engine = components::engine()?;
    let mut of_component = |name: &str, catalog: &Catalog| -> Result<()> {
        let [its_heap, its_resident] = of_partition(catalog, name)?;
        let figures = (its_heap - heap, Some(its_resident - resident));
        row(
            &format!("instance of {name}, a component"),
            figures.0,
            figures.1,
            "0 to 100 partitions, less one by round-robin",
            "a store and the pages that it has touched",
        );
        Ok(())
    };
    for name in [WHOLE, PICKER] {
        let catalog = components::with(&engine, name, name.as_ref(), &guest(name))?;
        of_component(name, &catalog)?;
    }
    for path in more {
        let name = path.file_stem().and_then(|name| name.to_str()).context("it has a name")?;
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        of_component(name, &components::with(&engine, name, path, &bytes)?)?;
    }
    table.at_most("a worker of 10,000 by one of 1,000", many / few, MOST_MORE);
    let few = of_reservation("default", chains(), 1_000)?;
    table.at_most("a reservation of 100,000 by one of 10,000", shared / few, MOST_MORE);
    Ok(table)
}
