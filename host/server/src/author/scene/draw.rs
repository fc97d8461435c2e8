//! Drawing a scene: which workers there are, what they carry and hold, what comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::clock::{Chance, Moment};
use pointsman_core::fleet::{Fleet, WorkerSpec};
use pointsman_core::hashing::sequence_hash;
use pointsman_core::ids::{PartitionKey, WorkerId, WorkerTarget};
use pointsman_core::policy::Input;
use pointsman_core::request::{InputTrigger, RouteRequest, Session};

use super::{Decision, Scene};

/// How large a scene is.
#[derive(Clone, Copy, Debug)]
pub(in crate::author) struct Extent {
    /// Candidates of each decision.
    pub(in crate::author) rows: usize,
    /// Decisions.
    pub(in crate::author) decisions: usize,
}

/// Marks that some workers have.
const TAINTS: [&str; 4] = ["canary", "fast", "old", "spot"];
/// Prompts, in tokens; one of them is shorter than a block.
const PROMPTS: [u64; 4] = [2_048, 2_048, 12, 30_000];
/// Sessions that requests come from.
const SESSIONS: usize = 8;
/// Milliseconds between two requests.
const APART_MS: u64 = 700;

/// A scene. The fleet has one worker more than there are candidates, so that rows can be given in any
/// order: all of a fleet's rows come in the fleet's own.
pub(super) fn scene(partition: &PartitionKey, block_size: u32, extent: Extent, seed: u64) -> Scene {
    let mut chance = Chance::new(seed);
    let mut fleet = Fleet::default();
    for id in 0..=extent.rows as u64 {
        let mut spec = WorkerSpec::new(WorkerId(1 + id), "http://127.0.0.1:1", partition.clone());
        spec.total_kv_blocks = Some(4_096);
        let has = TAINTS.iter().filter(|_| chance.below(4) == 0);
        spec.taints = has.map(|taint| (*taint).to_owned()).collect();
        // What the fleet refuses isn't made up here.
        drop(fleet.upsert(spec));
    }
    let snapshot = Arc::new(fleet.snapshot(partition));
    let rows: Vec<u32> = (0..extent.rows as u32).collect();
    let draw = |number: usize| {
        let tokens = *PROMPTS.get(chance.below(PROMPTS.len())).unwrap_or(&2_048);
        let request = request(&mut chance, partition, block_size, tokens, extent.rows);
        let draw = |input| (input, column(&mut chance, input, extent.rows, tokens, block_size));
        let columns: BTreeMap<Input, Vec<f64>> = Input::ALL.into_iter().map(draw).collect();
        let moment = Moment { now_ms: number as u64 * APART_MS, seed: chance.bits() };
        Decision { rows: rows.clone(), columns, request, moment, number: number as u64 }
    };
    let decisions = (0..extent.decisions).map(draw).collect();
    Scene { snapshot, decisions }
}

fn request(
    chance: &mut Chance,
    partition: &PartitionKey,
    block_size: u32,
    tokens: u64,
    rows: usize,
) -> RouteRequest {
    let mut request = RouteRequest::new("made-up", partition.clone(), tokens);
    let blocks = (tokens / u64::from(block_size.max(1))).min(128);
    // Many begin alike.
    let (family, own) = (chance.below(6) as u64, chance.bits());
    let mut parent = None;
    let link = |at| {
        let hash = sequence_hash(parent, if at < 16 { family } else { own ^ at });
        parent = Some(hash);
        hash
    };
    request.chain = (0..blocks).map(link).collect();
    if chance.below(6) > 0 {
        let id = format!("session-{}", chance.below(SESSIONS)).into();
        let parent_id = (chance.below(3) == 0).then(|| "parent".into());
        request.session = Some(Session { id, parent_id, is_final: None, evict: None });
    }
    request.trigger = [None, Some(InputTrigger::ToolResult), Some(InputTrigger::UserMessage)]
        .get(chance.below(3))
        .copied()
        .flatten();
    if chance.below(3) == 0 {
        let worker_id = WorkerId(1 + chance.below(rows.max(1)) as u64);
        request.affinity_target = Some(WorkerTarget { worker_id, dp_rank: None });
    }
    request
}

/// Values by row: different ones in all rows as long as there are so many, so that rows are equal only
/// where a policy makes them so.
fn column(
    chance: &mut Chance,
    input: Input,
    rows: usize,
    tokens: u64,
    block_size: u32,
) -> Vec<f64> {
    if input == Input::PreferredTaintMultiplier {
        let some = chance.below(3) == 0;
        return (0..=rows).map(|_| if some { 0.5 + chance.unit() } else { 1.0 }).collect();
    }
    let most = match input {
        Input::CachedTokens => tokens as usize + 1,
        Input::ActivePrefillTokens => 16_384,
        Input::ActiveRequests => 256,
        Input::DecodeCostBlocks => 4_096,
        _ => (tokens / u64::from(block_size.max(1))) as usize + 1,
    };
    let apart = most / (rows + 1);
    if apart == 0 {
        return (0..=rows).map(|_| chance.below(most) as f64).collect();
    }
    let mut column: Vec<f64> =
        (0..=rows).map(|row| (row * apart + chance.below(apart)) as f64).collect();
    shuffle(chance, &mut column);
    column
}

/// Any order, each as likely.
pub(in crate::author) fn shuffle<T>(chance: &mut Chance, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, chance.below(last + 1));
    }
}
