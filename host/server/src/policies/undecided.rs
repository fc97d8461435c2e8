//! Partitions whose policy can decide nothing now, though their owner lets nobody stand in.
//!
//! Owns what is known of that without asking a policy: there is no good version of its component, or its
//! breaker is open. One whose breaker is to be tried is let try, or it would never close. It doesn't
//! know workers, or who asks.

use std::sync::Arc;

use pointsman_core::ids::PartitionKey;
use pointsman_core::partition::Partition;
use pointsman_core::policy::breaker::BreakerState;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::policy::{InstanceSpec, OnFailure};
use pointsman_core::router::Router;
use serde::Serialize;

use super::state::State;

/// A partition whose requests are all refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undecided {
    /// Where.
    #[serde(flatten)]
    pub partition: PartitionKey,
    /// Why, in the router's own words: whoever asks may have no token.
    pub reason: String,
}

/// A partition, with the types in it whose failure refuses the request, and those of them that fail
/// for want of a good version.
struct Suspect {
    partition: Arc<Partition>,
    instance: Arc<str>,
    strict: Vec<Arc<str>>,
    missing: Option<Arc<str>>,
}

/// Those of a router's partitions. Waits for decisions of partitions whose policy may refuse.
pub(super) fn find(
    state: &parking_lot::Mutex<State>,
    router: &Router,
    now_ms: u64,
) -> Vec<Undecided> {
    let suspects = suspects(&state.lock(), router);
    suspects.into_iter().filter_map(|suspect| suspect.judge(now_ms)).collect()
}

fn suspects(state: &State, router: &Router) -> Vec<Suspect> {
    let selection = &state.wish.selection;
    let suspect = |partition: Arc<Partition>| {
        let spec = selection.instance(partition.key().role)?;
        let strict = strict(&spec);
        let lacks = |policy_type: &&Arc<str>| {
            let entry = state.types.get(*policy_type);
            entry.is_some_and(|entry| entry.active.is_none() && entry.stand_in.is_some())
        };
        let missing = strict.iter().find(lacks).cloned();
        // Who is turned off isn't asked: the built-in decides.
        let is_suspect = !strict.is_empty() && !partition.is_disabled();
        is_suspect.then(|| Suspect { partition, instance: spec.name.clone(), strict, missing })
    };
    router.partitions().into_iter().filter_map(suspect).collect()
}

/// The types of an instance that a decision can't do without.
fn strict(spec: &InstanceSpec) -> Vec<Arc<str>> {
    match &spec.recipe {
        Recipe::Whole(whole) if spec.on_failure == OnFailure::Reject => {
            vec![whole.policy_type.clone()]
        }
        Recipe::Whole(_) => Vec::new(),
        Recipe::Composed { filters, scorers, picker } => {
            let stages = filters.iter().chain(scorers).chain(picker);
            let strict = stages.filter(|stage| stage.on_failure == OnFailure::Reject);
            strict.map(|stage| stage.source.policy_type.clone()).collect()
        }
    }
}

impl Suspect {
    fn judge(self, now_ms: u64) -> Option<Undecided> {
        let Self { partition, instance, strict, missing } = self;
        let why = match missing {
            Some(policy_type) => {
                format!("there is no good version of its policy type {policy_type:?}")
            }
            None => {
                let standing = partition.standing(now_ms);
                let open = standing.into_iter().find(|one| {
                    one.breaker == BreakerState::Open && strict.contains(&one.policy_type)
                })?;
                let wait = open.open_for_ms.unwrap_or_default();
                format!(
                    "it failed {} times in a row, and isn't asked for {wait} ms",
                    open.failures_in_a_row
                )
            }
        };
        let reason = format!(
            "policy {instance:?} refuses every request: {why}, and its on_failure is reject; see GET /v1/policies"
        );
        Some(Undecided { partition: partition.key().clone(), reason })
    }
}
