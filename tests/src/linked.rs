//! A policy written with the SDK, linked natively, as the host's [`PolicyInstance`]: the baseline
//! that its component is compared with, in answers and in time.

mod classifier;

use std::sync::Arc;

use pointsman_core::fleet::Snapshot;
use pointsman_core::ids::{Role, WorkerRank, WorkerTarget};
use pointsman_core::outcome::{DecisionOutcome, Ending, OutcomeEvent};
use pointsman_core::policy::{
    Candidates, Declaration, Input, InstantiateError, Outcome, PolicyEnvironment, PolicyInstance,
    PolicyProvider, RequestView, RowMask, Stage, StageError,
};
use pointsman_core::request::{InputTrigger, Session};
use pointsman_core::testing::MadePolicy;
use pointsman_sdk as sdk;

pub use classifier::linked_classifier;

/// The policy `P` as a policy type under a name of its own.
#[must_use]
pub fn linked<P: sdk::Policy>(name: &'static str) -> Arc<dyn PolicyProvider> {
    Arc::new(MadePolicy::new(name, move |environment| {
        let instance = configured::<P>(environment)
            .map_err(|reason| InstantiateError::Refused { policy_type: name.to_owned(), reason })?;
        Ok(Box::new(instance))
    }))
}

fn configured<P: sdk::Policy>(environment: &PolicyEnvironment) -> Result<Linked, String> {
    let json = |value: serde_json::Result<String>| value.map_err(|error| error.to_string());
    let partition = &environment.partition;
    let configured = sdk::native::Instance::configure::<P>(sdk::Environment {
        partition: sdk::Partition {
            model: partition.model.to_string(),
            routing_group: partition.routing_group.to_string(),
            role: role(partition.role),
            block_size: environment.block_size,
        },
        parameters: json(serde_json::to_string(&*environment.parameters))?,
        router_config: json(serde_json::to_string(&*environment.settings))?,
        seed: environment.seed,
    });
    let instance = configured.map_err(|refusal| refusal.to_string())?;
    let declaration = declaration(instance.declaration())?;
    Ok(Linked {
        instance,
        union: declaration.union(),
        declaration,
        numbers: Vec::new(),
        identity: Vec::new(),
        mask: Vec::new(),
        costs: Vec::new(),
        decision: sdk::native::Decision::default(),
    })
}

fn role(role: Role) -> sdk::Role {
    match role {
        Role::Aggregated => sdk::Role::Aggregated,
        Role::Prefill => sdk::Role::Prefill,
        Role::Decode => sdk::Role::Decode,
        Role::Encode => sdk::Role::Encode,
    }
}

fn worker(row: WorkerRank) -> sdk::Worker {
    sdk::Worker { id: row.worker_id.0, dp_rank: row.dp_rank.0 }
}

fn trigger(trigger: InputTrigger) -> sdk::InputTrigger {
    match trigger {
        InputTrigger::UserMessage => sdk::InputTrigger::UserMessage,
        InputTrigger::ToolResult => sdk::InputTrigger::ToolResult,
        InputTrigger::Other => sdk::InputTrigger::Other,
    }
}

fn session(session: &Session) -> sdk::Session {
    sdk::Session {
        id: session.id.to_string(),
        parent_id: session.parent_id.as_ref().map(ToString::to_string),
        is_final: session.is_final,
        evict: session.evict,
    }
}

fn target(target: WorkerTarget) -> sdk::WorkerTarget {
    sdk::WorkerTarget { id: target.worker_id.0, dp_rank: target.dp_rank.map(|rank| rank.0) }
}

fn outcome(of: &DecisionOutcome) -> sdk::Outcome {
    let event = match &of.event {
        OutcomeEvent::Dispatched => sdk::OutcomeEvent::Dispatched,
        OutcomeEvent::FirstToken => sdk::OutcomeEvent::FirstToken,
        OutcomeEvent::Ended(Ending::Completed { output_tokens }) => {
            sdk::OutcomeEvent::Completed(*output_tokens)
        }
        OutcomeEvent::Ended(Ending::Failed { reason }) => {
            sdk::OutcomeEvent::Failed(reason.to_string())
        }
        OutcomeEvent::Ended(Ending::Cancelled) => sdk::OutcomeEvent::Cancelled,
    };
    let (decision_id, worker) = (of.decision_id.0, worker(of.worker));
    sdk::Outcome { decision_id, worker, at_ms: of.at_ms, event }
}

/// The rows as an instance is told of them.
fn members(fleet: &Snapshot) -> Vec<sdk::Member> {
    let member = |(at, &row): (usize, &WorkerRank)| {
        let spec = &fleet.worker(at)?.spec;
        Some(sdk::Member {
            worker: worker(row),
            taints: spec.taints.iter().cloned().collect(),
            labels: spec.labels.clone().into_iter().collect(),
            total_kv_blocks: spec.total_kv_blocks,
            max_batched_tokens: spec.max_num_batched_tokens,
            device_kind: spec.device_kind.clone(),
        })
    };
    fleet.rows.iter().enumerate().filter_map(member).collect()
}

