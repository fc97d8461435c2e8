//! The component's exports, on top of [`Instance`].
//!
//! Called by the functions that `export_policy!` writes into the author's crate. Values move across
//! without copies: strings and lists are the ones that the host wrote into this memory.

mod classifier;
mod fused;

use std::cell::RefCell;
use std::marker::PhantomData;

pub use classifier::{ClassifierComponent, Described};
pub use fused::decide;

use crate::bindings::description::exports::pointsman::policy::about;
use crate::bindings::exports::pointsman::policy::{fleet, handover, observer, worker_selection};
use crate::bindings::pointsman::policy::{log as host_log, types as wit};
use crate::declaration::{Declaration, Stage};
use crate::instance::{Decision, Instance};
use crate::lists::Lists;
use crate::log::Level;
use crate::parameters::Parameters;
use crate::policy::Policy;
use crate::request::{
    Environment, InputTrigger, Partition, Request, Role, Session, Worker, WorkerTarget,
};
use crate::{Refusal, log};

/// A policy as the contract's exports.
#[derive(Debug)]
pub struct Component<P>(PhantomData<P>);

thread_local! {
    static CONFIGURED: RefCell<Option<Configured>> = const { RefCell::new(None) };
}

/// The instance, with what a call needn't bring along again.
struct Configured {
    instance: Instance,
    /// The rows' identity, as it was given last.
    identity: Vec<u64>,
    /// The last decision, for its memory.
    decision: Decision,
}

/// Runs `call` on the configured instance.
fn with<R>(call: impl FnOnce(&mut Configured) -> Result<R, Refusal>) -> Result<R, String> {
    CONFIGURED.with_borrow_mut(|configured| match configured {
        Some(configured) => call(configured).map_err(Refusal::into_message),
        None => Err("the instance was called before it was configured".to_owned()),
    })
}

