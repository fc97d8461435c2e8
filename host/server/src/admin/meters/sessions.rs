//! The metrics of sessions' bindings.

use pointsman_core::partition::Partition;

use super::families::labels;
use super::page::{Metric, Page};

const BINDINGS: Metric = Metric::gauge(
    "pointsman_session_bindings",
    "Sessions that are bound to a worker, or are about to be",
);
const EVENTS: Metric = Metric::counter(
    "pointsman_session_affinity_total",
    "What happened to sessions and their requests: found bound (hit), bound anew, moved, and so on",
);

/// One partition's sessions.
pub(super) fn partition(page: &mut Page, partition: &Partition) {
    let here = labels(partition.key());
    let counts = partition.affinity().counts();
    page.put(&BINDINGS, &here, &[], partition.affinity().len());
    for (event, count) in [
        ("hit", counts.hits),
        ("bound", counts.bound),
        ("rebound", counts.rebound),
        ("invalidated", counts.invalidated),
        ("given_up", counts.given_up),
        ("waited", counts.waited),
        ("expired", counts.expired),
        ("ended", counts.ended),
        ("full", counts.full),
        ("conflict", counts.conflicts),
    ] {
        page.put(&EVENTS, &[("event", event)], &here, count);
    }
}
