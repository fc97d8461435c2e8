//! The core's values as the contract's, and back.
//!
//! Everything that crosses the boundary is turned here. Going in, texts and columns are borrowed;
//! coming out, a declaration is checked before anything believes it.

mod classifier;
mod declaration;

use std::sync::Arc;

use pointsman_core::fleet::Snapshot;
use pointsman_core::ids::{PartitionKey, Role, WorkerRank, WorkerTarget};
use pointsman_core::outcome::{DecisionOutcome, Ending, OutcomeEvent};
use pointsman_core::policy::candidates::Block;
use pointsman_core::policy::{Candidates, Input, PolicyEnvironment, RequestView};
use pointsman_core::request::{InputTrigger, Session};
use smallvec::SmallVec;

use crate::bindings::exports::pointsman::policy::{fleet, observer, worker_selection};
use crate::bindings::pointsman::policy::types;
pub(crate) use classifier::{ClassifierText, classify_request, release, verdict, with_event};
pub(crate) use declaration::{declaration, is_name};

/// An environment's texts, which the guest's environment borrows.
pub(crate) struct EnvironmentText {
    parameters: String,
    router_config: String,
}

impl EnvironmentText {
    pub(crate) fn new(environment: &PolicyEnvironment) -> Result<Self, serde_json::Error> {
        Ok(Self {
            parameters: serde_json::to_string(&*environment.parameters)?,
            router_config: serde_json::to_string(&*environment.settings)?,
        })
    }

    pub(crate) fn environment<'a>(
        &'a self,
        environment: &'a PolicyEnvironment,
    ) -> worker_selection::Environment<'a> {
        worker_selection::Environment {
            partition: partition(&environment.partition, environment.block_size),
            parameters: &self.parameters,
            router_config: &self.router_config,
            seed: environment.seed,
        }
    }
}

fn partition(key: &PartitionKey, block_size: u32) -> types::Partition<'_> {
    let PartitionKey { model, routing_group, role: of } = key;
    types::Partition { model, routing_group, role: role(*of), block_size }
}

fn role(role: Role) -> types::Role {
    match role {
        Role::Aggregated => types::Role::Aggregated,
        Role::Prefill => types::Role::Prefill,
        Role::Decode => types::Role::Decode,
        Role::Encode => types::Role::Encode,
    }
}

/// A request as a guest gets it, with what few have.
pub(crate) fn request<'a>(
    view: &RequestView<'a>,
    details: &'a [types::Detail<'a>],
) -> types::Request<'a> {
    let mut traits = types::RequestTraits::empty();
    if view.tracks_prefill_tokens {
        traits |= types::RequestTraits::TRACKS_PREFILL_TOKENS;
    }
    if view.has_tier_matches {
        traits |= types::RequestTraits::HAS_TIER_MATCHES;
    }
    types::Request {
        decision_id: view.decision_id.0,
        prompt_tokens: view.prompt_tokens,
        expected_output_tokens: view.expected_output_tokens.unwrap_or(0),
        trigger: trigger(view.trigger),
        traits,
        now_ms: view.moment.now_ms,
        seed: view.moment.seed,
        // An empty list would be allocated.
        details: (!details.is_empty()).then_some(details),
    }
}

/// What few calls bring along.
fn detail<'a>(
    view: &RequestView<'a>,
    identity: Option<&'a [u64]>,
    hashes: &'a [u64],
    details: &mut Details<'a>,
) {
    use types::Detail as To;
    if let Some(of) = view.session {
        details.push(To::Session(session(of)));
    }
    if let Some(of) = view.affinity_target {
        details.push(To::AffinityTarget(target(of)));
    }
    if let Some(of) = view.pinned_worker {
        details.push(To::PinnedWorker(worker(of)));
    }
    if view.priority_jump != 0.0 {
        details.push(To::PriorityJump(view.priority_jump));
    }
    if view.strict_priority != 0 {
        details.push(To::StrictPriority(view.strict_priority));
    }
    if let Some(of) = view.router_temperature {
        details.push(To::RouterTemperature(of));
    }
    if let Some(words) = identity {
        details.push(To::Identity(words));
    }
    if !hashes.is_empty() {
        details.push(To::PrefixHashes(hashes));
    }
}

fn session(session: &Session) -> types::Session<'_> {
    types::Session {
        id: &session.id,
        parent_id: session.parent_id.as_deref(),
        final_: session.is_final,
        evict: session.evict,
    }
}

fn trigger(trigger: Option<InputTrigger>) -> types::InputTrigger {
    match trigger {
        None => types::InputTrigger::Unknown,
        Some(InputTrigger::UserMessage) => types::InputTrigger::UserMessage,
        Some(InputTrigger::ToolResult) => types::InputTrigger::ToolResult,
        Some(InputTrigger::Other) => types::InputTrigger::Other,
    }
}

fn worker(rank: WorkerRank) -> types::Worker {
    types::Worker { id: rank.worker_id.0, dp_rank: rank.dp_rank.0 }
}

fn target(target: WorkerTarget) -> types::WorkerTarget {
    types::WorkerTarget { id: target.worker_id.0, dp_rank: target.dp_rank.map(|rank| rank.0) }
}

