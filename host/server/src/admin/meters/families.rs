//! The metrics that are read at the scrape: their names, labels and values.

use std::collections::BTreeMap;

use pointsman_core::fleet::{Availability, Worker};
use pointsman_core::ids::{PartitionKey, WorkerId};
use pointsman_core::partition::Partition;
use pointsman_core::policy::{BreakerState, Usage};
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use crate::policies::PoliciesStatus;

pub(super) const PARTITION: [&str; 3] = ["model", "routing_group", "role"];
const WORKER: [&str; 4] = ["model", "routing_group", "role", "worker_id"];
pub(super) const ROW: [&str; 5] = ["model", "routing_group", "role", "worker_id", "dp_rank"];

/// One scrape's worth.
#[derive(Debug)]
pub(super) struct Families {
    registry: Registry,
    workers: IntGaugeVec,
    ejections: IntCounterVec,
    active_requests: IntGaugeVec,
    active_prefill_tokens: IntGaugeVec,
    active_decode_blocks: IntGaugeVec,
    live_leases: IntGaugeVec,
    decisions: IntCounterVec,
    fallbacks: IntCounterVec,
    all_filtered: IntCounterVec,
    bypassed: IntCounterVec,
    breakers: IntGaugeVec,
    disabled: IntGaugeVec,
    memory: IntGaugeVec,
    most_memory: IntGaugeVec,
    replaced: IntCounterVec,
    failures: IntCounterVec,
    active: IntGaugeVec,
    refused: IntGaugeVec,
    configuration_refused: IntGaugeVec,
    components: IntCounterVec,
    reloads: IntCounterVec,
    reload_seconds: Gauge,
    reload_refusals: IntCounter,
}

