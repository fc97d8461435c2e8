//! A classifier's exports, on top of its [`Instance`].

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::bindings::classifier::exports::pointsman::policy::request_classifier as wit;
use crate::bindings::description::exports::pointsman::policy::about;
use crate::classifier::{
    Capacity, Classifier, ClassifierEnvironment, ClassifyRequest, Instance, LifecycleEvent,
    LiveRequest, Release, Verdict,
};
use crate::parameters::Parameters;
use crate::{Refusal, log};

/// A classifier as the contract's exports.
#[derive(Debug)]
pub struct ClassifierComponent<C>(PhantomData<C>);

/// What a classifier says of itself, as the contract's exports.
#[derive(Debug)]
pub struct Described<C>(PhantomData<C>);

thread_local! {
    static INSTANCE: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

fn with<R>(call: impl FnOnce(&mut Instance) -> Result<R, Refusal>) -> Result<R, String> {
    INSTANCE.with_borrow_mut(|instance| match instance {
        Some(instance) => call(instance).map_err(Refusal::into_message),
        None => Err("the classifier was called before it was configured".to_owned()),
    })
}

impl<C: Classifier> wit::Guest for ClassifierComponent<C> {
    fn configure_classifier(
        environment: wit::ClassifierEnvironment,
    ) -> Result<wit::ClassifierDeclaration, String> {
        // A panic ends in a trap that says nothing; the line before it says where and why.
        std::panic::set_hook(Box::new(|panic| log::error(panic.to_string())));
        let instance =
            Instance::configure::<C>(&environment.into()).map_err(Refusal::into_message)?;
        let declared = instance.declaration();
        INSTANCE.set(Some(instance));
        Ok(wit::ClassifierDeclaration { tick_ms: declared.tick_ms, most_held: declared.most_held })
    }

    fn classify(request: wit::ClassifyRequest) -> Result<wit::Verdict, String> {
        with(|instance| instance.classify(&request.into()).map(Into::into))
    }

    fn on_event(event: wit::LifecycleEvent, now_ms: u64) -> Result<Vec<wit::Release>, String> {
        with(|instance| {
            let releases = instance.on_event(&event.into(), now_ms)?;
            Ok(releases.into_iter().map(Into::into).collect())
        })
    }
}

impl<C: Classifier> about::Guest for Described<C> {
    fn describe() -> about::Description {
        let about = C::about();
        about::Description {
            name: about.name.to_owned(),
            version: about.version.to_owned(),
            summary: about.summary.to_owned(),
            parameters_schema: C::Parameters::SCHEMA.to_owned(),
        }
    }
}

// === The contract's values as the crate's own, and back ===

impl From<wit::Capacity> for Capacity {
    fn from(capacity: wit::Capacity) -> Self {
        Self { worker: capacity.worker.into(), total_kv_blocks: capacity.total_kv_blocks }
    }
}

impl From<wit::ClassifierEnvironment> for ClassifierEnvironment {
    fn from(environment: wit::ClassifierEnvironment) -> Self {
        Self {
            partition: environment.partition.into(),
            parameters: environment.parameters,
            router_config: environment.router_config,
            policy_classes: environment.policy_classes,
            workers: environment.workers.into_iter().map(Into::into).collect(),
            seed: environment.seed,
        }
    }
}

impl From<wit::ClassifyRequest> for ClassifyRequest {
    fn from(request: wit::ClassifyRequest) -> Self {
        Self {
            request_id: request.request_id,
            policy_class: request.policy_class,
            input_tokens: request.input_tokens,
            progress_tokens: request.progress_tokens,
            session: request.session.map(Into::into),
            trigger: super::trigger(request.trigger),
            pinned_worker: request.pinned_worker.map(Into::into),
            expected_output_tokens: request.expected_output_tokens,
            priority_jump: request.priority_jump,
            strict_priority: request.strict_priority,
            due_at_ms: request.due_at_ms,
            scheduling_cost_tokens: request.scheduling_cost_tokens,
            arrived_at_ms: request.arrived_at_ms,
            now_ms: request.now_ms,
        }
    }
}

impl From<wit::LiveRequest> for LiveRequest {
    fn from(live: wit::LiveRequest) -> Self {
        Self {
            request: live.request.into(),
            worker: live.worker.map(Into::into),
            responding: live.responding,
        }
    }
}

impl From<wit::LifecycleEvent> for LifecycleEvent {
    fn from(event: wit::LifecycleEvent) -> Self {
        use wit::LifecycleEvent as From;
        match event {
            From::Inherited(live) => Self::Inherited(live.into()),
            From::Admitted(id) => Self::Admitted(id),
            From::Sent((id, worker)) => Self::Sent(id, worker.into()),
            From::Responding(id) => Self::Responding(id),
            From::Completed((id, tokens)) => Self::Completed(id, tokens),
            From::Aborted((id, worker)) => Self::Aborted(id, worker.map(Into::into)),
            From::FleetChanged(workers) => {
                Self::FleetChanged(workers.into_iter().map(Into::into).collect())
            }
            From::Tick => Self::Tick,
        }
    }
}

impl From<Verdict> for wit::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Admit(admission) => Self::Admit(wit::Admission {
                policy_class: admission.policy_class,
                due_at_ms: admission.due_at_ms,
                scheduling_cost_tokens: admission.scheduling_cost_tokens,
                selection_target: admission
                    .selection_target
                    .map(|target| wit::WorkerTarget { id: target.id, dp_rank: target.dp_rank }),
            }),
            Verdict::Hold => Self::Hold,
            Verdict::Reject(why) => Self::Reject(why),
        }
    }
}

impl From<Release> for wit::Release {
    fn from(release: Release) -> Self {
        Self { request_id: release.request_id, verdict: release.verdict.into() }
    }
}
