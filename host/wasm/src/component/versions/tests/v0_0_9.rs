//! An adapter for a contract that was never released: 0.0.9 of `tests/contracts`.
//!
//! What it has less is left out on the way in; what it answers otherwise is turned on the way out.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::exports::pointsman::policy::worker_selection as newest;
use crate::bindings::pointsman::policy::types::{
    Candidates, Detail, Partition, Request, RequestTraits, Role, Session, Worker, WorkerTarget,
};
use crate::component::guest::{Answer, Entries, Exports, Guest, Mismatch};
use crate::imports::State;

/// The fixture's own types: nothing but its adapter sees them.
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../tests/contracts/0.0.9",
        world: "policy",
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

use bindings::exports::pointsman::policy::worker_selection as old;
use bindings::pointsman::policy::types;

/// Tokens in a block of the test's partition, which later requests leave to their guests to know.
const BLOCK_SIZE: u64 = 16;

struct Found(old::GuestIndices);

struct Loaded(old::Guest);

pub(super) fn find(pre: &InstancePre<State>) -> wasmtime::Result<Arc<dyn Entries>> {
    Ok(Arc::new(Found(old::GuestIndices::new(pre)?)))
}

impl Entries for Found {
    fn exports(&self) -> Exports {
        Exports::default()
    }

    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<Box<dyn Guest>, Mismatch> {
        match self.0.load(&mut *store, instance) {
            Ok(guest) => Ok(Box::new(Loaded(guest))),
            Err(error) => Err(Mismatch::new("worker-selection", &error)),
        }
    }
}

impl Guest for Loaded {
    fn configure(
        &self,
        store: &mut Store<State>,
        environment: newest::Environment<'_>,
    ) -> Answer<newest::Declaration> {
        let newest::Environment { partition, parameters, router_config, seed } = environment;
        let Partition { model, routing_group, role, block_size } = partition;
        let role = match role {
            Role::Aggregated => types::Role::Aggregated,
            Role::Prefill => types::Role::Prefill,
            Role::Decode => types::Role::Decode,
            Role::Encode => types::Role::Encode,
        };
        let partition = types::Partition { model, routing_group, role, block_size };
        let environment = old::Environment { partition, parameters, router_config, seed };
        Ok(self.0.call_configure(store, environment)?.map(declaration))
    }

    fn keep(
        &self,
        store: &mut Store<State>,
        filter: u32,
        request_: Request<'_>,
        rows: Candidates<'_>,
    ) -> Answer<Vec<u64>> {
        let verdicts = self.0.call_keep(
            store,
            filter,
            request(&request_),
            candidates(&rows, &words(&request_)),
        )?;
        Ok(verdicts.map(|verdicts| mask(&verdicts, rows.rows as usize)))
    }

    fn score(
        &self,
        store: &mut Store<State>,
        scorer: u32,
        request_: Request<'_>,
        rows: Candidates<'_>,
    ) -> Answer<Vec<f64>> {
        let costs = self.0.call_score(
            store,
            scorer,
            request(&request_),
            candidates(&rows, &words(&request_)),
        )?;
        Ok(costs.map(|costs| costs.into_iter().map(f64::from).collect()))
    }

    fn pick(
        &self,
        store: &mut Store<State>,
        request_: Request<'_>,
        rows: Candidates<'_>,
        costs: &[f64],
    ) -> Answer<u32> {
        // Every sum is finite here, and stays so.
        let largest = f64::from(f32::MAX);
        let costs: Vec<f32> = costs.iter().map(|c| c.clamp(-largest, largest) as f32).collect();
        self.0.call_pick(store, request(&request_), candidates(&rows, &words(&request_)), &costs)
    }
}

/// Bits of one bool a row. What isn't one a row shows in the number of words, which the caller checks.
fn mask(verdicts: &[bool], rows: usize) -> Vec<u64> {
    if verdicts.len() != rows {
        return vec![0; rows.div_ceil(64) + 1];
    }
    let word = |bools: &[bool]| {
        bools.iter().enumerate().fold(0, |word, (at, &keeps)| word | (u64::from(keeps) << at))
    };
    verdicts.chunks(64).map(word).collect()
}

/// What it has of a request. Facts that are details today were fields then.
fn request<'a>(request: &Request<'a>) -> types::Request<'a> {
    let Request { decision_id, prompt_tokens, now_ms, seed, .. } = *request;
    let expected = request.expected_output_tokens;
    let has = |of| request.traits & of == of;
    let mut old = types::Request {
        decision_id,
        prompt_tokens,
        request_blocks: prompt_tokens.div_ceil(BLOCK_SIZE),
        tracks_prefill_tokens: has(RequestTraits::TRACKS_PREFILL_TOKENS),
        has_tier_matches: has(RequestTraits::HAS_TIER_MATCHES),
        session: None,
        affinity_target: None,
        pinned_worker: None,
        expected_output_tokens: (expected > 0).then_some(expected),
        priority_jump: 0.0,
        strict_priority: 0,
        router_temperature: None,
        now_ms,
        seed,
    };
    for detail in request.details.unwrap_or_default() {
        match detail {
            Detail::Session(of) => old.session = Some(session(of)),
            Detail::AffinityTarget(of) => old.affinity_target = Some(target(of)),
            Detail::PinnedWorker(of) => old.pinned_worker = Some(worker(of)),
            Detail::PriorityJump(of) => old.priority_jump = *of,
            Detail::StrictPriority(of) => old.strict_priority = *of,
            Detail::RouterTemperature(of) => old.router_temperature = Some(*of),
            Detail::Identity(_) | Detail::PrefixHashes(_) => {}
        }
    }
    old
}

fn session<'a>(session: &Session<'a>) -> types::Session<'a> {
    let Session { id, parent_id, final_, evict } = *session;
    types::Session { id, parent_id, final_, evict }
}

fn target(target: &WorkerTarget) -> types::WorkerTarget {
    types::WorkerTarget { id: target.id, dp_rank: target.dp_rank }
}

fn worker(worker: &Worker) -> types::Worker {
    types::Worker { id: worker.id, dp_rank: worker.dp_rank }
}

/// The rows as it has them: identity and hashes in one list.
fn words(request: &Request<'_>) -> Vec<u64> {
    let mut words = Vec::new();
    for detail in request.details.unwrap_or_default() {
        if let Detail::Identity(more) | Detail::PrefixHashes(more) = detail {
            words.extend_from_slice(more);
        }
    }
    words
}

fn candidates<'a>(candidates: &Candidates<'a>, words: &'a [u64]) -> types::Candidates<'a> {
    let Candidates { rows, numbers, .. } = *candidates;
    types::Candidates { rows, numbers, words }
}

fn declaration(declared: old::Declaration) -> newest::Declaration {
    let stages = |stages: Vec<old::Stage>| stages.into_iter().map(stage).collect();
    newest::Declaration {
        filters: stages(declared.filters),
        scorers: stages(declared.scorers),
        picker: declared.picker.map(stage),
        prefix_hash_blocks: declared.prefix_hash_blocks,
        properties: declared.properties,
    }
}

fn stage(stage: old::Stage) -> newest::Stage {
    newest::Stage { name: stage.name, inputs: stage.inputs }
}
