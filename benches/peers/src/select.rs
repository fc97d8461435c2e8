//! From a request and what the fleet carries and holds to a row; nothing is looked up or booked.
//!
//! The inputs are those of `pointsman_benches::selection`, which are the peer's own bench's. Between two
//! selections one row's prompt tokens and the prompt's length change, inside the timed regions. The peer is the faster of its two: the selector that is
//! linked into its router, and the plugin of its own that takes its place.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use dynamo_custom_policy_builtin::default_policy;
use dynamo_kv_router::protocols::{RoutingConstraints, WorkerConfigLike, WorkerWithDpRank};
use dynamo_kv_router::scheduling::{OverlapSignals, ScheduleMode};
use dynamo_kv_router::{
    DefaultWorkerSelector, KvRouterConfig, SchedulingRequest, WorkerLoadProjection,
    WorkerSelectionInput, WorkerSelectionPolicy, WorkerSelector,
};
use pointsman_benches::fleet::BLOCK_SIZE;
use pointsman_benches::selection::{Change, PROMPT_BLOCKS, PROMPT_TOKENS, Selection, row};
use pointsman_core::policy::Catalog;
use pointsman_core::policy::pipeline::Selected;
use serde::Serialize;

use crate::bytes::allocations_of;
use crate::timing::in_turns;

/// Microseconds and allocations for one selection.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub rows: u64,
    pub peer_us: f64,
    pub native_us: f64,
    pub component_us: f64,
    pub peer_linked_us: f64,
    pub peer_plugin_us: f64,
    pub peer_allocations: f64,
    pub native_allocations: f64,
    pub component_allocations: f64,
}

/// A worker as the peer's own bench has it.
#[derive(Default)]
struct PeerWorker {
    taints: HashSet<String>,
}

impl WorkerConfigLike for PeerWorker {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }

    fn data_parallel_size(&self) -> u32 {
        1
    }

    fn max_num_batched_tokens(&self) -> Option<u64> {
        None
    }

    fn total_kv_blocks(&self) -> Option<u64> {
        Some(131_072)
    }

    fn taints(&self) -> &HashSet<String> {
        &self.taints
    }
}

struct Peer<S> {
    selector: S,
    workers: HashMap<u64, PeerWorker>,
    request: SchedulingRequest,
    n: u64,
}

impl<S: WorkerSelector<PeerWorker>> Peer<S> {
    fn new(selector: S, rows: u64) -> Self {
        let mut overlap = OverlapSignals::default();
        let mut worker_loads = rustc_hash::FxHashMap::default();
        for id in 0..rows {
            let (rank, given) = (WorkerWithDpRank::from_worker_id(id), row(id));
            let blocks = given.effective_overlap_blocks;
            overlap.effective_overlap_blocks.insert(rank, blocks);
            let cached_tokens = blocks as usize * BLOCK_SIZE as usize;
            overlap.effective_cached_tokens.insert(rank, cached_tokens);
            let load = WorkerLoadProjection {
                active_prefill_tokens: given.active_prefill_tokens as usize,
                active_decode_blocks: given.active_decode_blocks as usize,
                active_requests: given.active_requests as usize,
                // Nobody shares a block of the prompt, here as with us.
                additional_active_blocks: PROMPT_BLOCKS,
            };
            worker_loads.insert(rank, load);
        }
        let request = SchedulingRequest {
            mode: ScheduleMode::QueryOnly { request_id: None },
            token_seq: None,
            isl_tokens: PROMPT_TOKENS as usize,
            lora_name: None,
            expected_output_tokens: Some(256),
            affinity_target: None,
            pinned_worker: None,
            allowed_worker_ids: None,
            routing_constraints: RoutingConstraints::default(),
            router_config_override: None,
            track_prefill_tokens: true,
            priority_jump: 0.0,
            strict_priority: 0,
            policy_class: None,
            session_context: None,
            overlap,
            kv_transfer_candidates: None,
            retain_kv_transfer_chain: false,
            shared_cache_hits: None,
            worker_loads,
            resp_tx: None,
        };
        let workers = (0..rows).map(|id| (id, PeerWorker::default())).collect();
        Self { selector, workers, request, n: 0 }
    }

