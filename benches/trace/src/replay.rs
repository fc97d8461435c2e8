//! One run: the trace, the router's core and the engines on a virtual clock.
//!
//! Owns the clock and the order of what happens at the same time: what was scheduled first, and an
//! arrival after all that is due by then. An engine tells of its cache when a prompt is done, what
//! it evicted first, as an engine does at the end of a step; the router hears of it after the lag.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::ledger::Lease;
use pointsman_core::partition::{Mode, Partition};
use pointsman_core::policy::selection::{InstanceSpec, OnFailure, Recipe, SelectionSpec, TypeUse};
use pointsman_core::policy::{Catalog, Limits, RouterSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};

use crate::engine::{Engine, FirstToken, RequestId};
use crate::requests::{BLOCK_SIZE, TraceRequest, mix};

/// The instance that decides.
const INSTANCE: &str = "measured";

/// What a run is made with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The policy's type.
    pub policy: String,
    /// Its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The router's settings.
    pub settings: RouterSettings,
    /// How many workers.
    pub workers: u64,
    /// Blocks of each one's memory.
    pub blocks: u32,
    /// How many times faster than recorded the requests come.
    pub speed: f64,
    /// How long answers take, over what the engine's model says; 0 ends a request with its first
    /// token, as on a worker that only computes prompts.
    pub answers: f64,
    /// How late the router hears of a change of an engine's cache; none is never.
    pub lag_us: Option<u64>,
    /// Of the decisions' random numbers.
    pub seed: u64,
}

/// What became of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// By whom.
    pub worker: usize,
    /// Whole blocks that were there.
    pub hits: usize,
    /// Prompt tokens that the router thought would be there.
    pub predicted_tokens: u64,
    /// From arrival to the beginning of its prompt.
    pub queued_us: u64,
    /// From arrival to the first token.
    pub first_token_us: u64,
}

/// What a run was.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One for each request of the trace.
    pub served: Vec<Served>,
    /// How long each worker computed prompts.
    pub busy_us: Vec<u64>,
    /// Blocks that lost their place, over all workers.
    pub evictions: u64,
    /// From the first arrival to the last one's end.
    pub span_us: u64,
}

/// What happens at a time.
#[derive(Debug)]
enum Occurrence {
    PromptDone { worker: usize },
    Finished { worker: usize, request: RequestId },
    Told { worker: usize, request: RequestId, hits: usize, evicted: Vec<u64> },
}

struct Run<'a> {
    trace: &'a [TraceRequest],
    setup: &'a Setup,
    router: Router,
    partition: Arc<Partition>,
    engines: Vec<Engine>,
    leases: BTreeMap<RequestId, Lease>,
    /// What is due, by time and the order of scheduling.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    occurrences: BTreeMap<u64, Occurrence>,
    next: u64,
    arrivals_us: Vec<u64>,
    outcome: Outcome,
}

/// Replays the trace.
pub fn replay(trace: &[TraceRequest], setup: &Setup) -> Result<Outcome> {
    let key = PartitionKey { model: "m".into(), routing_group: "g".into(), role: Role::Aggregated };
    let router = Router::new(policies(setup), setup.seed);
    for worker in 0..setup.workers {
        let spec = WorkerSpec::new(WorkerId(worker), "http://w", key.clone());
        router.upsert_worker(WorkerSpec {
            block_size: NonZeroU32::new(BLOCK_SIZE).context("a block has tokens")?,
            total_kv_blocks: Some(u64::from(setup.blocks)),
            ..spec
        })?;
    }
    let partition = router.partition(&key).context("a partition with workers")?;
    if setup.lag_us.is_some() {
        (0..setup.workers as usize)
            .for_each(|worker| partition.cache().expect_events(rank(worker)));
    }
    let mut run = Run {
        trace,
        setup,
        router,
        partition,
        engines: (0..setup.workers).map(|_| Engine::new(setup.blocks)).collect(),
        leases: BTreeMap::new(),
        due: BinaryHeap::new(),
        occurrences: BTreeMap::new(),
        next: 0,
        arrivals_us: trace.iter().map(|r| (r.arrival_us as f64 / setup.speed) as u64).collect(),
        outcome: Outcome {
            served: vec![Served::default(); trace.len()],
            busy_us: vec![],
            evictions: 0,
            span_us: 0,
        },
    };
    for request in 0..trace.len() {
        run.until(run.arrivals_us[request]);
        run.arrive(request, &key)?;
    }
    run.until(u64::MAX);
    run.outcome.busy_us = run.engines.iter().map(|engine| engine.busy_us).collect();
    Ok(run.outcome)
}

