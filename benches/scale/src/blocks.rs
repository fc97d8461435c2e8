//! Time and memory against the blocks that the cache index knows.

use std::sync::Arc;

use anyhow::Result;
use pointsman_benches::fleet;
use pointsman_core::clock::Moment;
use pointsman_core::hashing::sequence_hash;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{Catalog, RouterSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use serde_json::Map;

use crate::bytes::{self, Taken};
use crate::report::{Cell, Table};
use crate::timing::{Subject, in_turns};

const BLOCKS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// Blocks of a prompt.
pub const PROMPT_BLOCKS: u64 = 128;

const WORKERS: u64 = 64;

/// Prompts that take turns, so many that what is known of them isn't near.
const ASKED: usize = 8_192;

/// How many times as much a decision may cost with 10,000,000 blocks as with 10,000, and a block
/// of 10,000,000 take as one of 100,000.
const MOST_SAME: f64 = 1.5;
const MOST_IN_TURNS: f64 = 6.0;
const MOST_BYTES: f64 = 1.5;

/// The sequence hashes of a prompt of its own.
pub fn chain(prompt: u64) -> Arc<[u64]> {
    let mut parent = None;
    let link = |at: u64| {
        let block = (prompt * PROMPT_BLOCKS + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = sequence_hash(parent, sequence_hash(Some(block), block));
        parent = Some(hash);
        hash
    };
    (0..PROMPT_BLOCKS).map(link).collect()
}

/// A router whose workers hold so many blocks, each prompt by one of them; and what the blocks take.
fn router(blocks: u64) -> Result<(Router, u64, Taken)> {
    let settings = RouterSettings { use_kv_events: true, ..RouterSettings::default() };
    let catalog = Catalog::builtin();
    let router = fleet::router(&catalog, "default", &Map::new(), &Arc::new(settings), WORKERS)?;
    let partition = fleet::partition(&router)?;
    let prompts = blocks / PROMPT_BLOCKS;
    let ((), taken) = bytes::counted(|| {
        for prompt in 0..prompts {
            let engines = &*chain(prompt);
            let content = Content::Sequences(engines);
            let stored = Stored { parent: None, engines, content, tier: Tier::Device };
            let worker_id = WorkerId(prompt % WORKERS);
            let rank = WorkerRank { worker_id, dp_rank: DpRank(0) };
            partition.cache().apply(rank, CacheEvent::Stored(stored));
        }
    });
    Ok((router, prompts, taken))
}

pub fn measure(rounds: usize) -> Result<Table> {
    let mut subjects = Vec::new();
    let mut taken = Vec::new();
    for blocks in BLOCKS {
        let (router, prompts, its) = router(blocks)?;
        taken.push(its);
        let router = Arc::new(router);
        let asked = |at| chain(at as u64 * 48_271 % prompts);
        let all: Vec<Arc<[u64]>> = (0..ASKED).map(asked).collect();
        for chains in [vec![all[0].clone()], all] {
            let mut request = RouteRequest::new("r", fleet::key(), PROMPT_BLOCKS * 16);
            let (router, mut n) = (router.clone(), 0);
            subjects.push(Subject::new(move || {
                n += 1;
                request.chain = chains[n as usize % chains.len()].clone();
                let moment = Moment { now_ms: 1 + n / 100, seed: n };
                router.route(&request, moment, Mode::Book)?;
                Ok(())
            }));
        }
    }
    let figures = in_turns(rounds, &mut subjects)?;
    let mut table = Table::new(
        "blocks",
        "A look-up probes the table twice for 128 blocks, whatever else is in it; with many blocks each probe misses the caches. Prompts in turns are 8,192.",
        &[
            "blocks",
            "one prompt, ns",
            "prompts in turns, ns",
            "allocations",
            "allocations, in turns",
            "bytes a block",
        ],
    );
    let each = |at: usize| taken[at].bytes as f64 / BLOCKS[at] as f64;
    for (at, figures) in figures.chunks(2).enumerate() {
        let times = figures.iter().map(|figures| Cell::from(figures.ns));
        let allocations = figures.iter().map(|figures| Cell::from(figures.allocations));
        let blocks = [Cell::from(BLOCKS[at] as f64)];
        table.row(blocks.into_iter().chain(times).chain(allocations).chain([each(at).into()]));
    }
    let by_least = |at: usize| figures[figures.len() - 2 + at].ns / figures[at].ns;
    table.at_most("one prompt, 10,000,000 by 10,000", by_least(0), MOST_SAME);
    table.at_most("prompts in turns, 10,000,000 by 10,000", by_least(1), MOST_IN_TURNS);
    table.at_most("bytes a block, 10,000,000 by 100,000", each(3) / each(1), MOST_BYTES);
    Ok(table)
}
