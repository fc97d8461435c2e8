//! A classifier's values as the contract's, and back.

use std::sync::Arc;

use pointsman_core::classifier::{
    Admission, Capacity, ClassifierEnvironment, ClassifyRequest, LifecycleEvent, LiveRequest,
    Release, Verdict,
};
use pointsman_core::ids::{DpRank, WorkerId, WorkerTarget};

use super::{partition, session, target, trigger, worker};
use crate::bindings::exports::pointsman::policy::request_classifier as to;

/// An environment's texts and lists, which the guest's environment borrows.
pub(crate) struct ClassifierText<'a> {
    parameters: String,
    router_config: String,
    classes: Vec<&'a str>,
    workers: Vec<to::Capacity>,
}

impl<'a> ClassifierText<'a> {
    pub(crate) fn new(environment: &'a ClassifierEnvironment) -> Result<Self, serde_json::Error> {
        Ok(Self {
            parameters: serde_json::to_string(&*environment.parameters)?,
            router_config: serde_json::to_string(&*environment.settings)?,
            classes: environment.policy_classes.iter().map(|class| &**class).collect(),
            workers: capacities(&environment.workers),
        })
    }

    pub(crate) fn environment<'b>(
        &'b self,
        environment: &'b ClassifierEnvironment,
    ) -> to::ClassifierEnvironment<'b> {
        to::ClassifierEnvironment {
            partition: partition(&environment.partition, environment.block_size),
            parameters: &self.parameters,
            router_config: &self.router_config,
            policy_classes: &self.classes,
            workers: &self.workers,
            seed: environment.seed,
        }
    }
}

pub(crate) fn capacities(workers: &[Capacity]) -> Vec<to::Capacity> {
    let of = |capacity: &Capacity| to::Capacity {
        worker: worker(capacity.worker),
        total_kv_blocks: capacity.total_kv_blocks,
    };
    workers.iter().map(of).collect()
}

pub(crate) fn classify_request<'a>(request: &ClassifyRequest<'a>) -> to::ClassifyRequest<'a> {
    let arrival = request.arrival;
    to::ClassifyRequest {
        request_id: &arrival.request_id,
        policy_class: &arrival.policy_class,
        input_tokens: arrival.input_tokens,
        progress_tokens: request.progress_tokens,
        session: arrival.session.as_ref().map(session),
        trigger: trigger(arrival.trigger),
        pinned_worker: arrival.pinned_worker.map(target),
        expected_output_tokens: arrival.expected_output_tokens,
        priority_jump: arrival.priority_jump,
        strict_priority: arrival.strict_priority,
        due_at_ms: arrival.due_at_ms,
        scheduling_cost_tokens: arrival.scheduling_cost_tokens.get(),
        arrived_at_ms: request.arrived_at_ms,
        now_ms: request.now_ms,
    }
}

/// Calls `tell` with an event as a guest is told.
pub(crate) fn with_event<R>(
    event: &LifecycleEvent<'_>,
    tell: impl FnOnce(to::LifecycleEvent<'_>) -> R,
) -> R {
    let workers;
    tell(match *event {
        LifecycleEvent::Inherited(live) => to::LifecycleEvent::Inherited(live_request(&live)),
        LifecycleEvent::Admitted(id) => to::LifecycleEvent::Admitted(id),
        LifecycleEvent::Sent(id, at) => to::LifecycleEvent::Sent((id, worker(at))),
        LifecycleEvent::Responding(id) => to::LifecycleEvent::Responding(id),
        LifecycleEvent::Completed(id, tokens) => to::LifecycleEvent::Completed((id, tokens)),
        LifecycleEvent::Aborted(id, at) => to::LifecycleEvent::Aborted((id, at.map(worker))),
        LifecycleEvent::FleetChanged(fleet) => {
            workers = capacities(fleet);
            to::LifecycleEvent::FleetChanged(&workers)
        }
        LifecycleEvent::Tick => to::LifecycleEvent::Tick,
    })
}

fn live_request<'a>(live: &LiveRequest<'a>) -> to::LiveRequest<'a> {
    let admitted = live.admitted;
    to::LiveRequest {
        request: to::ClassifyRequest {
            policy_class: &admitted.policy_class,
            due_at_ms: admitted.due_at_ms,
            scheduling_cost_tokens: admitted.scheduling_cost_tokens.get(),
            ..classify_request(&live.request)
        },
        worker: live.worker.map(worker),
        responding: live.responding,
    }
}

pub(crate) fn verdict(of: to::Verdict) -> Verdict {
    match of {
        to::Verdict::Admit(admission) => Verdict::Admit(Admission {
            policy_class: admission.policy_class.map(Arc::from),
            due_at_ms: admission.due_at_ms,
            scheduling_cost_tokens: admission.scheduling_cost_tokens,
            selection_target: admission.selection_target.map(|target| WorkerTarget {
                worker_id: WorkerId(target.id),
                dp_rank: target.dp_rank.map(DpRank),
            }),
        }),
        to::Verdict::Hold => Verdict::Hold,
        to::Verdict::Reject(why) => Verdict::Reject(why),
    }
}

pub(crate) fn release(of: to::Release) -> Release {
    Release { request_id: of.request_id.into(), verdict: verdict(of.verdict) }
}
