//! The metrics that are read at the scrape: their names, labels and values.

use std::collections::BTreeMap;

use pointsman_core::fleet::{Availability, Worker};
use pointsman_core::ids::{PartitionKey, WorkerId};
use pointsman_core::partition::Partition;
use pointsman_core::policy::{BreakerState, Usage};

use super::page::{Label, Metric, Page};
use crate::policies::PoliciesStatus;

const WORKERS: Metric = Metric::gauge("pointsman_workers", "Registered workers");
const EJECTIONS: Metric = Metric::counter(
    "pointsman_worker_ejections_total",
    "How often a worker was left out for failures in a row, in its present life",
);
const ACTIVE_REQUESTS: Metric = Metric::gauge(
    "pointsman_worker_active_requests",
    "Requests booked on a rank and not yet released",
);
const ACTIVE_PREFILL_TOKENS: Metric = Metric::gauge(
    "pointsman_worker_active_prefill_tokens",
    "Prompt tokens of a rank's requests that have no first token",
);
const ACTIVE_DECODE_BLOCKS: Metric =
    Metric::gauge("pointsman_worker_active_decode_blocks", "KV blocks of a rank's active requests");
const LIVE_LEASES: Metric =
    Metric::gauge("pointsman_live_leases", "Bookings that have not been given back");
const DISCREPANCIES: Metric = Metric::gauge(
    "pointsman_ledger_discrepancies",
    "Loads that were not the sum of their bookings when they were last counted again",
);
const DECISIONS: Metric = Metric::counter("pointsman_policy_decisions_total", "Decisions made");
const FALLBACKS: Metric = Metric::counter(
    "pointsman_policy_fallbacks_total",
    "Decisions made by another policy than the configured one",
);
const ALL_FILTERED: Metric = Metric::counter(
    "pointsman_policy_all_filtered_total",
    "Requests whose every eligible row was filtered out",
);
const BYPASSED: Metric = Metric::counter(
    "pointsman_policy_bypassed_filters_total",
    "Filters that rejected every row and were left out for that",
);
const BREAKERS: Metric = Metric::gauge(
    "pointsman_policy_breaker",
    "1 for how the breaker of a policy's instance stands",
);
const DISABLED: Metric =
    Metric::gauge("pointsman_policy_disabled", "1 for instances that an operator has turned off");
const MEMORY: Metric =
    Metric::gauge("pointsman_policy_memory_bytes", "Memory of a policy's instances");
const MOST_MEMORY: Metric = Metric::gauge(
    "pointsman_policy_memory_high_water_bytes",
    "The most memory that one of a policy's instances ever had",
);
const REPLACED: Metric = Metric::counter(
    "pointsman_policy_instances_replaced_total",
    "Instances replaced for having too much memory, or lost by a failure",
);
const FAILURES: Metric = Metric::counter("pointsman_policy_failures_total", "Failed policies");
const OUTCOMES_TOLD: Metric = Metric::counter(
    "pointsman_outcomes_told_total",
    "Events of decisions that policies that learn were told of",
);
const OUTCOMES_LOST: Metric = Metric::counter(
    "pointsman_outcomes_lost_total",
    "Events of decisions that gave way to later ones before policies were told of them",
);
const ACTIVE: Metric =
    Metric::gauge("pointsman_policy_active", "1 for the version of a component type that decides");
const REFUSED: Metric = Metric::gauge(
    "pointsman_policy_refused",
    "1 when what the folder has of a component type doesn't decide",
);
const CONFIGURATION_REFUSED: Metric = Metric::gauge(
    "pointsman_configuration_refused",
    "1 when the configuration file as it is isn't in force",
);
const COMPONENTS: Metric = Metric::counter(
    "pointsman_component_events_total",
    "What happened to components: compiled, instances made and lost, and so on",
);
const RELOADS: Metric =
    Metric::counter("pointsman_policy_reloads_total", "Reloads that found something to do");
const RELOAD_SECONDS: Metric = Metric::gauge(
    "pointsman_policy_reload_seconds",
    "How long the last reload took that found something to do",
);
const RELOAD_REFUSALS: Metric = Metric::counter(
    "pointsman_policy_refusals_total",
    "Components and configurations that reloads refused",
);

/// Every word for how workers stand.
const AVAILABILITIES: [Availability; 4] = [
    Availability::Ready,
    Availability::Unhealthy,
    Availability::Overloaded,
    Availability::Draining,
];

/// What a policy's instances of one type have in a partition.
#[derive(Default)]
struct OfType {
    /// Of several instances, the one that is asked least is shown.
    breaker: BreakerState,
    used: Option<Used>,
}

#[derive(Default)]
struct Used {
    memory: u64,
    most_memory: u64,
    recycled: u64,
    lost: u64,
}

pub(super) fn workers(page: &mut Page, workers: &[Worker]) {
    let mut counts: BTreeMap<&PartitionKey, [u64; AVAILABILITIES.len()]> = BTreeMap::new();
    for worker in workers {
        let counts = counts.entry(&worker.spec.partition).or_default();
        for (count, availability) in counts.iter_mut().zip(AVAILABILITIES) {
            *count += u64::from(worker.availability == availability);
        }
    }
    for (partition, counts) in counts {
        // Every word is there, at zero at least, so that an alert on it can be written.
        for (availability, count) in AVAILABILITIES.into_iter().zip(counts) {
            let more = [("availability", word(availability))];
            page.put(&WORKERS, &labels(partition), &more, count);
        }
    }
}

