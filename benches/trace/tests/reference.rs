//! The replay against a second one, written straight down: the index a table of counts per worker,
//! the cost its formula, the eviction a search for the longest idle, the clock a search for the
//! earliest. Nothing of the core or of the bench's engines is used but the draw of random numbers.
//!
//! Both must choose the same worker for each request and find the same blocks there.

use std::collections::HashMap;
use std::path::Path;

use pointsman_core::clock::Chance;
use pointsman_trace::figures::Figures;
use pointsman_trace::plan::{Common, Planned};
use pointsman_trace::replay::{Outcome, Served, Setup, replay, seed_of};
use pointsman_trace::requests::{Arrivals, TraceRequest, read};

const SIZE: u64 = 512;

#[derive(Clone, Copy, Default)]
struct Block {
    holds: Option<u64>,
    users: u32,
    idle_since: u64,
}

#[derive(Default)]
struct Worker {
    // The engine.
    blocks: Vec<Block>,
    idle_clock: u64,
    waiting: Vec<usize>,
    computing: bool,
    // What the router knows.
    held: HashMap<u64, i64>,
    prefill_tokens: u64,
    /// By how many of its requests each prompt block is used, and blocks that have no hash.
    active: HashMap<u64, u64>,
    unnamed: u64,
    requests: u64,
}

enum What {
    Computed { request: usize, hits: usize, evicted: Vec<u64> },
    Ended { request: usize },
    Told { request: usize, hits: usize, evicted: Vec<u64> },
}

struct Reference<'a> {
    trace: &'a [TraceRequest],
    setup: &'a Setup,
    workers: Vec<Worker>,
    /// When, in which order it was scheduled, where, what.
    pending: Vec<(u64, u64, usize, What)>,
    scheduled: u64,
    charged: Vec<u64>,
    taken: HashMap<usize, Vec<usize>>,
    served: Vec<Served>,
}

