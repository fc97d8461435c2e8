//! The metrics of those who wait: what does, and what became of those who came.

use pointsman_core::admission::{ClassReport, Waits};
use pointsman_core::ids::PartitionKey;
use pointsman_core::queue::LimitKind;

use super::families::labels;
use super::page::{Metric, Page, Spread};
use crate::telemetry::names::queue as names;

const PENDING_REQUESTS: Metric = Metric::gauge(names::PENDING_REQUESTS, "Requests that wait");
const PENDING_ISL: Metric =
    Metric::gauge(names::PENDING_ISL_TOKENS, "Prompt tokens of the requests that wait");
const PENDING_CACHED: Metric = Metric::gauge(
    names::PENDING_CACHED_TOKENS,
    "Those of them that the best worker had cached when they came",
);
const RECEIVED: Metric = Metric::counter(
    names::RECEIVED,
    "Requests that came to a partition of which some class queues",
);
const BACKPRESSURE: Metric = Metric::counter(names::BACKPRESSURE, "Requests that had to wait");
const WAIT: Metric = Metric::histogram(
    names::WAIT_SECONDS,
    "For how long requests waited that were decided then, or whose due time came; who passed at once isn't among them",
);
const REJECTED: Metric = Metric::counter(names::REJECTED, "Requests that were not let in");

impl Spread {
    fn of(waits: &Waits) -> Self {
        let seconds = |ms: u64| ms as f64 / 1_000.0;
        let bounds = Waits::BOUNDS_MS.into_iter().map(seconds);
        let mut below = 0;
        let up_to = bounds.zip(waits.counts).map(|(bound, count)| {
            below += count;
            (bound, below)
        });
        Self { up_to: up_to.collect(), count: waits.count(), sum: seconds(waits.sum_ms) }
    }
}

/// One partition's classes.
pub(super) fn partition(page: &mut Page, partition: &PartitionKey, classes: &[ClassReport]) {
    let [model, role, group] = labels(partition);
    for ClassReport { policy_class, pending, counts } in classes {
        let here = [model, ("policy_class", &**policy_class)];
        let rest = [role, group];
        let with = |reason| [("reason", reason), role, group];
        page.put(&PENDING_REQUESTS, &here, &rest, pending.requests);
        page.put(&PENDING_ISL, &here, &rest, pending.isl_tokens);
        page.put(&PENDING_CACHED, &here, &rest, pending.cached_tokens);
        page.put(&RECEIVED, &here, &rest, counts.received);
        page.put(&BACKPRESSURE, &here, &with("busy"), counts.waited);
        for (kind, count) in LimitKind::ALL.into_iter().zip(counts.rejected) {
            page.put(&REJECTED, &here, &with(kind.as_str()), count);
        }
        page.put(&REJECTED, &here, &with("deadline"), counts.late);
        page.put(&REJECTED, &here, &with("do_not_queue"), counts.unwilling);
        for (outcome, waits) in [("decided", &counts.decided_after), ("late", &counts.late_after)] {
            // A class in which nobody has waited has no wait.
            if waits.count() > 0 {
                let rest = [("outcome", outcome), role, group];
                page.put_spread(&WAIT, &here, &rest, &Spread::of(waits));
            }
        }
    }
}
