//! The metrics of what engines say of their own load.

use std::collections::BTreeMap;

use pointsman_core::fleet::Worker;
use pointsman_core::ids::WorkerId;
use pointsman_core::partition::Partition;

use super::families::labels;
use super::page::{Metric, Page};
use crate::discovery::{ScrapeCounts, Scraped};
use crate::telemetry::names::reports as names;

const SCRAPES: Metric = Metric::counter(
    names::SCRAPES,
    "Times that a worker's engine was asked for its load, in the worker's present life",
);
const AGE: Metric =
    Metric::gauge(names::AGE_SECONDS, "How old the last report of a rank's engine is");
const RUNNING: Metric =
    Metric::gauge(names::RUNNING, "Requests that a rank computes or answers, as its engine says");
const WAITING: Metric =
    Metric::gauge(names::WAITING, "Requests that wait in a rank, as its engine says");
const USAGE: Metric = Metric::gauge(
    names::KV_USAGE,
    "The share of a rank's KV blocks that is in use, 0 to 1, as its engine says",
);

/// Of every worker whose engine is asked, every outcome, at zero at least.
pub(super) fn scrapes(
    page: &mut Page,
    workers: &[Worker],
    counts: &BTreeMap<WorkerId, ScrapeCounts>,
) {
    for worker in workers {
        let Some(counts) = counts.get(&worker.spec.worker_id) else { continue };
        let id = worker.spec.worker_id.to_string();
        for (outcome, count) in Scraped::ALL.into_iter().zip(counts) {
            let more = [("outcome", outcome.as_str()), ("worker_id", &*id)];
            page.put(&SCRAPES, &labels(&worker.spec.partition), &more, *count);
        }
    }
}

/// What is believed of one partition's ranks. Of what is too old only the age is there.
pub(super) fn partition(page: &mut Page, partition: &Partition, now_ms: u64) {
    let here = labels(partition.key());
    for (rank, report) in partition.load_reports() {
        let (id, dp_rank) = (rank.worker_id.to_string(), rank.dp_rank.to_string());
        let row = [("dp_rank", &*dp_rank), ("worker_id", &*id)];
        page.put(&AGE, &here, &row, report.age_ms(now_ms) as f64 / 1_000.0);
        if !report.is_fresh(now_ms) {
            continue;
        }
        if let Some(running) = report.running_requests {
            page.put(&RUNNING, &here, &row, running);
        }
        if let Some(waiting) = report.waiting_requests {
            page.put(&WAITING, &here, &row, waiting);
        }
        if let Some(usage) = report.kv_cache_usage {
            page.put(&USAGE, &here, &row, usage);
        }
    }
}