impl Reference<'_> {
    fn parameter(&self, name: &str, default: f64) -> f64 {
        self.setup.parameters.get(name).and_then(serde_json::Value::as_f64).unwrap_or(default)
    }

    fn schedule(&mut self, at: u64, worker: usize, what: What) {
        self.pending.push((at, self.scheduled, worker, what));
        self.scheduled += 1;
    }

    fn until(&mut self, limit: u64) {
        loop {
            let first = self.pending.iter().enumerate().min_by_key(|(_, p)| (p.0, p.1));
            let Some((at, _)) = first.filter(|(_, pending)| pending.0 <= limit) else { return };
            let (now, _, worker, what) = self.pending.remove(at);
            match what {
                What::Computed { request, hits, evicted } => {
                    self.workers[worker].computing = false;
                    self.workers[worker].prefill_tokens -= self.charged[request];
                    match self.setup.lag_us {
                        Some(0) => self.told(worker, request, hits, &evicted),
                        Some(lag) => {
                            self.schedule(now + lag, worker, What::Told { request, hits, evicted });
                        }
                        None => {}
                    }
                    let blocks = &self.workers[worker].blocks;
                    let used = blocks.iter().filter(|block| block.users > 0).count();
                    let u = used as f64 / blocks.len() as f64;
                    let each = ((-25.74 * u * u + 54.01 * u + 5.74).max(1.0) * 1e3) as u64;
                    let end = now + (self.trace[request].output_tokens - 1) * each;
                    self.schedule(end, worker, What::Ended { request });
                }
                What::Ended { request } => {
                    let facts = &self.trace[request];
                    let worker = &mut self.workers[worker];
                    for &block in self.taken[&request].iter().rev() {
                        worker.blocks[block].users -= 1;
                        worker.idle_clock += 1;
                        worker.blocks[block].idle_since = worker.idle_clock;
                    }
                    worker.requests -= 1;
                    for hash in whole(facts) {
                        *worker.active.entry(*hash).or_default() -= 1;
                    }
                    worker.active.retain(|_, users| *users > 0);
                    worker.unnamed -= unnamed(facts);
                }
                What::Told { request, hits, evicted } => {
                    self.told(worker, request, hits, &evicted);
                }
            }
            self.begin(worker, now);
        }
    }

    fn told(&mut self, worker: usize, request: usize, hits: usize, evicted: &[u64]) {
        let held = &mut self.workers[worker].held;
        for hash in evicted {
            *held.entry(*hash).or_default() -= 1;
        }
        for &hash in &self.trace[request].chain[hits..] {
            *held.entry(hash).or_default() += 1;
        }
    }

    fn begin(&mut self, at: usize, now: u64) {
        let worker = &mut self.workers[at];
        if worker.computing || worker.waiting.is_empty() {
            return;
        }
        let request = worker.waiting[0];
        let facts = &self.trace[request];
        let total = (facts.prompt_tokens + facts.output_tokens).div_ceil(SIZE) as usize;
        // What is there, from the first block on, without the one that the last token is in.
        let mut taken = Vec::new();
        for hash in &facts.chain[..((facts.prompt_tokens - 1) / SIZE) as usize] {
            // The earliest of its copies, as a table of lists would give.
            let holding = |block: &(usize, &Block)| block.1.holds == Some(*hash);
            let Some((found, _)) = worker.blocks.iter().enumerate().find(holding) else { break };
            taken.push(found);
        }
        let hits = taken.len();
        let free = worker.blocks.iter().enumerate();
        let free = free.filter(|(at, b)| b.users == 0 && !taken.contains(at)).count();
        if free < total - hits {
            return;
        }
        worker.waiting.remove(0);
        for &block in &taken {
            worker.blocks[block].users += 1;
        }
        let mut evicted = Vec::new();
        for depth in hits..total {
            let idle = worker.blocks.iter().enumerate().filter(|(_, block)| block.users == 0);
            let (longest, _) = idle.min_by_key(|(_, block)| block.idle_since).expect("counted");
            let block = &mut worker.blocks[longest];
            evicted.extend(block.holds);
            *block = Block { holds: facts.chain.get(depth).copied(), users: 1, idle_since: 0 };
            taken.push(longest);
        }
        let tokens = (facts.prompt_tokens - hits as u64 * SIZE) as f64;
        let took = 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;
        worker.computing = true;
        self.taken.insert(request, taken);
        self.served[request].hits = hits;
        let end = now + (took * 1e3) as u64;
        self.schedule(end, at, What::Computed { request, hits, evicted });
    }

    /// The formula of the default policy, for workers of no other tier.
    fn choose(&self, request: usize) -> (usize, u64) {
        let facts = &self.trace[request];
        let size = SIZE as f64;
        let credit = self.parameter("overlap_score_credit", 1.0);
        let decay = self.parameter("overlap_score_credit_decay", 0.0);
        let scale = self.parameter("prefill_load_scale", 1.0);
        let weight = self.parameter("decode_active_request_weight", 0.0);
        let blocks = facts.prompt_tokens.div_ceil(SIZE);
        let lightest = self.workers.iter().map(|worker| worker.prefill_tokens).min().unwrap_or(0);
        let overlaps: Vec<u64> = self
            .workers
            .iter()
            .map(|worker| {
                let held = |hash: &&u64| worker.held.get(*hash).is_some_and(|&copies| copies > 0);
                facts.chain.iter().take_while(held).count() as u64
            })
            .collect();
        let costs: Vec<f64> = self
            .workers
            .iter()
            .zip(&overlaps)
            .map(|(worker, &overlap)| {
                let above = (worker.prefill_tokens - lightest) as f64 / size;
                let fades = 1.0 / (1.0 + decay * above / blocks as f64);
                let raw = (worker.prefill_tokens + facts.prompt_tokens) as f64;
                let prefill = (raw / size - credit * fades * overlap as f64).max(0.0);
                let fresh = whole(facts).iter().filter(|hash| !worker.active.contains_key(hash));
                let active = worker.active.len() as u64 + worker.unnamed;
                scale * prefill
                    + (active + fresh.count() as u64 + unnamed(facts)) as f64
                    + weight * worker.requests as f64
            })
            .collect();
        let mut chance = Chance::new(seed_of(self.setup.seed, request));
        let temperature = self.parameter("router_temperature", 0.0);
        if temperature > 0.0 {
            let chosen = draw(&costs, temperature, chance.unit());
            return (chosen, overlaps[chosen]);
        }
        let (mut best, mut ties) = (0, 1);
        for at in 1..costs.len() {
            if costs[at] < costs[best] {
                (best, ties) = (at, 1);
            } else if costs[at] == costs[best] {
                ties += 1;
                if chance.unit() < 1.0 / f64::from(ties) {
                    best = at;
                }
            }
        }
        (best, overlaps[best])
    }
}

/// A prompt's blocks that have a hash, and how many have none.
fn whole(facts: &TraceRequest) -> &[u64] {
    &facts.chain[..facts.chain.len().min(facts.prompt_tokens.div_ceil(SIZE) as usize)]
}

