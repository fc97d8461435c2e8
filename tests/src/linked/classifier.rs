//! A classifier written with the SDK, linked natively, as the host's [`RequestClassifier`].

use std::sync::Arc;

use pointsman_core::classifier::{
    Admission, Capacity, ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider,
    ClassifyRequest, LifecycleEvent, LiveRequest, Release, RequestClassifier, Verdict,
};
use pointsman_core::ids::{DpRank, WorkerId, WorkerTarget};
use pointsman_core::policy::{InstantiateError, StageError};
use pointsman_core::testing::MadeClassifier;
use pointsman_sdk::classifier as sdk;

use super::{refused, role, session, target, trigger, worker};

/// The classifier `C` as a classifier type under a name of its own.
#[must_use]
pub fn linked_classifier<C: sdk::Classifier>(name: &'static str) -> Arc<dyn ClassifierProvider> {
    Arc::new(MadeClassifier::fallible(name, move |environment| {
        let instance = configured::<C>(environment)
            .map_err(|reason| InstantiateError::Refused { policy_type: name.to_owned(), reason })?;
        Ok(Box::new(Linked(instance)))
    }))
}

fn configured<C: sdk::Classifier>(of: &ClassifierEnvironment) -> Result<sdk::Instance, String> {
    let json = |value: serde_json::Result<String>| value.map_err(|error| error.to_string());
    let environment = sdk::ClassifierEnvironment {
        partition: pointsman_sdk::Partition {
            model: of.partition.model.to_string(),
            routing_group: of.partition.routing_group.to_string(),
            role: role(of.partition.role),
            block_size: of.block_size,
        },
        parameters: json(serde_json::to_string(&*of.parameters))?,
        router_config: json(serde_json::to_string(&*of.settings))?,
        policy_classes: of.policy_classes.iter().map(ToString::to_string).collect(),
        workers: capacities(&of.workers),
        seed: of.seed,
    };
    sdk::Instance::configure::<C>(&environment).map_err(|refusal| refusal.to_string())
}

fn capacities(of: &[Capacity]) -> Vec<sdk::Capacity> {
    let capacity = |of: &Capacity| sdk::Capacity {
        worker: worker(of.worker),
        total_kv_blocks: of.total_kv_blocks,
    };
    of.iter().map(capacity).collect()
}

/// One linked instance.
#[derive(Debug)]
struct Linked(sdk::Instance);

fn request(of: &ClassifyRequest<'_>) -> sdk::ClassifyRequest {
    let arrival = of.arrival;
    sdk::ClassifyRequest {
        request_id: arrival.request_id.to_string(),
        policy_class: arrival.policy_class.to_string(),
        input_tokens: arrival.input_tokens,
        progress_tokens: of.progress_tokens,
        session: arrival.session.as_ref().map(session),
        trigger: arrival.trigger.map(trigger),
        pinned_worker: arrival.pinned_worker.map(target),
        expected_output_tokens: arrival.expected_output_tokens,
        priority_jump: arrival.priority_jump,
        strict_priority: arrival.strict_priority,
        due_at_ms: arrival.due_at_ms,
        scheduling_cost_tokens: arrival.scheduling_cost_tokens.get(),
        arrived_at_ms: of.arrived_at_ms,
        now_ms: of.now_ms,
    }
}

fn live(of: &LiveRequest<'_>) -> sdk::LiveRequest {
    sdk::LiveRequest {
        request: sdk::ClassifyRequest {
            policy_class: of.admitted.policy_class.to_string(),
            due_at_ms: of.admitted.due_at_ms,
            scheduling_cost_tokens: of.admitted.scheduling_cost_tokens.get(),
            ..request(&of.request)
        },
        worker: of.worker.map(worker),
        responding: of.responding,
    }
}

fn event(of: &LifecycleEvent<'_>) -> sdk::LifecycleEvent {
    use sdk::LifecycleEvent as To;
    match *of {
        LifecycleEvent::Inherited(ref request) => To::Inherited(live(request)),
        LifecycleEvent::Admitted(id) => To::Admitted(id.to_owned()),
        LifecycleEvent::Sent(id, to) => To::Sent(id.to_owned(), worker(to)),
        LifecycleEvent::Responding(id) => To::Responding(id.to_owned()),
        LifecycleEvent::Completed(id, tokens) => To::Completed(id.to_owned(), tokens),
        LifecycleEvent::Aborted(id, of) => To::Aborted(id.to_owned(), of.map(worker)),
        LifecycleEvent::FleetChanged(workers) => To::FleetChanged(capacities(workers)),
        LifecycleEvent::Tick => To::Tick,
    }
}

fn verdict(of: sdk::Verdict) -> Verdict {
    match of {
        sdk::Verdict::Admit(with) => Verdict::Admit(Admission {
            policy_class: with.policy_class.map(Into::into),
            due_at_ms: with.due_at_ms,
            scheduling_cost_tokens: with.scheduling_cost_tokens,
            selection_target: with.selection_target.map(|target| WorkerTarget {
                worker_id: WorkerId(target.id),
                dp_rank: target.dp_rank.map(DpRank),
            }),
        }),
        sdk::Verdict::Hold => Verdict::Hold,
        sdk::Verdict::Reject(words) => Verdict::Reject(words),
    }
}

impl RequestClassifier for Linked {
    fn declaration(&self) -> ClassifierDeclaration {
        let declared = self.0.declaration();
        ClassifierDeclaration { tick_ms: declared.tick_ms, most_held: declared.most_held }
    }

    fn classify(&mut self, of: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
        self.0.classify(&request(of)).map(verdict).map_err(refused)
    }

    fn on_event(
        &mut self,
        of: &LifecycleEvent<'_>,
        now_ms: u64,
    ) -> Result<Vec<Release>, StageError> {
        let releases = self.0.on_event(&event(of), now_ms).map_err(refused)?;
        let release = |of: sdk::Release| Release {
            request_id: of.request_id.into(),
            verdict: verdict(of.verdict),
        };
        Ok(releases.into_iter().map(release).collect())
    }
}
