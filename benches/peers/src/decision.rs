//! A whole decision: hash a prompt, look it up, select, reserve, free.
//!
//! The prompts and caches are those of `pointsman_benches::decision`. With the index off, both predict
//! caches from their decisions. What a caller has anyway (tokens, ids, the request's value) is made before the clock starts;
//! what only one of the two needs isn't.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use dynamo_custom_policy_builtin::default_factory;
use dynamo_kv_router::identity::RoutingPartitionId;
use dynamo_kv_router::indexer::KvIndexerInterface as _;
use dynamo_kv_router::protocols::{
    BlockHashOptions, ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheStoreData,
    KvCacheStoredBlockData, RouterEvent, RoutingConstraints, StorageTier,
    compute_block_hash_for_seq, compute_seq_hash_for_block,
};
use dynamo_kv_router::services::indexer::backend::Indexer;
use dynamo_kv_router::services::selection::{
    PromptRequest, SelectAndReserveRequest, SelectionCacheConfig, SelectionCore, WorkerRequest,
};
use dynamo_kv_router::{KvRouterConfig, WorkerSelectionPolicy, WorkerSelectionPolicyFactory};
use pointsman_benches::decision::{Deciding, PROMPTS, depth, held, prompt};
use pointsman_benches::fleet::BLOCK_SIZE;
use pointsman_core::policy::Catalog;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::bytes::{allocations_of, counted};
use crate::timing::in_turns;

/// The peer's library of sockets has about a thousand for a process.
pub const MOST_SOCKETS: u64 = 1_024;

/// Microseconds and allocations for one decision.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub workers: u64,
    /// Whether engines tell of their caches.
    pub index: &'static str,
    pub peer_us: f64,
    pub ours_us: f64,
    pub peer_linked_us: f64,
    pub peer_plugin_us: f64,
    pub peer_allocations: f64,
    pub ours_allocations: f64,
}

struct Peer {
    core: SelectionCore,
    n: usize,
    /// Ready to be sent, the next at the end.
    requests: Vec<(String, SelectAndReserveRequest)>,
    prompts: Vec<Vec<u32>>,
}

impl Peer {
    fn new(
        runtime: &Runtime,
        factory: WorkerSelectionPolicyFactory,
        workers: u64,
        index: bool,
    ) -> Result<Self> {
        let config = KvRouterConfig {
            use_kv_events: index,
            router_queue_threshold: None,
            ..KvRouterConfig::default()
        };
        let core = SelectionCore::try_new_local(
            config,
            1,
            Default::default(),
            SelectionCacheConfig::default(),
            factory,
        )?;
        let prompts: Vec<Vec<u32>> = (0..PROMPTS).map(prompt).collect();
        runtime.block_on(async {
            for id in 0..workers {
                core.upsert_worker(WorkerRequest {
                    worker_id: id,
                    endpoint: Some(format!("http://worker-{id}:8000")),
                    // Nobody listens there: events are given below.
                    kv_events_endpoint: index.then(|| format!("tcp://127.0.0.1:{}", 1 + id)),
                    block_size: Some(BLOCK_SIZE),
                    max_num_batched_tokens: Some(8_192),
                    ..WorkerRequest::default()
                })
                .await?;
            }
            if index { fill(&core, &prompts, workers).await } else { Ok(()) }
        })?;
        Ok(Self { core, n: 0, requests: vec![], prompts })
    }

    fn prepare(&mut self, times: usize) {
        for _ in 0..times {
            self.n += 1;
            let id = format!("bench-{}", self.n);
            let request = SelectAndReserveRequest {
                model_name: "default".to_owned(),
                routing_group: "default".to_owned(),
                selection_id: Some(id.clone()),
                prompt: PromptRequest {
                    token_ids: Some(self.prompts[self.n % PROMPTS].clone()),
                    ..PromptRequest::default()
                },
                router_config_override: None,
                expected_output_tokens: None,
                priority_jump: None,
                strict_priority: None,
                session_id: None,
                session_context: None,
                affinity_target: None,
                pinned_worker: None,
                allowed_worker_ids: None,
                routing_constraints: RoutingConstraints::default(),
            };
            self.requests.push((id, request));
        }
    }

    /// Decides all that is prepared; returns the last answer's worker.
    fn decide(&mut self, runtime: &Runtime) -> Result<u64> {
        let Self { core, requests, .. } = self;
        let mut worker = 0;
        for (id, request) in requests.drain(..) {
            worker = runtime.block_on(async {
                let response = core.select_and_reserve(request).await?;
                core.free_reservation(&id).await?;
                anyhow::Ok(black_box(response).worker_id)
            })?;
        }
        Ok(worker)
    }
}

