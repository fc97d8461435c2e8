//! From a request to its partition's decision, by the way that it can go.

use std::sync::atomic::Ordering;

use super::Router;
use crate::admission::overdue;
use crate::clock::Moment;
use crate::eligibility::BusyThresholds;
use crate::error::RouteError;
use crate::ids::{DecisionId, PartitionKey, Role};
use crate::partition::{Decision, Mode};
use crate::request::RouteRequest;

impl Router {
    /// Decides. May wait for another decision of the same partition; a caller that must not wait
    /// lets only one in at a time.
    pub fn route(
        &self,
        request: &RouteRequest,
        moment: Moment,
        mode: Mode,
    ) -> Result<Decision, RouteError> {
        let partition = self
            .partition(&request.partition)
            .ok_or_else(|| RouteError::NoPartition(request.partition.clone()))?;
        let id = self.next_id();
        let hosted = (mode == Mode::Book).then(|| partition.decide_hosted(request, id, moment));
        match hosted.flatten() {
            Some(decision) => Ok(decision),
            None => partition.decide(request, &self.settings.load(), id, moment, mode),
        }
    }

    /// Decides and books if that can be done without waiting for anybody: where the policy needs
    /// nothing that its partition's lock guards. None where it can't; [`Router::route`] can then.
    #[must_use]
    pub fn route_hosted(&self, request: &RouteRequest, moment: Moment) -> Option<Decision> {
        let partition = self.partition(&request.partition)?;
        // Who comes too late is told so by the line.
        if !partition.is_hosted() || overdue(request, moment.now_ms).is_some() {
            return None;
        }
        partition.decide_hosted(request, self.next_id(), moment)
    }

    /// Sets beyond what a rank of a model's workers is busy, in the settings' place; none goes back to
    /// them. False if nobody has served the model lately. Waits for decisions that are being made.
    pub fn set_busy_thresholds(&self, model: &str, thresholds: Option<BusyThresholds>) -> bool {
        // No partition is begun meanwhile.
        let _policies = self.policies.lock();
        let all = self.partitions();
        let its = all.iter().filter(|partition| &*partition.key().model == model);
        its.map(|partition| partition.set_busy(thresholds)).count() > 0
    }

    /// The partition of a group and role in which some worker has a LoRA adapter of this name: the
    /// first by its model, if there are several. None if none has.
    #[must_use]
    pub fn partition_of_adapter(
        &self,
        adapter: &str,
        routing_group: &str,
        role: Role,
    ) -> Option<PartitionKey> {
        let mut first: Option<PartitionKey> = None;
        self.partitions.for_each(|partition| {
            let key = partition.key();
            let within = &*key.routing_group == routing_group && key.role == role;
            if !within || first.as_ref().is_some_and(|first| first < key) {
                return;
            }
            let snapshot = partition.ledger().snapshot();
            if snapshot.workers.iter().any(|worker| worker.spec.lora_adapters.contains(adapter)) {
                first = Some(key.clone());
            }
        });
        first
    }

    fn next_id(&self) -> DecisionId {
        DecisionId(self.next_decision.fetch_add(1, Ordering::Relaxed))
    }
}
