//! The cache index by itself: look-ups and events in three shapes, the hashing of a prompt, and what
//! decisions predict.
//! Beside the peer, and with what a block takes: `peers/`; while both run at once: `contention/`.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::inputs::{Shape, chain, shapes};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{
    CacheEvent, Content, Keep, Overlap, Predictions, PrefixIndex, RunningPrompt, Stored, Tier,
};

/// Rows of a look-up: a rack, a hall, a region.
const ROWS: [u64; 3] = [64, 1_024, 4_096];

fn all_shapes() -> impl Iterator<Item = Shape> {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mooncake_conversation_trace.jsonl");
    ROWS.into_iter().flat_map(move |rows| shapes(rows, &trace).expect("the trace is there"))
}

fn filled(shape: &Shape) -> PrefixIndex {
    let index = PrefixIndex::default();
    for store in &shape.stores {
        let rank = WorkerRank { worker_id: WorkerId(store.worker), dp_rank: DpRank(0) };
        let content = Content::Blocks(&store.blocks);
        let stored = Stored { parent: None, engines: &store.names, content, tier: Tier::Device };
        black_box(index.apply(rank, CacheEvent::Stored(stored)));
    }
    index
}

fn fleet(rows: u64) -> Snapshot {
    let partition =
        PartitionKey { model: "m".into(), routing_group: "g".into(), role: Role::Aggregated };
    let mut fleet = Fleet::default();
    for id in 0..rows {
        let spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition.clone());
        fleet.upsert(spec).expect("the bench's own worker is sound");
    }
    fleet.snapshot(&partition)
}

/// From a prompt's hashes to the column of all rows.
fn look_up(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/look-up");
    for shape in all_shapes() {
        let (index, snapshot) = (filled(&shape), fleet(shape.workers));
        let prompts: Vec<_> = shape.prompts.iter().map(|prompt| chain(prompt)).collect();
        let (mut overlap, mut next) = (Overlap::default(), prompts.iter().cycle());
        group.throughput(Throughput::Elements(shape.workers));
        group.bench_function(BenchmarkId::new(shape.name, shape.workers), |b| {
            b.iter(|| {
                let prompt = next.next().expect("prompts go round");
                index.look_up(black_box(prompt), &snapshot, &mut overlap);
                black_box(&overlap);
            });
        });
    }
    group.finish();
}

/// From decoded events to an index that finds what they tell.
fn apply(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/apply");
    group.sample_size(20);
    for shape in all_shapes() {
        let blocks = shape.stores.iter().map(|store| store.blocks.len() as u64).sum();
        group.throughput(Throughput::Elements(blocks));
        group.bench_function(BenchmarkId::new(shape.name, shape.workers), |b| {
            b.iter_batched(|| &shape, filled, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// From 2,048 tokens to the hashes of 128 blocks and their prefixes.
fn hash(c: &mut Criterion) {
    let tokens: Vec<u32> = (0..2_048).collect();
    let mut chain = Vec::new();
    c.bench_function("index/hash", |b| {
        b.iter(|| {
            sequence_hashes(black_box(&tokens), 16, Scope::default(), &mut chain);
            black_box(&chain);
        });
    });
}

/// Ranks that prompts are predicted of, in turns.
const PREDICTED_RANKS: u64 = 64;

/// Prompts that are there when they are forgotten.
const FORGOTTEN: u64 = 320;

/// A prompt that has nothing in common with any of another number.
fn prompt(number: u64, blocks: u64) -> Arc<[u64]> {
    let hashes: Vec<u64> = (0..blocks).map(|at| number << 20 | at).collect();
    chain(&hashes).into()
}

fn predict(predictions: &Arc<Predictions>, number: u64, prompt: &Arc<[u64]>) {
    let rank = WorkerRank { worker_id: WorkerId(number % PREDICTED_RANKS), dp_rank: DpRank(0) };
    let keep = Keep::Time { ttl_ms: 120_000 };
    let mut running = predictions.record(keep, rank, prompt, None, 0);
    running.iter_mut().for_each(RunningPrompt::predict);
}

/// From a decision to what is predicted of its prompt, and answered: of 220 KB and of 8 KB in blocks
/// of 16 tokens, new ones and one that is known. Then the forgetting of such prompts, each by itself.
fn predictions(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/predict");
    for blocks in [3_437, 125] {
        let (predictions, mut number) = (Arc::new(Predictions::default()), 0);
        group.throughput(Throughput::Elements(blocks));
        group.bench_function(BenchmarkId::new("new", blocks), |b| {
            b.iter_batched(
                || {
                    number += 1;
                    // No more than a router has in two minutes.
                    if number % 3_000 == 0 {
                        predictions.expire(u64::MAX);
                    }
                    (number, prompt(number, blocks))
                },
                |(number, prompt)| predict(&predictions, number, &prompt),
                BatchSize::PerIteration,
            );
        });
        let known = prompt(0, blocks);
        predict(&predictions, 0, &known);
        group.bench_function(BenchmarkId::new("known", blocks), |b| {
            b.iter(|| predict(&predictions, 0, black_box(&known)));
        });
        group.sample_size(10);
        group.throughput(Throughput::Elements(blocks * FORGOTTEN));
        group.bench_function(BenchmarkId::new("forgotten", blocks), |b| {
            b.iter_batched(
                || {
                    let predictions = Arc::new(Predictions::default());
                    for number in 0..FORGOTTEN {
                        predict(&predictions, number, &prompt(number, blocks));
                    }
                    predictions
                },
                |predictions| {
                    predictions.expire(u64::MAX);
                    predictions
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, look_up, apply, hash, predictions);
criterion_main!(benches);
