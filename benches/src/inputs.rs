//! What cache indexes are measured with: which worker holds what, and the prompts that are looked
//! up.
//!
//! Owns the three shapes of a fleet's caches. It doesn't know indexes.

use std::path::Path;

use anyhow::{Context, Result};
use pointsman_core::hashing::sequence_hash;
use serde::Deserialize;

/// Blocks of the prompts that are made up.
const BLOCKS: u64 = 128;

/// The most stores of the shape that comes from the trace.
const MOST_STORES: usize = 60_000;

/// Every so many requests of the trace, one is looked up.
const LOOKED_UP: usize = 12;

/// A stretch that one worker stores.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which.
    pub worker: u64,
    /// Block hashes.
    pub blocks: Vec<u64>,
    /// Sequence hashes, by which the engine calls them.
    pub names: Vec<u64>,
}

/// One way in which a fleet's caches can be filled.
#[derive(Debug)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// How many workers.
    pub workers: u64,
    /// What they store, in order.
    pub stores: Vec<Store>,
    /// Block hashes of the prompts that are looked up.
    pub prompts: Vec<Vec<u64>>,
}

/// The three shapes: the same half of one prompt everywhere, another depth of it on each worker, and
/// prompts of a production trace.
pub fn shapes(workers: u64, trace: &Path) -> Result<[Shape; 3]> {
    Ok([same_half(workers), staggered(workers), mooncake(workers, trace)?])
}

/// All workers hold the first half of one prompt; each goes on with something else.
fn same_half(workers: u64) -> Shape {
    let stores = (0..workers).map(|worker| {
        let own = |at| mix(1_000_000 + worker * 1_000 + at);
        store(
            worker,
            (0..BLOCKS).map(|at| if at < BLOCKS / 2 { mix(at) } else { own(at) }).collect(),
        )
    });
    Shape { name: "half", workers, stores: stores.collect(), prompts: vec![prompt()] }
}

/// Each worker holds another number of blocks of one prompt.
fn staggered(workers: u64) -> Shape {
    let stores = (0..workers).map(|worker| {
        let depth = (worker * 37 % BLOCKS) as usize + 1;
        store(worker, prompt()[..depth].to_vec())
    });
    Shape { name: "staggered", workers, stores: stores.collect(), prompts: vec![prompt()] }
}

/// The trace's prompts, each held by one worker in sixteen.
fn mooncake(workers: u64, trace: &Path) -> Result<Shape> {
    #[derive(Deserialize)]
    struct Row {
        hash_ids: Vec<u64>,
    }
    let text = std::fs::read_to_string(trace)
        .with_context(|| format!("{}: can't be read; name it with --trace", trace.display()))?;
    let mut shape = Shape { name: "mooncake", workers, stores: vec![], prompts: vec![] };
    for (at, line) in text.lines().enumerate() {
        let row: Row = serde_json::from_str(line)
            .with_context(|| format!("{}, line {}", trace.display(), at + 1))?;
        let blocks: Vec<u64> = row.hash_ids.into_iter().map(mix).collect();
        if at % LOOKED_UP == 0 {
            shape.prompts.push(blocks.clone());
        }
        for copy in 0..(workers / 16).max(1) {
            shape.stores.push(store((at as u64 * 7 + copy * 31) % workers, blocks.clone()));
        }
        if shape.stores.len() > MOST_STORES {
            break;
        }
    }
    Ok(shape)
}

fn prompt() -> Vec<u64> {
    (0..BLOCKS).map(mix).collect()
}

fn store(worker: u64, blocks: Vec<u64>) -> Store {
    let names = chain(&blocks);
    Store { worker, blocks, names }
}

/// Sequence hashes of block hashes.
#[must_use]
pub fn chain(blocks: &[u64]) -> Vec<u64> {
    let mut parent = None;
    let link = |&block: &u64| {
        let hash = sequence_hash(parent, block);
        parent = Some(hash);
        hash
    };
    blocks.iter().map(link).collect()
}

/// SplitMix64's finaliser: small numbers to hashes.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