fn unnamed(facts: &TraceRequest) -> u64 {
    facts.prompt_tokens.div_ceil(SIZE) - whole(facts).len() as u64
}

/// The worker that a draw between 0 and 1 falls on.
fn draw(costs: &[f64], temperature: f64, draw: f64) -> usize {
    let low = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = costs
        .iter()
        .map(
            |cost| {
                if high > low { (-(cost - low) / (high - low) / temperature).exp() } else { 1.0 }
            },
        )
        .collect();
    let total: f64 = weights.iter().sum();
    let ends = (0..costs.len()).map(|at| weights[..=at].iter().sum::<f64>() / total);
    ends.into_iter().position(|end| draw <= end).unwrap_or(costs.len() - 1)
}

fn reference(trace: &[TraceRequest], setup: &Setup) -> Vec<Served> {
    let worker = || Worker {
        blocks: (0..setup.blocks)
            .map(|at| Block { idle_since: u64::from(at), ..Block::default() })
            .collect(),
        idle_clock: u64::from(setup.blocks),
        ..Worker::default()
    };
    let mut run = Reference {
        trace,
        setup,
        workers: (0..setup.workers).map(|_| worker()).collect(),
        pending: vec![],
        scheduled: 0,
        charged: vec![0; trace.len()],
        taken: HashMap::new(),
        served: vec![Served::default(); trace.len()],
    };
    for (request, facts) in trace.iter().enumerate() {
        let now = (facts.arrival_us as f64 / setup.speed) as u64;
        run.until(now);
        let (chosen, overlap) = run.choose(request);
        let worker = &mut run.workers[chosen];
        run.charged[request] = facts.prompt_tokens - overlap * SIZE;
        worker.prefill_tokens += run.charged[request];
        for hash in whole(facts) {
            *worker.active.entry(*hash).or_default() += 1;
        }
        worker.unnamed += unnamed(facts);
        worker.requests += 1;
        worker.waiting.push(request);
        run.served[request].worker = chosen;
        run.begin(chosen, now);
    }
    run.until(u64::MAX);
    run.served
}

fn check(requests: usize, blocks: u32, speed: f64, lag_us: u64, parameters: serde_json::Value) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let file = data.join("mooncake_conversation_trace.jsonl");
    let trace = read(&file, Arrivals::Spread).expect("the trace is there");
    let trace = &trace[..requests.min(trace.len())];
    let common = Common { workers: 8, blocks, seed: 7, speed, answers: 1.0 };
    let Planned { mut setup, .. } = common.as_it_comes();
    setup.lag_us = Some(lag_us);
    setup.parameters = parameters.as_object().cloned().expect("an object");
    let outcome = replay(trace, &setup).expect("it runs");
    let expected = reference(trace, &setup);
    for (at, (served, expected)) in outcome.served.iter().zip(&expected).enumerate() {
        assert_eq!(
            (served.worker, served.hits),
            (expected.worker, expected.hits),
            "worker and hits of request {at}"
        );
    }
    let share = |served: Vec<Served>| {
        let outcome = Outcome { served, ..outcome.clone() };
        Figures::of(trace, &setup, &outcome).cached_share
    };
    assert_eq!(share(outcome.served.clone()), share(expected));
}

#[test]
fn the_first_two_thousand_requests_go_where_the_naive_router_sends_them() {
    for speed in [1.0, 6.0] {
        check(2_000, 10_000, speed, 0, serde_json::json!({}));
    }
}

#[test]
fn a_memory_that_evicts_all_the_time_is_known_exactly() {
    check(2_000, 1_000, 6.0, 0, serde_json::json!({}));
}

#[test]
fn late_events_mislead_both_alike() {
    check(2_000, 1_000, 6.0, 1_000_000, serde_json::json!({}));
}

#[test]
fn every_parameter_of_the_sweep_weighs_as_in_the_formula() {
    let parameters = serde_json::json!({
        "overlap_score_credit": 2.0,
        "prefill_load_scale": 0.5,
        "overlap_score_credit_decay": 0.5,
        "decode_active_request_weight": 8.0,
    });
    check(2_000, 1_000, 6.0, 0, parameters);
    check(2_000, 1_000, 6.0, 0, serde_json::json!({ "router_temperature": 0.3 }));
}

#[test]
fn the_whole_trace_finds_as_much_cached_as_the_naive_router_says() {
    check(usize::MAX, 10_000, 6.0, 0, serde_json::json!({}));
}