impl Run<'_> {
    fn schedule(&mut self, at_us: u64, occurrence: Occurrence) {
        self.due.push(Reverse((at_us, self.next)));
        self.occurrences.insert(self.next, occurrence);
        self.next += 1;
    }

    /// Lets all happen that is due by then.
    fn until(&mut self, until_us: u64) {
        while let Some(&Reverse((now_us, number))) = self.due.peek() {
            if now_us > until_us {
                break;
            }
            self.due.pop();
            if let Some(occurrence) = self.occurrences.remove(&number) {
                self.outcome.span_us = now_us;
                self.happen(occurrence, now_us);
            }
        }
    }

    fn arrive(&mut self, request: RequestId, key: &PartitionKey) -> Result<()> {
        let facts = &self.trace[request];
        let now_us = self.arrivals_us[request];
        let mut route = RouteRequest::new("r", key.clone(), facts.prompt_tokens);
        route.prompt_tokens_exact = true;
        route.chain = facts.chain.clone();
        let moment = Moment { now_ms: now_us / 1_000, seed: seed_of(self.setup.seed, request) };
        let decision = self.router.route(&route, moment, Mode::Book)?;
        let worker = decision.receipt.worker.worker_id.0 as usize;
        self.leases.extend(decision.lease.map(|lease| (request, lease)));
        self.outcome.served[request].worker = worker;
        self.outcome.served[request].predicted_tokens = decision.receipt.predicted_cached_tokens;
        self.engines[worker].enqueue(request);
        self.begin(worker, now_us);
        Ok(())
    }

    fn begin(&mut self, worker: usize, now_us: u64) {
        let Some(begun) = self.engines[worker].begin(self.trace, now_us) else { return };
        let served = &mut self.outcome.served[begun.request];
        served.hits = begun.hits;
        served.queued_us = now_us - self.arrivals_us[begun.request];
        self.schedule(begun.done_us, Occurrence::PromptDone { worker });
    }

    fn happen(&mut self, occurrence: Occurrence, now_us: u64) {
        match occurrence {
            Occurrence::PromptDone { worker } => {
                let done = self.engines[worker].first_token(self.trace, now_us, self.setup.answers);
                let Some(FirstToken { request, end_us, hits, evicted }) = done else { return };
                let waited = now_us - self.arrivals_us[request];
                self.outcome.served[request].first_token_us = waited;
                self.outcome.evictions += evicted.len() as u64;
                if let Some(lease) = self.leases.get_mut(&request) {
                    lease.prefill_done();
                }
                match self.setup.lag_us {
                    Some(0) => self.tell(worker, request, hits, &evicted),
                    Some(lag) => {
                        let told = Occurrence::Told { worker, request, hits, evicted };
                        self.schedule(now_us + lag, told);
                    }
                    None => {}
                }
                self.schedule(end_us, Occurrence::Finished { worker, request });
                self.begin(worker, now_us);
            }
            Occurrence::Finished { worker, request } => {
                self.engines[worker].finish(request);
                self.leases.remove(&request);
                self.begin(worker, now_us);
            }
            Occurrence::Told { worker, request, hits, evicted } => {
                self.tell(worker, request, hits, &evicted);
            }
        }
    }

    /// The router hears what a prompt did to an engine's cache.
    fn tell(&self, worker: usize, request: RequestId, hits: usize, evicted: &[u64]) {
        let (cache, rank) = (self.partition.cache(), rank(worker));
        if !evicted.is_empty() {
            let names: Vec<u64> = evicted.iter().copied().map(name).collect();
            cache.apply(rank, CacheEvent::Removed { engines: &names, tier: Tier::Device });
        }
        let TraceRequest { chain, blocks, .. } = &self.trace[request];
        if hits < chain.len() {
            let names: Vec<u64> = chain[hits..].iter().copied().map(name).collect();
            let stored = Stored {
                parent: hits.checked_sub(1).map(|before| name(chain[before])),
                engines: &names,
                content: Content::Blocks(&blocks[hits..]),
                tier: Tier::Device,
            };
            cache.apply(rank, CacheEvent::Stored(stored));
        }
    }
}

/// The seed of a request's decision.
#[must_use]
pub fn seed_of(seed: u64, request: RequestId) -> u64 {
    mix(seed ^ mix(request as u64))
}

/// What engines call a prefix: something else than we do, and all alike.
fn name(sequence: u64) -> u64 {
    mix(!sequence)
}

fn rank(worker: usize) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(worker as u64), dp_rank: DpRank(0) }
}

fn policies(setup: &Setup) -> Policies {
    let instance = InstanceSpec::new(
        INSTANCE,
        Recipe::Whole(TypeUse {
            policy_type: setup.policy.as_str().into(),
            parameters: Arc::new(setup.parameters.clone()),
            limits: Limits::default(),
        }),
        OnFailure::Reject,
    );
    Policies {
        catalog: Catalog::builtin(),
        selection: SelectionSpec {
            roles: [(Role::Aggregated, INSTANCE.into())].into(),
            instances: vec![instance],
        },
        settings: Arc::new(setup.settings.clone()),
        ..Policies::default()
    }
}
