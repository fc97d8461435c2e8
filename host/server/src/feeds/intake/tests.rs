//! Events of all kinds, as they end up in an index.

use pointsman_core::ids::{DpRank, WorkerId};
use pointsman_core::index::PrefixIndex;
use serde_json::{Value, json};

use super::*;
use crate::feeds::testing::pack;

const RANK: WorkerRank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(9) };

struct Bench {
    index: PrefixIndex,
    intake: Intake,
    stats: FeedStats,
}

impl Bench {
    fn new(block_size: Option<u32>) -> Self {
        Self {
            index: PrefixIndex::default(),
            intake: Intake::new(RANK, block_size),
            stats: FeedStats::default(),
        }
    }

    /// Takes a batch of events; false if misled.
    fn take(&mut self, events: Value) -> bool {
        let payload = pack(&json!([1.5, events, 9]));
        let batch = Batch::read(&payload).expect("a batch");
        let (sound, malformed) = self.intake.take_batch(&batch, &self.stats, &self.index);
        assert_eq!(malformed, None);
        sound
    }

    /// Blocks held, by tier.
    fn held(&self) -> [usize; Tier::COUNT] {
        self.index.rank_stats(RANK).map(|stats| stats.held).unwrap_or_default()
    }

    fn skips(&self) -> Vec<(Skip, u64)> {
        self.stats.snapshot().skipped
    }
}

/// Blocks of two tokens from `first` on, each named by its first token.
fn stored(first: u64, blocks: u64) -> Value {
    let hashes: Vec<u64> = (0..blocks).map(|at| first + 2 * at).collect();
    let tokens: Vec<u64> = (first..first + 2 * blocks).collect();
    let parent = if first > 2 { json!(first - 2) } else { Value::Null };
    json!({
        "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
        "token_ids": tokens, "block_size": 2
    })
}

fn with(mut event: Value, fields: &[(&str, Value)]) -> Value {
    for (field, value) in fields {
        event[*field] = value.clone();
    }
    event
}

fn removed(hashes: &[u64], fields: &[(&str, Value)]) -> Value {
    with(json!({"type": "BlockRemoved", "block_hashes": hashes}), fields)
}

#[test]
fn blocks_are_held_in_the_tier_that_their_medium_is() {
    let mut bench = Bench::new(Some(2));
    let at = |first, medium: &str| with(stored(first, 1), &[("medium", json!(medium))]);
    bench.take(json!([
        stored(1, 1),
        at(1, "CPU_PINNED"),
        at(1, "DISK"),
        at(1, "EXTERNAL"),
        at(1, "cxl"),
        with(at(3, "CPU"), &[("locality", json!("REMOTE"))]),
        removed(&[1], &[("medium", json!("cxl"))]),
    ]));
    assert_eq!(bench.held(), [1, 1, 1, 2]);
    assert_eq!(bench.skips(), [(Skip::UnknownMedium, 2)]);
    bench.take(json!([removed(&[1], &[("medium", json!("DISK"))])]));
    assert_eq!(bench.held(), [1, 1, 0, 2]);
    bench.take(json!([{"type": "AllBlocksCleared"}]));
    assert_eq!(bench.held(), [0; 4]);
    let counts = bench.stats.snapshot().counts;
    assert_eq!((counts.events_stored, counts.events_removed, counts.events_cleared), (5, 1, 1));
    assert_eq!((counts.blocks_stored, counts.blocks_removed, counts.batches), (5, 5, 3));
}

#[test]
fn only_a_group_that_holds_whole_prompts_is_indexed() {
    let mut bench = Bench::new(Some(2));
    let group = |event, group: u32, kind: &str| {
        with(event, &[("group_idx", json!(group)), ("kv_cache_spec_kind", json!(kind))])
    };
    let tail = with(stored(5, 1), &[("token_ids", json!([1, 2, 3, 4, 5, 6]))]);
    bench.take(json!([
        group(tail, 0, "sliding_window"),
        group(stored(1, 3), 1, "full_attention"),
        // A second one that would count every block twice.
        group(stored(1, 3), 2, "mla_attention"),
        group(stored(1, 3), 3, "mamba"),
    ]));
    assert_eq!(bench.held(), [3, 0, 0, 0]);
    assert_eq!(bench.skips(), [(Skip::PartialGroup, 2), (Skip::OtherGroup, 1)]);
    // Removals have nothing but the number.
    let of = |group: u32| removed(&[5], &[("group_idx", json!(group))]);
    bench.take(json!([of(0), of(2), of(3)]));
    assert_eq!(bench.held(), [3, 0, 0, 0]);
    bench.take(json!([of(1)]));
    assert_eq!(bench.held(), [2, 0, 0, 0]);
}

