//! A whole decision: hash a prompt, look it up, select, reserve, free.
//!
//! Sixteen prompts of 2,048 tokens take turns, which share their first half. With the index off, caches are
//! predicted from decisions. With it on, worker i holds the first (37 i % 128) + 1 blocks of prompt i % 16, told by
//! events.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{Catalog, RouterSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use serde_json::Map;

use crate::fleet::{self, BLOCK_SIZE};

/// How many prompts there are.
pub const PROMPTS: usize = 16;

const TOKENS: u32 = 2_048;
const BLOCKS: usize = (TOKENS / BLOCK_SIZE) as usize;

/// Tokens of a prompt.
#[must_use]
pub fn prompt(at: usize) -> Vec<u32> {
    let own =
        |token: u32| if token < TOKENS / 2 { token } else { token + TOKENS * (at as u32 + 1) };
    (0..TOKENS).map(own).collect()
}

/// How many blocks of a prompt of its own a worker holds.
#[must_use]
pub fn depth(worker: u64) -> usize {
    worker as usize * 37 % BLOCKS + 1
}

/// How many blocks of a prompt a worker holds.
#[must_use]
pub fn held(worker: u64, at: usize) -> usize {
    let is_its = worker as usize % PROMPTS == at;
    if is_its { depth(worker) } else { depth(worker).min(BLOCKS / 2) }
}

/// Our decisions.
#[derive(Debug)]
pub struct Deciding {
    router: Router,
    /// One for each prompt, whose chain is filled anew each time.
    requests: Vec<RouteRequest>,
    prompts: Vec<Vec<u32>>,
    chain: Vec<u64>,
    n: u64,
}

impl Deciding {
    /// Decisions over so many workers by the built-in `default`.
    pub fn new(catalog: &Catalog, workers: u64, index: bool) -> Result<Self> {
        let settings = RouterSettings { use_kv_events: index, ..RouterSettings::default() };
        let router = fleet::router(catalog, "default", &Map::new(), &Arc::new(settings), workers)?;
        let prompts: Vec<Vec<u32>> = (0..PROMPTS).map(prompt).collect();
        let mut chain = Vec::new();
        if index {
            let partition = fleet::partition(&router)?;
            for worker in 0..workers {
                let tokens = &prompts[worker as usize % PROMPTS];
                sequence_hashes(tokens, BLOCK_SIZE, Scope::default(), &mut chain);
                let engines = chain.get(..depth(worker)).context("a prompt has as many blocks")?;
                let content = Content::Sequences(engines);
                let stored = Stored { parent: None, engines, content, tier: Tier::Device };
                let rank = WorkerRank { worker_id: WorkerId(worker), dp_rank: DpRank(0) };
                partition.cache().apply(rank, CacheEvent::Stored(stored));
            }
        }
        let request = |_| {
            let mut request = RouteRequest::new("r", fleet::key(), u64::from(TOKENS));
            request.prompt_tokens_exact = true;
            request
        };
        let requests = (0..PROMPTS).map(request).collect();
        Ok(Self { router, requests, prompts, chain, n: 0 })
    }

    /// Decides the next prompt, and ends the request at once. Returns the worker.
    pub fn decide(&mut self) -> Result<u64> {
        self.n += 1;
        let at = self.n as usize % PROMPTS;
        let Self { router, requests, prompts, chain, n } = self;
        let (request, tokens) = (&mut requests[at], &prompts[at]);
        sequence_hashes(black_box(tokens), BLOCK_SIZE, Scope::default(), chain);
        match Arc::get_mut(&mut request.chain).filter(|place| place.len() == chain.len()) {
            Some(place) => place.copy_from_slice(chain),
            // Somebody keeps the one before, or there is none.
            None => request.chain = chain.as_slice().into(),
        }
        let moment = Moment { now_ms: 1 + *n / 100, seed: *n };
        let decision = router.route(request, moment, Mode::Book)?;
        let worker = decision.receipt.worker.worker_id.0;
        drop(black_box(decision));
        Ok(worker)
    }
}