fn declaration(of: &sdk::native::Declaration) -> Result<Declaration, String> {
    let stage = |stage: &sdk::native::Stage| {
        let inputs: Result<Vec<Input>, _> =
            stage.inputs.iter().map(|name| Input::from_name(name)).collect();
        Ok::<_, String>(Stage {
            name: stage.name.clone(),
            inputs: inputs.map_err(|e| e.to_string())?,
        })
    };
    let mut properties = pointsman_core::policy::Properties::default();
    for name in &of.properties {
        if !properties.set(name) {
            return Err(format!("unknown property {name}"));
        }
    }
    Ok(Declaration {
        filters: of.filters.iter().map(stage).collect::<Result<_, _>>()?,
        scorers: of.scorers.iter().map(stage).collect::<Result<_, _>>()?,
        picker: of.picker.as_ref().map(stage).transpose()?,
        prefix_hash_blocks: of.prefix_hash_blocks,
        properties,
    })
}

/// One linked instance.
#[derive(Debug)]
struct Linked {
    instance: sdk::native::Instance,
    declaration: Declaration,
    union: Vec<Input>,
    numbers: Vec<f64>,
    identity: Vec<u64>,
    mask: Vec<u64>,
    costs: Vec<f64>,
    decision: sdk::native::Decision,
}

/// The lists of one call: the matrix as it is when it fits, else a copy in `numbers`.
fn lists<'a>(
    inputs: &[Input],
    rows: &Candidates<'a>,
    numbers: &'a mut Vec<f64>,
    identity: &'a mut Vec<u64>,
) -> sdk::native::Lists<'a> {
    identity.clear();
    if inputs.contains(&Input::Identity) {
        let ids = rows.identity().unwrap_or_default();
        identity.extend(ids.iter().map(|id| id.worker_id.0));
        identity.extend(ids.iter().map(|id| u64::from(id.dp_rank.0)));
    }
    let (uniform, numbers) = match rows.block_of(inputs) {
        Some(block) => (block.uniform, block.numbers),
        None => {
            numbers.clear();
            for &input in inputs.iter().filter(|input| input.is_column()) {
                numbers.extend_from_slice(rows.column(input).unwrap_or_default());
            }
            (0, &**numbers)
        }
    };
    let prefix_hashes = rows.prefix_hashes();
    sdk::native::Lists { rows: rows.rows() as u32, uniform, numbers, identity, prefix_hashes }
}

fn request(view: &RequestView<'_>) -> sdk::Request {
    sdk::Request {
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

fn refused(refusal: sdk::Refusal) -> StageError {
    StageError::refused(refusal.to_string())
}

impl PolicyInstance for Linked {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        view: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let inputs = &self.declaration.filters[filter].inputs;
        let lists = lists(inputs, rows, &mut self.numbers, &mut self.identity);
        self.instance.keep(filter, &request(view), lists, &mut self.mask).map_err(refused)?;
        if verdicts.and(&self.mask) {
            Ok(())
        } else {
            Err(StageError::bad_output("the mask does not fit the rows"))
        }
    }

    fn score(
        &mut self,
        scorer: usize,
        view: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        let inputs = &self.declaration.scorers[scorer].inputs;
        let lists = lists(inputs, rows, &mut self.numbers, &mut self.identity);
        self.instance.score(scorer, &request(view), lists, &mut self.costs).map_err(refused)?;
        costs.copy_from_slice(&self.costs);
        Ok(())
    }

    fn pick(
        &mut self,
        view: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        let inputs = self.declaration.picker.as_ref().map_or(&[][..], |picker| &picker.inputs);
        let lists = lists(inputs, rows, &mut self.numbers, &mut self.identity);
        let row = self.instance.pick(&request(view), lists, costs).map_err(refused)?;
        Ok(row as usize)
    }

    fn decide(
        &mut self,
        view: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        let lists = lists(&self.union, rows, &mut self.numbers, &mut self.identity);
        self.instance.decide(&request(view), lists, &mut self.decision).map_err(refused)?;
        outcome.verdicts.keep_all(rows.rows());
        let verdicts = &self.decision.verdicts;
        if !verdicts.is_empty() && !outcome.verdicts.and(verdicts) {
            return Err(StageError::bad_output("the mask does not fit the rows"));
        }
        outcome.costs.clone_from(&self.decision.costs);
        outcome.row = self.decision.row as usize;
        Ok(())
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        self.instance.fleet_changed(fleet.generation, &members(fleet));
        Ok(())
    }

    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        self.instance.observe(&outcomes.iter().map(outcome).collect::<Vec<_>>());
        Ok(())
    }

    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        let can = self.declaration.properties.hands_over;
        can.then(|| self.instance.save().map_err(refused))
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StageError> {
        self.instance.restore(state).map_err(refused)
    }
}