#[test]
fn a_window_that_does_not_say_so_shows_it_and_what_it_misled_to_is_undone() {
    let mut bench = Bench::new(Some(2));
    let group = |event, group: u32| with(event, &[("group_idx", json!(group))]);
    // A prompt that fits in the window looks whole.
    let short = json!([group(stored(1, 2), 0), group(stored(1, 2), 1)]);
    assert!(bench.take(short.clone()));
    assert_eq!(bench.skips(), [(Skip::OtherGroup, 1)]);
    // A longer one doesn't.
    let tail = with(stored(7, 1), &[("token_ids", json!([1, 2, 3, 4, 5, 6, 7, 8]))]);
    let long = json!([group(tail, 0), group(stored(5, 2), 1)]);
    assert!(!bench.take(long.clone()));
    bench.intake.clear(&bench.index);
    // All from the first batch on, with what is known now.
    assert!(bench.take(short) && bench.take(long));
    assert_eq!(bench.held(), [4, 0, 0, 0]);
    bench.take(json!([removed(&[1], &[("group_idx", json!(0))])]));
    assert_eq!(bench.held(), [4, 0, 0, 0]);
    // Another engine may have other groups.
    bench.intake.restart(&bench.index);
    assert!(bench.take(json!([group(stored(1, 2), 0)])));
    assert_eq!(bench.held(), [2, 0, 0, 0]);
}

#[test]
fn events_of_no_use_are_skipped_and_told_apart() {
    let mut bench = Bench::new(Some(2));
    bench.take(json!([
        stored(1, 1),
        ["BlockMoved", [1]],
        with(stored(3, 1), &[("token_ids", json!([])), ("block_size", json!(0))]),
        with(stored(3, 1), &[("token_ids", json!([]))]),
        with(stored(3, 0), &[("token_ids", json!([3, 4]))]),
        with(stored(3, 1), &[("token_ids", json!([3, 4, 5]))]),
        with(stored(3, 1), &[("token_ids", json!([3])), ("block_size", json!(1))]),
        with(stored(3, 1), &[("lora_id", json!(1))]),
        with(stored(3, 1), &[("kv_cache_spec_kind", json!("mamba"))]),
    ]));
    assert_eq!(bench.held(), [1, 0, 0, 0]);
    assert_eq!(
        bench.skips(),
        [
            (Skip::UnknownEvent, 1),
            (Skip::PartialGroup, 1),
            (Skip::Placeholder, 2),
            (Skip::Shape, 2),
            (Skip::PartialBlock, 1),
            (Skip::UnnamedAdapter, 1),
        ]
    );
    assert_eq!(bench.stats.snapshot().wrong_block_size, None);
}

#[test]
fn another_block_size_than_the_workers_is_a_problem_of_its_own() {
    let mut bench = Bench::new(Some(16));
    bench.take(json!([stored(1, 3)]));
    let snapshot = bench.stats.snapshot();
    assert_eq!(snapshot.wrong_block_size, Some(2));
    assert_eq!(
        snapshot.last_error.as_deref(),
        Some(
            "the engine's blocks have 2 tokens, not 16: none are indexed; give the worker the \
             engine's block size"
        )
    );
    assert_eq!((bench.held(), bench.skips()), ([0; 4], vec![(Skip::BlockSize, 1)]));
    // A worker of which nothing is said has what the engine tells first.
    let mut bench = Bench::new(None);
    bench.take(json!([
        stored(1, 3),
        with(stored(1, 1), &[("block_size", json!(4)), ("token_ids", json!([1, 2, 3, 4]))])
    ]));
    assert_eq!((bench.held(), bench.skips()), ([3, 0, 0, 0], vec![(Skip::BlockSize, 1)]));
    assert_eq!(bench.stats.snapshot().wrong_block_size, None);
}

#[test]
fn an_event_that_cant_be_read_spoils_no_other() {
    let mut bench = Bench::new(Some(2));
    let payload = pack(&json!([1.5, [stored(1, 1), ["BlockStored", "?"], stored(3, 1)], 9]));
    let batch = Batch::read(&payload).expect("a batch");
    let (sound, malformed) = bench.intake.take_batch(&batch, &bench.stats, &bench.index);
    assert!(sound && malformed.is_some());
    assert_eq!(bench.held(), [2, 0, 0, 0]);
    assert_eq!(bench.stats.snapshot().counts.malformed, 1);
}

#[test]
fn a_batch_that_names_another_rank_is_counted() {
    let mut bench = Bench::new(Some(2));
    let payload = pack(&json!([1.5, [stored(1, 1)], 0]));
    let batch = Batch::read(&payload).expect("a batch");
    bench.intake.take_batch(&batch, &bench.stats, &bench.index);
    // Credited to the rank whose feed it is.
    assert_eq!(bench.held(), [1, 0, 0, 0]);
    assert_eq!(bench.stats.snapshot().counts.other_rank, 1);
}

#[test]
fn orphans_and_copies_are_counted() {
    let mut bench = Bench::new(Some(2));
    bench.take(json!([stored(3, 2), stored(1, 1), stored(3, 2), removed(&[3, 5, 99], &[])]));
    let counts = bench.stats.snapshot().counts;
    assert_eq!((counts.orphans, counts.orphans_linked), (2, 2));
    assert_eq!((counts.blocks_stored_again, counts.copies_removed), (2, 2));
    assert_eq!((counts.blocks_unknown, bench.held()[0]), (1, 3));
}
