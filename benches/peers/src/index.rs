//! Cache indexes: look-ups, events, bytes.
//!
//! A look-up is from a prompt's hashes to what each worker holds: there a map by worker, here a
//! column by row. Events are decoded, just before, and applied by one thread that has them all before
//! it; the time ends when the last can be looked up. Bytes are those allocated for the index, tables of the
//! events' thread included, over the blocks that the workers hold.

use std::hint::black_box;

use anyhow::{Result, ensure};
use dynamo_kv_router::indexer::concurrent_radix_tree_compressed::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{
    KvIndexerInterface as _, SyncIndexer, ThreadPoolIndexer, WorkerTask,
};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent, WorkerWithDpRank,
};
use pointsman_benches::inputs::{Shape, Store, chain};
use pointsman_core::clock::Stopwatch;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Overlap, PrefixIndex, Stored, Tier};
use serde::Serialize;

use crate::bytes::counted;
use crate::timing::{alternate, median};

/// Microseconds for one look-up.
#[derive(Debug, Serialize)]
pub struct LookupFigures {
    pub workers: u64,
    pub shape: &'static str,
    pub peer_us: f64,
    pub ours_us: f64,
}

/// Millions of blocks a second.
#[derive(Debug, Serialize)]
pub struct ApplyFigures {
    pub workers: u64,
    pub shape: &'static str,
    pub peer_mblocks_s: f64,
    pub ours_mblocks_s: f64,
}

/// Bytes for each block that a worker holds.
#[derive(Debug, Serialize)]
pub struct MemoryFigures {
    pub workers: u64,
    pub shape: &'static str,
    pub held_blocks: usize,
    pub distinct_blocks: usize,
    pub peer_bytes: f64,
    pub ours_bytes: f64,
}

/// Events are applied in turns, each time to an empty index.
pub fn applying(shape: &Shape, rounds: usize) -> Result<ApplyFigures> {
    let &Shape { name, workers, .. } = shape;
    let sent: usize = shape.stores.iter().map(|store| store.blocks.len()).sum();
    let (mut peer_s, mut ours_s) = (vec![], vec![]);
    // One for warmth.
    for round in 0..=rounds.clamp(3, 7) {
        let (tree, events) = (ConcurrentRadixTreeCompressed::new(), peer_events(shape));
        let peer = peer_applies(&tree, events)?;
        drop(tree);
        // As fresh as the peer's: what was decoded just now.
        let (index, stores) = (PrefixIndex::default(), shape.stores.clone());
        let start = Stopwatch::start();
        ours_applies(&index, &stores);
        let ours = start.elapsed().as_secs_f64();
        if round > 0 {
            peer_s.push(peer);
            ours_s.push(ours);
        }
    }
    let rate = |seconds| sent as f64 / median(seconds) / 1e6;
    Ok(ApplyFigures {
        workers,
        shape: name,
        peer_mblocks_s: rate(peer_s),
        ours_mblocks_s: rate(ours_s),
    })
}

/// Bytes of both, each with all that its events' thread keeps.
pub fn memory(shape: &Shape) -> Result<MemoryFigures> {
    let (index, ours) = counted(|| {
        let index = PrefixIndex::default();
        ours_applies(&index, &shape.stores);
        index
    });
    let stats = index.stats();
    let peer_bytes = peer_memory(shape)?;
    Ok(MemoryFigures {
        workers: shape.workers,
        shape: shape.name,
        held_blocks: stats.held,
        distinct_blocks: stats.blocks,
        peer_bytes: peer_bytes as f64 / stats.held as f64,
        ours_bytes: ours.bytes as f64 / stats.held as f64,
    })
}

/// The same prompts in turns, after the answers have been compared for every worker.
pub fn look_ups(shape: &Shape, rounds: usize) -> Result<LookupFigures> {
    let tree = ConcurrentRadixTreeCompressed::new();
    peer_applies(&tree, peer_events(shape))?;
    let index = PrefixIndex::default();
    ours_applies(&index, &shape.stores);
    time_look_ups(shape, rounds, &tree, &index)
}

