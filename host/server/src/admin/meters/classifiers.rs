//! What request classifiers do, read at the scrape.

use pointsman_core::partition::Partition;

use super::families::labels;
use super::page::{Metric, Page};

const REQUESTS: Metric = Metric::counter(
    "pointsman_classifier_requests_total",
    "Requests by what became of them at the request classifier",
);
const HELD: Metric =
    Metric::gauge("pointsman_classifier_held_requests", "Requests that a request classifier holds");
const FAILURES: Metric =
    Metric::counter("pointsman_classifier_failures_total", "Failed calls of request classifiers");
const REPLACED: Metric = Metric::counter(
    "pointsman_classifier_instances_replaced_total",
    "Request classifiers replaced for having too much memory, lost by a failure, or replaced by the version before",
);

/// Of a partition that has a classifier, or had one that did something.
pub(super) fn partition(page: &mut Page, partition: &Partition) {
    let desk = partition.desk();
    let counts = desk.counts();
    if !desk.is_wanted() && counts.classified == 0 {
        return;
    }
    let here = labels(partition.key());
    for (fate, count) in [
        ("admitted", counts.admitted),
        ("held", counts.held),
        ("released", counts.released),
        ("rejected", counts.rejected),
        ("due", counts.due),
        ("let_go", counts.let_go),
        ("unclassified", counts.unclassified),
        ("duplicate", counts.duplicates),
    ] {
        page.put(&REQUESTS, &here, &[("fate", fate)], count);
    }
    page.put(&HELD, &here, &[], counts.held_now);
    for (cause, count) in &counts.failures {
        page.put(&FAILURES, &here, &[("cause", cause.as_str())], count);
    }
    let replaced =
        [("memory", counts.recycled), ("failure", counts.lost), ("last-good", counts.stood_in)];
    for (why, count) in replaced {
        page.put(&REPLACED, &here, &[("why", why)], count);
    }
}