impl Families {
    pub(super) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let by_cause = [&PARTITION[..], &["cause"]].concat();
        let by_type = [&PARTITION[..], &["type"]].concat();
        let by_availability = [&PARTITION[..], &["availability"]].concat();
        let reload_seconds = Gauge::new(
            "pointsman_policy_reload_seconds",
            "How long the last reload took that found something to do",
        )?;
        registry.register(Box::new(reload_seconds.clone()))?;
        let reload_refusals = IntCounter::new(
            "pointsman_policy_refusals_total",
            "Components and configurations that reloads refused",
        )?;
        registry.register(Box::new(reload_refusals.clone()))?;
        Ok(Self {
            workers: gauge("pointsman_workers", "Registered workers", &by_availability)?,
            ejections: counter(
                "pointsman_worker_ejections_total",
                "How often a worker was left out for failures in a row, in its present life",
                &WORKER,
            )?,
            active_requests: gauge(
                "pointsman_worker_active_requests",
                "Requests booked on a rank and not yet released",
                &ROW,
            )?,
            active_prefill_tokens: gauge(
                "pointsman_worker_active_prefill_tokens",
                "Prompt tokens of a rank's requests that have no first token",
                &ROW,
            )?,
            active_decode_blocks: gauge(
                "pointsman_worker_active_decode_blocks",
                "KV blocks of a rank's active requests",
                &ROW,
            )?,
            live_leases: gauge(
                "pointsman_live_leases",
                "Bookings that have not been given back",
                &PARTITION,
            )?,
            decisions: counter("pointsman_policy_decisions_total", "Decisions made", &PARTITION)?,
            fallbacks: counter(
                "pointsman_policy_fallbacks_total",
                "Decisions made by another policy than the configured one",
                &PARTITION,
            )?,
            all_filtered: counter(
                "pointsman_policy_all_filtered_total",
                "Requests whose every eligible row was filtered out",
                &PARTITION,
            )?,
            bypassed: counter(
                "pointsman_policy_bypassed_filters_total",
                "Filters that rejected every row and were left out for that",
                &PARTITION,
            )?,
            breakers: gauge(
                "pointsman_policy_breaker",
                "1 for how the breaker of a policy's instance stands",
                &[&PARTITION[..], &["type", "state"]].concat(),
            )?,
            disabled: gauge(
                "pointsman_policy_disabled",
                "1 for instances that an operator has turned off",
                &["instance"],
            )?,
            memory: gauge(
                "pointsman_policy_memory_bytes",
                "Memory of a policy's instances",
                &by_type,
            )?,
            most_memory: gauge(
                "pointsman_policy_memory_high_water_bytes",
                "The most memory that one of a policy's instances ever had",
                &by_type,
            )?,
            replaced: counter(
                "pointsman_policy_instances_replaced_total",
                "Instances replaced for having too much memory, or lost by a failure",
                &[&PARTITION[..], &["type", "why"]].concat(),
            )?,
            failures: counter("pointsman_policy_failures_total", "Failed policies", &by_cause)?,
            active: gauge(
                "pointsman_policy_active",
                "1 for the version of a component type that decides",
                &["type", "digest"],
            )?,
            refused: gauge(
                "pointsman_policy_refused",
                "1 when what the folder has of a component type doesn't decide",
                &["type"],
            )?,
            configuration_refused: gauge(
                "pointsman_configuration_refused",
                "1 when the configuration file as it is isn't in force",
                &[],
            )?,
            components: counter(
                "pointsman_component_events_total",
                "What happened to components: compiled, instances made and lost, and so on",
                &["event"],
            )?,
            reloads: counter(
                "pointsman_policy_reloads_total",
                "Reloads that found something to do",
                &["outcome"],
            )?,
            reload_seconds,
            reload_refusals,
            registry,
        })
    }

    pub(super) fn workers(&self, workers: &[Worker]) {
        for worker in workers {
            let [model, group, role] = labels(&worker.spec.partition);
            // Every word is there, at zero at least, so that an alert on it can be written.
            for availability in ["ready", "unhealthy", "overloaded", "draining"] {
                let gauge = self.workers.with_label_values(&[model, group, role, availability]);
                gauge.add(i64::from(word(worker.availability) == availability));
            }
        }
    }

    /// Of every worker, at zero at least.
    pub(super) fn ejections(&self, workers: &[Worker], ejections: &BTreeMap<WorkerId, u64>) {
        for worker in workers {
            let [model, group, role] = labels(&worker.spec.partition);
            let id = worker.spec.worker_id;
            let counter = self.ejections.with_label_values(&[model, group, role, &*id.to_string()]);
            counter.inc_by(ejections.get(&id).copied().unwrap_or_default());
        }
    }

    pub(super) fn partition(&self, partition: &Partition) {
        let [model, group, role] = labels(partition.key());
        let here = &[model, group, role];
        let ledger = partition.ledger();
        self.live_leases.with_label_values(here).set(whole(ledger.live_leases()));
        for row in ledger.loads() {
            let id = row.worker.worker_id.to_string();
            let rank = row.worker.dp_rank.to_string();
            let at = &[model, group, role, &id, &rank];
            self.active_requests.with_label_values(at).set(whole(row.active_requests));
            self.active_prefill_tokens.with_label_values(at).set(whole(row.active_prefill_tokens));
            self.active_decode_blocks.with_label_values(at).set(whole(row.active_decode_blocks));
        }
        let counts = partition.counts();
        self.decisions.with_label_values(here).inc_by(counts.decisions);
        self.fallbacks.with_label_values(here).inc_by(counts.fallbacks);
        self.all_filtered.with_label_values(here).inc_by(counts.all_filtered);
        self.bypassed.with_label_values(here).inc_by(counts.bypassed);
        for (cause, count) in counts.failures {
            self.failures.with_label_values(&[model, group, role, cause.as_str()]).inc_by(count);
        }
    }

    pub(super) fn policies(&self, status: &PoliciesStatus) {
        for instance in &status.instances {
            let disabled = self.disabled.with_label_values(&[&*instance.name]);
            disabled.set(i64::from(instance.disabled));
            for at in &instance.partitions {
                let [model, group, role] = labels(&at.partition);
                // Of several instances of one type, the one that is asked least is shown.
                let mut worst: BTreeMap<&str, BreakerState> = BTreeMap::new();
                for one in &at.instances {
                    let breaker = worst.entry(&one.policy_type).or_default();
                    *breaker = (*breaker).max(one.breaker);
                    if let Some(Usage { memory_bytes, most_memory_bytes, recycled, lost }) =
                        one.usage
                    {
                        let here = [model, group, role, &*one.policy_type];
                        self.memory.with_label_values(&here).add(whole(memory_bytes));
                        let most = self.most_memory.with_label_values(&here);
                        most.set(most.get().max(whole(most_memory_bytes)));
                        for (why, count) in [("memory", recycled), ("failure", lost)] {
                            let labels = [model, group, role, &*one.policy_type, why];
                            self.replaced.with_label_values(&labels).inc_by(count);
                        }
                    }
                }
                for (policy_type, breaker) in worst {
                    for state in BreakerState::ALL {
                        let labels = [model, group, role, policy_type, state.as_str()];
                        let is = i64::from(state == breaker);
                        self.breakers.with_label_values(&labels).set(is);
                    }
                }
            }
        }
        for one in &status.types {
            if let Some(digest) = &one.active_digest {
                self.active.with_label_values(&[&*one.policy_type, &*digest.0]).set(1);
            }
            let refused = self.refused.with_label_values(&[&*one.policy_type]);
            refused.set(i64::from(one.error.is_some()));
        }
        let refused = status.configuration_error.is_some();
        self.configuration_refused.with_label_values::<&str>(&[]).set(i64::from(refused));
        for (event, count) in &status.components {
            self.components.with_label_values(&[event]).inc_by(*count);
        }
        let reloads = &status.reloads;
        self.reloads.with_label_values(&["installed"]).inc_by(reloads.installed);
        let without = reloads.attempts.saturating_sub(reloads.installed);
        self.reloads.with_label_values(&["unchanged"]).inc_by(without);
        self.reload_refusals.inc_by(reloads.refused);
        self.reload_seconds.set(reloads.last_millis as f64 / 1_000.0);
    }

    pub(super) fn encode(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

pub(super) fn labels(partition: &PartitionKey) -> [&str; 3] {
    [&partition.model, &partition.routing_group, partition.role.as_str()]
}

fn word(availability: Availability) -> &'static str {
    match availability {
        Availability::Ready => "ready",
        Availability::Unhealthy => "unhealthy",
        Availability::Overloaded => "overloaded",
        Availability::Draining => "draining",
    }
}

pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