fn time_look_ups(
    shape: &Shape,
    rounds: usize,
    tree: &ConcurrentRadixTreeCompressed,
    index: &PrefixIndex,
) -> Result<LookupFigures> {
    let &Shape { name, workers, .. } = shape;
    let snapshot = snapshot(workers)?;
    let local = |prompt: &Vec<u64>| prompt.iter().copied().map(LocalBlockHash).collect();
    let theirs: Vec<Vec<LocalBlockHash>> = shape.prompts.iter().map(local).collect();
    let ours: Vec<Vec<u64>> = shape.prompts.iter().map(|prompt| chain(prompt)).collect();
    let mut overlap = Overlap::default();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let found = tree.find_matches(theirs, false);
        index.look_up(ours, &snapshot, &mut overlap);
        for worker in 0..workers {
            let score = found.scores.get(&WorkerWithDpRank::new(worker, 0)).copied().unwrap_or(0);
            let blocks = overlap.of_row(Tier::Device, worker as usize);
            ensure!(f64::from(score) == blocks, "{name}, worker {worker}: {score} and {blocks}");
        }
    }
    let times = 200_000 / workers as usize / ours.len() + 1;
    let (peer_s, ours_s) = alternate(
        rounds,
        || {
            for _ in 0..times {
                theirs.iter().for_each(|prompt| {
                    black_box(tree.find_matches(black_box(prompt), false));
                });
            }
        },
        || {
            for _ in 0..times {
                ours.iter().for_each(|prompt| {
                    index.look_up(black_box(prompt), &snapshot, &mut overlap);
                    black_box(&overlap);
                });
            }
        },
    );
    let micros = 1e6 / (times * ours.len()) as f64;
    Ok(LookupFigures { workers, shape: name, peer_us: peer_s * micros, ours_us: ours_s * micros })
}

fn snapshot(workers: u64) -> Result<Snapshot> {
    let partition =
        PartitionKey { model: "m".into(), routing_group: "g".into(), role: Role::Aggregated };
    let mut fleet = Fleet::default();
    for worker in 0..workers {
        fleet.upsert(WorkerSpec::new(WorkerId(worker), "http://w", partition.clone()))?;
    }
    Ok(fleet.snapshot(&partition))
}

fn ours_applies(index: &PrefixIndex, stores: &[Store]) {
    for store in stores {
        let rank = WorkerRank { worker_id: WorkerId(store.worker), dp_rank: DpRank(0) };
        let content = Content::Blocks(&store.blocks);
        let stored = Stored { parent: None, engines: &store.names, content, tier: Tier::Device };
        black_box(index.apply(rank, CacheEvent::Stored(stored)));
    }
}

/// Seconds that the peer's event thread takes.
fn peer_applies(tree: &ConcurrentRadixTreeCompressed, events: Vec<RouterEvent>) -> Result<f64> {
    let (sender, receiver) = flume::unbounded();
    for event in events {
        sender.send(WorkerTask::Event(event))?;
    }
    sender.send(WorkerTask::Terminate)?;
    let start = Stopwatch::start();
    tree.worker(receiver, None)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Bytes that the peer's index and the tables of its event thread take.
fn peer_memory(shape: &Shape) -> Result<i64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (indexer, taken) = counted(|| {
        let indexer = ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), 1, 16);
        for event in peer_events(shape) {
            indexer.enqueue_event(event)?;
        }
        runtime.block_on(indexer.flush_and_wait())?;
        anyhow::Ok(indexer)
    });
    indexer?.shutdown();
    Ok(taken.bytes)
}

fn peer_events(shape: &Shape) -> Vec<RouterEvent> {
    let block = |(&block, &name): (&u64, &u64)| KvCacheStoredBlockData {
        block_hash: ExternalSequenceBlockHash(name),
        tokens_hash: LocalBlockHash(block),
        mm_extra_info: None,
    };
    let event = |store: &Store| {
        let blocks = store.blocks.iter().zip(&store.names).map(block).collect();
        let data = KvCacheStoreData { parent_hash: None, start_position: None, blocks };
        let data = KvCacheEventData::Stored(data);
        RouterEvent::new(store.worker, KvCacheEvent { event_id: 0, dp_rank: 0, data })
    };
    shape.stores.iter().map(event).collect()
}
