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
use pointsman_core::policy::{Candidates, Input, PolicyEnvironment, RequestView};
use pointsman_core::request::{InputTrigger, Session};

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

pub(crate) fn request<'a>(view: &RequestView<'a>) -> types::Request<'a> {
    types::Request {
        decision_id: view.decision_id.0,
        prompt_tokens: view.prompt_tokens,
        request_blocks: view.request_blocks,
        tracks_prefill_tokens: view.tracks_prefill_tokens,
        has_tier_matches: view.has_tier_matches,
        session: view.session.map(session),
        trigger: view.trigger.map(trigger),
        affinity_target: view.affinity_target.map(target),
        pinned_worker: view.pinned_worker.map(worker),
        expected_output_tokens: view.expected_output_tokens,
        priority_jump: view.priority_jump,
        strict_priority: view.strict_priority,
        router_temperature: view.router_temperature,
        now_ms: view.moment.now_ms,
        seed: view.moment.seed,
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

fn trigger(trigger: InputTrigger) -> types::InputTrigger {
    match trigger {
        InputTrigger::UserMessage => types::InputTrigger::UserMessage,
        InputTrigger::ToolResult => types::InputTrigger::ToolResult,
        InputTrigger::Other => types::InputTrigger::Other,
    }
}

fn worker(rank: WorkerRank) -> types::Worker {
    types::Worker { id: rank.worker_id.0, dp_rank: rank.dp_rank.0 }
}

fn target(target: WorkerTarget) -> types::WorkerTarget {
    types::WorkerTarget { id: target.worker_id.0, dp_rank: target.dp_rank.map(|rank| rank.0) }
}

/// The two flat lists of a call; their buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    numbers: Vec<f64>,
    /// The rows' identity, and then hashes.
    words: Vec<u64>,
    /// The fleet whose rows' identity `words` begins with; none if they are of some other rows.
    fleet: Option<Arc<Snapshot>>,
}

impl Lists {
    /// The rows as a stage that declared `inputs` gets them. Copies columns only where they don't
    /// already stand as the stage wants them.
    pub(crate) fn candidates<'a>(
        &'a mut self,
        rows: &Candidates<'a>,
        inputs: &[Input],
    ) -> types::Candidates<'a> {
        let block = rows.block_of(inputs);
        if block.is_none() {
            self.numbers.clear();
            for &input in inputs {
                if let Some(column) = rows.column(input) {
                    self.numbers.extend_from_slice(column);
                }
            }
        }
        let hashes = rows.prefix_hashes();
        let words = match rows.identity().filter(|_| inputs.contains(&Input::Identity)) {
            None => hashes,
            Some(identity) => {
                self.identify(rows, identity);
                self.words.extend_from_slice(hashes);
                &self.words
            }
        };
        types::Candidates {
            rows: u32::try_from(rows.rows()).unwrap_or(u32::MAX),
            numbers: block.unwrap_or(&self.numbers),
            words,
        }
    }

    /// Begins `words` with the rows' identity; that of a whole fleet stays until there is another.
    fn identify(&mut self, rows: &Candidates<'_>, identity: &[WorkerRank]) {
        let fleet = rows.fleet();
        let known = self.fleet.as_ref().zip(fleet);
        if known.is_some_and(|(known, fleet)| Arc::ptr_eq(known, fleet)) {
            self.words.truncate(2 * identity.len());
            return;
        }
        self.words.clear();
        self.words.extend(identity.iter().map(|row| row.worker_id.0));
        self.words.extend(identity.iter().map(|row| u64::from(row.dp_rank.0)));
        self.fleet = fleet.cloned();
    }
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
