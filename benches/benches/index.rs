//! The cache index by itself: look-ups and events in three shapes, and the hashing of a prompt.
//! Beside the peer, and with what a block takes: `peers/`; while both run at once: `contention/`.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::inputs::{Shape, chain, shapes};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Overlap, PrefixIndex, Stored, Tier};

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

criterion_group!(benches, look_up, apply, hash);
criterion_main!(benches);