    fn select(&mut self) -> Result<u64> {
        let change = Change::new(self.n, self.workers.len() as u64);
        self.n += 1;
        let rank = WorkerWithDpRank::from_worker_id(change.row);
        let load = self.request.worker_loads.get_mut(&rank).context("its load is there")?;
        load.active_prefill_tokens = change.row_tokens as usize;
        self.request.isl_tokens = change.prompt_tokens as usize;
        let input = WorkerSelectionInput::configured(
            black_box(&self.workers),
            black_box(&self.request),
            self.request.eligibility(),
            BLOCK_SIZE,
        );
        Ok(self.selector.select_worker(input)?.worker.worker_id)
    }
}

/// All that select, and how often they are to in a round.
struct Contest {
    linked: Peer<DefaultWorkerSelector>,
    plugin: Peer<WorkerSelectionPolicy>,
    native: Selection,
    component: Selection,
    times: usize,
}

impl Contest {
    fn new(catalog: &Catalog, rows: u64) -> Result<Self> {
        let config = KvRouterConfig { router_temperature: 0.0, ..KvRouterConfig::default() };
        Ok(Self {
            linked: Peer::new(DefaultWorkerSelector::new(Some(config.clone()), "prefill"), rows),
            plugin: Peer::new(default_policy(config, "prefill"), rows),
            native: Selection::new(catalog, "default", rows)?,
            component: Selection::new(catalog, "default-cost", rows)?,
            times: (100_000 / rows as usize).clamp(10, 1_000),
        })
    }

    /// That all answers are the same, and those of ours at the same cost.
    fn compare(&mut self, rows: u64) -> Result<()> {
        let mut chosen = HashSet::new();
        for n in 0..2 * rows.min(512) {
            let (theirs, plugins) = (self.linked.select()?, self.plugin.select()?);
            let (native, component) = (self.native.select()?, self.component.select()?);
            let place = || format!("selection {n} of {rows} rows: {native:?} and {component:?}");
            ensure!(plugins == theirs, "{}: the peers' are {theirs} and {plugins}", place());
            ensure!(native.row as u64 == theirs, "{}: the peer's is {theirs}", place());
            let bits = |selected: Selected| (selected.row, selected.cost.to_bits(), selected.kept);
            ensure!(bits(native) == bits(component), "{}", place());
            chosen.insert(theirs);
        }
        ensure!(chosen.len() > 1, "all selections of {rows} rows are the same");
        Ok(())
    }
}

fn repeat<T>(times: usize, mut what: impl FnMut() -> Result<T>) -> Result<()> {
    (0..times).try_for_each(|_| what().map(|answer| drop(black_box(answer))))
}

/// The same selections in turns, after the answers have been compared.
pub fn measure(catalog: &Catalog, rows: u64, rounds: usize) -> Result<Figures> {
    let mut contest = Contest::new(catalog, rows)?;
    contest.compare(rows)?;
    let seconds = in_turns(
        rounds,
        &mut contest,
        |_| {},
        [
            |all| repeat(all.times, || all.linked.select()),
            |all| repeat(all.times, || all.plugin.select()),
            |all| repeat(all.times, || all.native.select()),
            |all| repeat(all.times, || all.component.select()),
        ],
    )?;
    let [peer_linked_us, peer_plugin_us, native_us, component_us] =
        seconds.map(|seconds| seconds * 1e6 / contest.times as f64);
    let Contest { linked, native, component, .. } = &mut contest;
    Ok(Figures {
        rows,
        peer_us: peer_linked_us.min(peer_plugin_us),
        native_us,
        component_us,
        peer_linked_us,
        peer_plugin_us,
        peer_allocations: allocations_of(100, || drop(linked.select())),
        native_allocations: allocations_of(100, || drop(native.select())),
        component_allocations: allocations_of(100, || drop(component.select())),
    })
}