/// Runs a stage's `call` on the configured instance.
#[inline(always)]
fn with_rows<R>(
    request: wit::Request,
    candidates: wit::Candidates,
    call: impl FnOnce(&mut Instance, &Request, Lists<'_>) -> Result<R, Refusal>,
) -> Result<R, String> {
    with(|Configured { instance, identity, .. }| {
        let mut prefix_hashes = Vec::new();
        let block_size = instance.block_size();
        let request = given(request, block_size, identity, &mut prefix_hashes);
        let lists = Lists {
            rows: candidates.rows,
            uniform: candidates.uniform,
            numbers: &candidates.numbers,
            identity,
            prefix_hashes: &prefix_hashes,
        };
        call(instance, &request, lists)
    })
}

/// The request, without what came along with it that is of its rows.
#[inline(always)]
fn given(
    request: wit::Request,
    block_size: u64,
    identity: &mut Vec<u64>,
    prefix_hashes: &mut Vec<u64>,
) -> Request {
    let mut given = bare(&request, block_size);
    for detail in request.details.into_iter().flatten() {
        match detail {
            wit::Detail::Session(of) => given.session = Some(of.into()),
            wit::Detail::AffinityTarget(of) => given.affinity_target = Some(of.into()),
            wit::Detail::PinnedWorker(of) => given.pinned_worker = Some(of.into()),
            wit::Detail::PriorityJump(of) => given.priority_jump = of,
            wit::Detail::StrictPriority(of) => given.strict_priority = of,
            wit::Detail::RouterTemperature(of) => given.router_temperature = Some(of),
            wit::Detail::Identity(of) => *identity = of,
            wit::Detail::PrefixHashes(of) => *prefix_hashes = of,
        }
    }
    given
}

/// The request without its details.
#[inline(always)]
fn bare(request: &wit::Request, block_size: u64) -> Request {
    let traits = request.traits;
    Request {
        decision_id: request.decision_id,
        prompt_tokens: request.prompt_tokens,
        request_blocks: request.prompt_tokens.div_ceil(block_size),
        tracks_prefill_tokens: traits.contains(wit::RequestTraits::TRACKS_PREFILL_TOKENS),
        has_tier_matches: traits.contains(wit::RequestTraits::HAS_TIER_MATCHES),
        session: None,
        trigger: trigger(request.trigger),
        affinity_target: None,
        pinned_worker: None,
        expected_output_tokens: Some(request.expected_output_tokens).filter(|&tokens| tokens > 0),
        priority_jump: 0.0,
        strict_priority: 0,
        router_temperature: None,
        now_ms: request.now_ms,
        seed: request.seed,
    }
}

/// As [`with`], for calls that can't answer with an error.
fn tell(call: impl FnOnce(&mut Instance)) {
    if let Err(message) = with(|configured| Ok(call(&mut configured.instance))) {
        log::error(message);
    }
}

pub(crate) fn write_log(level: Level, message: &str) {
    let level = match level {
        Level::Error => host_log::Level::Error,
        Level::Warn => host_log::Level::Warn,
        Level::Info => host_log::Level::Info,
        Level::Debug => host_log::Level::Debug,
        Level::Trace => host_log::Level::Trace,
    };
    host_log::write(level, message);
}

impl<P: Policy> worker_selection::Guest for Component<P> {
    fn configure(
        environment: worker_selection::Environment,
    ) -> Result<worker_selection::Declaration, String> {
        // A panic ends in a trap that says nothing; the line before it says where and why.
        std::panic::set_hook(Box::new(|panic| log::error(panic.to_string())));
        let instance =
            Instance::configure::<P>(environment.into()).map_err(Refusal::into_message)?;
        let declaration = instance.declaration().into();
        CONFIGURED.set(Some(Configured {
            instance,
            identity: Vec::new(),
            decision: Decision::default(),
        }));
        Ok(declaration)
    }

    fn keep(
        filter: u32,
        request: wit::Request,
        candidates: wit::Candidates,
    ) -> Result<Vec<u64>, String> {
        with_rows(request, candidates, |instance, request, lists| {
            let mut mask = Vec::new();
            instance.keep(filter as usize, request, lists, &mut mask)?;
            Ok(mask)
        })
    }

    fn score(
        scorer: u32,
        request: wit::Request,
        candidates: wit::Candidates,
    ) -> Result<Vec<f64>, String> {
        with_rows(request, candidates, |instance, request, lists| {
            let mut costs = Vec::new();
            instance.score(scorer as usize, request, lists, &mut costs)?;
            Ok(costs)
        })
    }

    fn pick(
        request: wit::Request,
        candidates: wit::Candidates,
        costs: Vec<f64>,
    ) -> Result<u32, String> {
        with_rows(request, candidates, |instance, request, lists| {
            instance.pick(request, lists, &costs)
        })
    }
}

impl<P: Policy> about::Guest for Component<P> {
    fn describe() -> about::Description {
        let about = P::about();
        about::Description {
            name: about.name.to_owned(),
            version: about.version.to_owned(),
            summary: about.summary.to_owned(),
            parameters_schema: P::Parameters::SCHEMA.to_owned(),
        }
    }
}

impl<P: Policy> observer::Guest for Component<P> {
    fn observe(outcomes: Vec<observer::Outcome>) {
        let outcomes: Vec<_> = outcomes.into_iter().map(Into::into).collect();
        tell(|instance| instance.observe(&outcomes));
    }
}

impl<P: Policy> fleet::Guest for Component<P> {
    fn changed(generation: u64, members: Vec<fleet::Member>) {
        let members: Vec<_> = members.into_iter().map(Into::into).collect();
        tell(|instance| instance.fleet_changed(generation, &members));
    }
}

impl<P: Policy> handover::Guest for Component<P> {
    fn save() -> Result<Vec<u8>, String> {
        with(|configured| configured.instance.save())
    }

    fn restore(state: Vec<u8>) -> Result<(), String> {
        with(|configured| configured.instance.restore(&state))
    }
}

// === The contract's values as the crate's own ===

impl From<wit::Worker> for Worker {
    fn from(worker: wit::Worker) -> Self {
        Self { id: worker.id, dp_rank: worker.dp_rank }
    }
}

impl From<wit::WorkerTarget> for WorkerTarget {
    fn from(target: wit::WorkerTarget) -> Self {
        Self { id: target.id, dp_rank: target.dp_rank }
    }
}

impl From<wit::Partition> for Partition {
    fn from(partition: wit::Partition) -> Self {
        Self {
            model: partition.model,
            routing_group: partition.routing_group,
            role: match partition.role {
                wit::Role::Aggregated => Role::Aggregated,
                wit::Role::Prefill => Role::Prefill,
                wit::Role::Decode => Role::Decode,
                wit::Role::Encode => Role::Encode,
            },
            block_size: partition.block_size,
        }
    }
}

impl From<wit::Session> for Session {
    fn from(session: wit::Session) -> Self {
        Self {
            id: session.id,
            parent_id: session.parent_id,
            is_final: session.final_,
            evict: session.evict,
        }
    }
}

fn trigger(trigger: wit::InputTrigger) -> Option<InputTrigger> {
    match trigger {
        wit::InputTrigger::Unknown => None,
        wit::InputTrigger::UserMessage => Some(InputTrigger::UserMessage),
        wit::InputTrigger::ToolResult => Some(InputTrigger::ToolResult),
        wit::InputTrigger::Other => Some(InputTrigger::Other),
    }
}

impl From<worker_selection::Environment> for Environment {
    fn from(environment: worker_selection::Environment) -> Self {
        Self {
            partition: environment.partition.into(),
            parameters: environment.parameters,
            router_config: environment.router_config,
            seed: environment.seed,
        }
    }
}

impl From<&Declaration> for worker_selection::Declaration {
    fn from(declaration: &Declaration) -> Self {
        Self {
            filters: declaration.filters.iter().map(Into::into).collect(),
            scorers: declaration.scorers.iter().map(Into::into).collect(),
            picker: declaration.picker.as_ref().map(Into::into),
            prefix_hash_blocks: declaration.prefix_hash_blocks,
            properties: declaration.properties.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl From<&Stage> for worker_selection::Stage {
    fn from(stage: &Stage) -> Self {
        Self {
            name: stage.name.clone(),
            inputs: stage.inputs.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl From<observer::Outcome> for crate::Outcome {
    fn from(outcome: observer::Outcome) -> Self {
        use crate::observer::OutcomeEvent as Event;
        Self {
            decision_id: outcome.decision_id,
            worker: outcome.worker.into(),
            at_ms: outcome.at_ms,
            event: match outcome.event {
                observer::OutcomeEvent::Dispatched => Event::Dispatched,
                observer::OutcomeEvent::FirstToken => Event::FirstToken,
                observer::OutcomeEvent::Completed(tokens) => Event::Completed(tokens),
                observer::OutcomeEvent::Failed(message) => Event::Failed(message),
                observer::OutcomeEvent::Cancelled => Event::Cancelled,
            },
        }
    }
}

impl From<fleet::Member> for crate::Member {
    fn from(member: fleet::Member) -> Self {
        Self {
            worker: member.worker.into(),
            taints: member.taints,
            labels: member.labels,
            total_kv_blocks: member.total_kv_blocks,
            max_batched_tokens: member.max_batched_tokens,
            device_kind: member.device_kind,
        }
    }
}
