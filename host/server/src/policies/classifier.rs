//! How the request classifier does, for `GET /v1/policies` and `/metrics`.

use std::collections::BTreeMap;

use pointsman_core::classifier::{ClassifierCounts, ClassifierReport, ClassifierSpec};
use pointsman_core::ids::PartitionKey;
use pointsman_core::router::Router;
use serde::Serialize;

/// The request classifier, by the names that its keys have in the YAML.
#[derive(Clone, Debug, Serialize)]
pub struct ClassifierStatus {
    /// What it is.
    #[serde(flatten)]
    pub spec: ClassifierSpec,
    /// Where it serves.
    pub partitions: Vec<ClassifierPartition>,
}

/// What it did in one partition.
#[derive(Clone, Debug, Serialize)]
pub struct ClassifierPartition {
    /// Where.
    #[serde(flatten)]
    pub partition: PartitionKey,
    /// How its instance does.
    pub instance: Option<ClassifierReport>,
    /// What it did since the partition began, whichever classifier that was.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The same as [`ClassifierCounts`], failures by name.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// All but the failures.
    #[serde(flatten)]
    pub rest: ClassifierCounts,
    /// Failed calls by cause.
    pub failures: BTreeMap<&'static str, u64>,
}

impl ClassifierStatus {
    pub(super) fn of(spec: &ClassifierSpec, router: &Router, now_ms: u64) -> Self {
        let partitions = router.partitions().into_iter().filter_map(|partition| {
            if !ClassifierSpec::is_for(partition.key().role) {
                return None;
            }
            let mut rest = partition.desk().counts();
            let failures = std::mem::take(&mut rest.failures).into_iter();
            Some(ClassifierPartition {
                partition: partition.key().clone(),
                instance: partition.desk().report(now_ms),
                counts: Counts {
                    rest,
                    failures: failures.map(|(cause, count)| (cause.as_str(), count)).collect(),
                },
            })
        });
        Self { spec: spec.clone(), partitions: partitions.collect() }
    }
}