/// Of every worker, at zero at least.
pub(super) fn ejections(page: &mut Page, workers: &[Worker], counts: &BTreeMap<WorkerId, u64>) {
    for worker in workers {
        let id = worker.spec.worker_id;
        let count = counts.get(&id).copied().unwrap_or_default();
        let more = [("worker_id", &*id.to_string())];
        page.put(&EJECTIONS, &labels(&worker.spec.partition), &more, count);
    }
}

pub(super) fn partition(page: &mut Page, partition: &Partition, now_ms: u64) {
    let here = labels(partition.key());
    let ledger = partition.ledger();
    page.put(&LIVE_LEASES, &here, &[], ledger.live_leases());
    page.put(&DISCREPANCIES, &here, &[], ledger.discrepancies());
    for row in ledger.loads_at(now_ms) {
        let id = row.worker.worker_id.to_string();
        let rank = row.worker.dp_rank.to_string();
        let row_is = [("dp_rank", &*rank), ("worker_id", &*id)];
        page.put(&ACTIVE_REQUESTS, &here, &row_is, row.active_requests);
        page.put(&ACTIVE_PREFILL_TOKENS, &here, &row_is, row.active_prefill_tokens);
        page.put(&ACTIVE_DECODE_BLOCKS, &here, &row_is, row.active_decode_blocks);
    }
    let counts = partition.counts();
    page.put(&DECISIONS, &here, &[], counts.decisions);
    page.put(&FALLBACKS, &here, &[], counts.fallbacks);
    page.put(&ALL_FILTERED, &here, &[], counts.all_filtered);
    page.put(&BYPASSED, &here, &[], counts.bypassed);
    page.put(&OUTCOMES_TOLD, &here, &[], counts.outcomes_told);
    page.put(&OUTCOMES_LOST, &here, &[], counts.outcomes_lost);
    for (cause, count) in counts.failures {
        page.put(&FAILURES, &here, &[("cause", cause.as_str())], count);
    }
}

pub(super) fn policies(page: &mut Page, status: &PoliciesStatus) {
    for instance in &status.instances {
        page.put(&DISABLED, &[("instance", &instance.name)], &[], u8::from(instance.disabled));
        for at in &instance.partitions {
            let mut types: BTreeMap<&str, OfType> = BTreeMap::new();
            for one in &at.instances {
                let of_type = types.entry(&one.policy_type).or_default();
                of_type.breaker = of_type.breaker.max(one.breaker);
                if let Some(Usage { memory_bytes, most_memory_bytes, recycled, lost }) = one.usage {
                    let used = of_type.used.get_or_insert_default();
                    used.memory = used.memory.saturating_add(memory_bytes);
                    used.most_memory = used.most_memory.max(most_memory_bytes);
                    used.recycled = used.recycled.saturating_add(recycled);
                    used.lost = used.lost.saturating_add(lost);
                }
            }
            for (policy_type, of_type) in types {
                put_type(page, &labels(&at.partition), policy_type, &of_type);
            }
        }
    }
    for one in &status.types {
        let of_type = [("type", &*one.policy_type)];
        if let Some(digest) = &one.active_digest {
            page.put(&ACTIVE, &[("digest", &digest.0)], &of_type, 1);
        }
        page.put(&REFUSED, &of_type, &[], u8::from(one.error.is_some()));
    }
    let refused = status.configuration_error.is_some();
    page.put(&CONFIGURATION_REFUSED, &[], &[], u8::from(refused));
    for (event, count) in &status.components {
        page.put(&COMPONENTS, &[("event", event)], &[], count);
    }
    let reloads = &status.reloads;
    let without = reloads.attempts.saturating_sub(reloads.installed);
    for (outcome, count) in [("installed", reloads.installed), ("unchanged", without)] {
        page.put(&RELOADS, &[("outcome", outcome)], &[], count);
    }
    page.put(&RELOAD_REFUSALS, &[], &[], reloads.refused);
    page.put(&RELOAD_SECONDS, &[], &[], reloads.last_millis as f64 / 1_000.0);
}

fn put_type(page: &mut Page, here: &[Label<'_>], policy_type: &str, of_type: &OfType) {
    for state in BreakerState::ALL {
        let more = [("state", state.as_str()), ("type", policy_type)];
        page.put(&BREAKERS, here, &more, u8::from(state == of_type.breaker));
    }
    let Some(used) = &of_type.used else { return };
    let more = [("type", policy_type)];
    page.put(&MEMORY, here, &more, used.memory);
    page.put(&MOST_MEMORY, here, &more, used.most_memory);
    for (why, count) in [("memory", used.recycled), ("failure", used.lost)] {
        page.put(&REPLACED, here, &[("type", policy_type), ("why", why)], count);
    }
}

pub(super) fn labels(partition: &PartitionKey) -> [Label<'_>; 3] {
    [
        ("model", &partition.model),
        ("role", partition.role.as_str()),
        ("routing_group", &partition.routing_group),
    ]
}

fn word(availability: Availability) -> &'static str {
    match availability {
        Availability::Ready => "ready",
        Availability::Unhealthy => "unhealthy",
        Availability::Overloaded => "overloaded",
        Availability::Draining => "draining",
    }
}