/// What few calls bring along, of which each stands there once.
pub(crate) type Details<'a> = SmallVec<[types::Detail<'a>; 8]>;

/// What a guest was told before, and need not be told again.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Whether it takes rows in fewer numbers.
    pub(crate) compact: bool,
    /// The fleet whose rows' identity it was given last; none if that was of some other rows.
    fleet: Option<Arc<Snapshot>>,
}

/// The rows of a call; their buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    numbers: Vec<f64>,
    identity: Vec<u64>,
}

impl Lists {
    /// The rows as a stage that declared `inputs` gets them; what the call brings along goes into
    /// `details`. Copies columns only where they don't already stand as the stage wants them.
    pub(crate) fn given<'a>(
        &'a mut self,
        view: &RequestView<'a>,
        rows: &Candidates<'a>,
        inputs: &[Input],
        known: &mut Known,
        details: &mut Details<'a>,
    ) -> types::Candidates<'a> {
        let Self { numbers, identity } = self;
        let Block { uniform, numbers } = match rows.block_of(inputs) {
            Some(block) if known.compact || block.uniform == 0 => block,
            _ => gather(numbers, rows, inputs, known.compact),
        };
        let candidates = types::Candidates {
            rows: u32::try_from(rows.rows()).unwrap_or(u32::MAX),
            uniform,
            numbers,
        };
        let ids = rows.identity().filter(|_| inputs.contains(&Input::Identity));
        let identity = ids.and_then(|ids| known.identify(identity, rows.fleet(), ids));
        detail(view, identity, rows.prefix_hashes(), details);
        candidates
    }
}

impl Known {
    /// The rows' identity, unless it is known.
    fn identify<'a>(
        &mut self,
        words: &'a mut Vec<u64>,
        fleet: Option<&Arc<Snapshot>>,
        ids: &[WorkerRank],
    ) -> Option<&'a [u64]> {
        let known = self.fleet.as_ref().zip(fleet);
        if self.compact && known.is_some_and(|(known, fleet)| Arc::ptr_eq(known, fleet)) {
            return None;
        }
        words.clear();
        words.extend(ids.iter().map(|row| row.worker_id.0));
        words.extend(ids.iter().map(|row| u64::from(row.dp_rank.0)));
        self.fleet = fleet.filter(|_| self.compact).cloned();
        Some(words)
    }
}

/// Copies a stage's columns: as they are, or what is one number as that number.
fn gather<'a>(
    numbers: &'a mut Vec<f64>,
    rows: &Candidates<'_>,
    inputs: &[Input],
    compact: bool,
) -> Block<'a> {
    numbers.clear();
    let columns = || inputs.iter().copied().filter(|input| input.is_column());
    let number = |input: Input| rows.uniform(input).filter(|_| compact);
    for column in columns().filter(|input| number(*input).is_none()) {
        numbers.extend_from_slice(rows.column(column).unwrap_or_default());
    }
    numbers.extend(columns().filter_map(number));
    let uniform = columns().enumerate().filter(|(_, input)| number(*input).is_some());
    Block { uniform: uniform.fold(0, |mask, (at, _)| mask | 1 << at), numbers }
}

/// What became of a decision, as a guest is told.
pub(crate) fn outcome(of: &DecisionOutcome) -> observer::Outcome<'_> {
    use observer::OutcomeEvent as To;
    observer::Outcome {
        decision_id: of.decision_id.0,
        worker: worker(of.worker),
        at_ms: of.at_ms,
        event: match &of.event {
            OutcomeEvent::Dispatched => To::Dispatched,
            OutcomeEvent::FirstToken => To::FirstToken,
            OutcomeEvent::Ended(Ending::Completed { output_tokens }) => {
                To::Completed(*output_tokens)
            }
            OutcomeEvent::Ended(Ending::Failed { reason }) => To::Failed(reason),
            OutcomeEvent::Ended(Ending::Cancelled) => To::Cancelled,
        },
    }
}

/// Calls `tell` with the fleet's members, one per rank.
pub(crate) fn with_members<R>(fleet: &Snapshot, tell: impl FnOnce(&[fleet::Member<'_>]) -> R) -> R {
    let taints: Vec<Vec<&str>> =
        fleet.workers.iter().map(|w| w.spec.taints.iter().map(String::as_str).collect()).collect();
    let labels: Vec<Vec<(&str, &str)>> = fleet
        .workers
        .iter()
        .map(|w| w.spec.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
        .collect();
    let of_rows = fleet.rows.iter().zip(&fleet.worker_of_row);
    let members = of_rows.filter_map(|(&row, &at)| {
        let at = at as usize;
        let spec = &fleet.workers.get(at)?.spec;
        Some(fleet::Member {
            worker: worker(row),
            taints: taints.get(at)?,
            labels: labels.get(at)?,
            total_kv_blocks: spec.total_kv_blocks,
            max_batched_tokens: spec.max_num_batched_tokens,
            device_kind: spec.device_kind.as_deref(),
        })
    });
    tell(&members.collect::<Vec<_>>())
}