/// Tells the peer's index what its workers hold.
async fn fill(core: &SelectionCore, prompts: &[Vec<u32>], workers: u64) -> Result<()> {
    let partition = core.partition(&RoutingPartitionId::new("default", "default"));
    let indexer = partition.context("its workers began it")?.indexer().clone();
    for worker in 0..workers {
        let tokens = &prompts[worker as usize % PROMPTS];
        let local = compute_block_hash_for_seq(tokens, BLOCK_SIZE, BlockHashOptions::default());
        let chain = compute_seq_hash_for_block(&local);
        let blocks = local.iter().zip(&chain).take(depth(worker));
        let blocks = blocks.map(|(&tokens_hash, &name)| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(name),
            tokens_hash,
            mm_extra_info: None,
        });
        let data = KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: None,
            start_position: None,
            blocks: blocks.collect(),
        });
        let event = KvCacheEvent { event_id: 1, dp_rank: 0, data };
        let event = RouterEvent::with_storage_tier(worker, event, StorageTier::Device);
        indexer.apply_event_routed(event).await?;
    }
    if let Indexer::Single { primary, .. } = &indexer {
        primary.flush().await;
    }
    Ok(())
}

/// All that decide, and how often they are to in a round.
struct Contest {
    runtime: Runtime,
    linked: Peer,
    plugin: Peer,
    ours: Deciding,
    times: usize,
}

impl Contest {
    fn new(catalog: &Catalog, workers: u64, index: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let reference: WorkerSelectionPolicyFactory = Arc::new(|config, role, _| {
            WorkerSelectionPolicy::reference(config.clone(), role.default_selector_label())
        });
        let linked = Peer::new(&runtime, reference, workers, index)?;
        let plugin = Peer::new(&runtime, default_factory(), workers, index)?;
        let ours = Deciding::new(catalog, workers, index)?;
        drop(inside);
        let times = (20_000 / workers as usize).clamp(10, 100);
        Ok(Self { runtime, linked, plugin, ours, times })
    }

    fn prepare(&mut self, times: usize) {
        self.linked.prepare(times);
        self.plugin.prepare(times);
    }

    /// Until all is warm. With the index on, that all choose a worker that holds the most; several
    /// may.
    fn compare(&mut self, workers: u64, index: bool) -> Result<()> {
        for n in 1..=4 * PROMPTS {
            self.prepare(1);
            let peers = [self.linked.decide(&self.runtime)?, self.plugin.decide(&self.runtime)?];
            let ours = self.ours.decide()?;
            let held = |worker| held(worker, n % PROMPTS);
            let most = (0..workers).map(held).max().unwrap_or(0);
            for worker in peers.into_iter().chain([ours]).filter(|_| index) {
                let found = held(worker);
                ensure!(
                    found == most,
                    "decision {n}: {worker} has {found} of {most}; {peers:?}, {ours}"
                );
            }
        }
        Ok(())
    }
}

/// The same requests in turns, after the answers have been looked at.
pub fn measure(catalog: &Catalog, workers: u64, index: bool, rounds: usize) -> Result<Figures> {
    let mut contest = Contest::new(catalog, workers, index)?;
    contest.compare(workers, index)?;
    let seconds = in_turns(
        rounds,
        &mut contest,
        |all| all.prepare(all.times),
        [
            |all| all.linked.decide(&all.runtime).map(drop),
            |all| all.plugin.decide(&all.runtime).map(drop),
            |all| (0..all.times).try_for_each(|_| all.ours.decide().map(drop)),
        ],
    )?;
    let [peer_linked_us, peer_plugin_us, ours_us] =
        seconds.map(|seconds| seconds * 1e6 / contest.times as f64);
    contest.prepare(100);
    let Contest { runtime, linked, plugin, ours, .. } = &mut contest;
    let (answer, peers) = counted(|| linked.decide(runtime));
    answer?;
    let ours_allocations = allocations_of(100, || drop(ours.decide()));
    linked.core.shutdown();
    plugin.core.shutdown();
    Ok(Figures {
        workers,
        index: if index { "on" } else { "off" },
        peer_us: peer_linked_us.min(peer_plugin_us),
        ours_us,
        peer_linked_us,
        peer_plugin_us,
        peer_allocations: peers.allocations as f64 / 100.0,
        ours_allocations,
    })
}
