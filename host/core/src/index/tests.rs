//! Promises of the index: what a look-up finds after any events.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod bounds;
pub(super) mod model;
mod names;
mod properties;
mod steps;
mod waiting;

use super::*;
use crate::fleet::{Fleet, WorkerSpec};
use crate::hashing::{Scope, sequence_hash};
use crate::ids::{DpRank, WorkerId};
use model::{chain, partition, rank, snapshot};

fn stored<'a>(parent: Option<u64>, engines: &'a [u64], blocks: &'a [u64]) -> CacheEvent<'a> {
    CacheEvent::Stored(Stored {
        parent,
        engines,
        content: Content::Blocks(blocks),
        tier: Tier::Device,
    })
}

fn removed(engines: &[u64]) -> CacheEvent<'_> {
    CacheEvent::Removed { engines, tier: Tier::Device }
}

/// Blocks of the device that each of three ranks holds of a prompt.
fn device(index: &PrefixIndex, blocks: &[u64]) -> Vec<f64> {
    let mut overlap = Overlap::default();
    index.look_up(&chain(blocks), &snapshot(3), &mut overlap);
    overlap.blocks(Tier::Device).to_vec()
}

#[test]
fn the_longest_prefix_wins_and_a_tie_stays_a_tie() {
    let index = PrefixIndex::default();
    let [a, b, c, d, e, f, g] = [1, 2, 3, 4, 5, 6, 7];
    for blocks in [[a, b].as_slice(), &[a, c, d]] {
        index.apply(rank(0), stored(None, &chain(blocks), blocks));
    }
    index.apply(rank(1), stored(None, &chain(&[a, c, e]), &[a, c, e]));
    assert_eq!(device(&index, &[a, c, d, f]), [3.0, 2.0, 0.0]);
    assert_eq!(device(&index, &[a, c, g]), [2.0, 2.0, 0.0]);
    assert_eq!(device(&index, &[a, b]), [2.0, 1.0, 0.0]);
    assert_eq!(device(&index, &[b]), [0.0, 0.0, 0.0]);
    assert_eq!(index.stats().blocks, 5);
    assert_eq!(index.stats().held, 7);
}

#[test]
fn a_block_stored_twice_is_held_until_both_copies_are_gone() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3];
    let names = chain(&blocks);
    index.apply(rank(0), stored(None, &names, &blocks));
    let again = index.apply(rank(0), stored(Some(names[1]), &names[2..], &blocks[2..]));
    assert_eq!((again.stored, again.stored_again), (0, 1));
    let one = index.apply(rank(0), removed(&names[2..]));
    assert_eq!((one.removed, one.copies_removed), (0, 1));
    assert_eq!(device(&index, &blocks), [3.0, 0.0, 0.0]);
    index.apply(rank(0), removed(&names[2..]));
    assert_eq!(device(&index, &blocks), [2.0, 0.0, 0.0]);
}

#[test]
fn a_removal_list_is_applied_in_full_even_when_some_are_unknown() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4];
    let names = chain(&blocks);
    index.apply(rank(0), stored(None, &names, &blocks));
    let applied = index.apply(rank(0), removed(&[99, names[3], 98, names[2], 97]));
    assert_eq!((applied.removed, applied.unknown), (2, 3));
    assert_eq!(device(&index, &blocks), [2.0, 0.0, 0.0]);
    // Another rank's blocks are unknown to this one.
    assert_eq!(index.apply(rank(1), removed(&names)).unknown, 4);
}

#[test]
fn removal_lists_in_either_order_leave_no_splinters() {
    for reverse in [false, true] {
        let index = PrefixIndex::default();
        let blocks: Vec<u64> = (1..=60).collect();
        let mut names = chain(&blocks);
        for r in 0..2 {
            index.apply(rank(r), stored(None, &names, &blocks));
        }
        names = names.split_off(20);
        if reverse {
            names.reverse();
        }
        let applied = index.apply(rank(0), removed(&names));
        assert_eq!(applied.removed, 40);
        assert_eq!(device(&index, &blocks), [20.0, 60.0, 0.0]);
        assert_eq!(index.state.read().tree.run_numbers(), 1);
    }
}

#[test]
fn slower_tiers_go_on_where_the_faster_end() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (1..=10).collect();
    let names = chain(&blocks);
    let store = |r, from: usize, to: usize, tier| {
        let parent = from.checked_sub(1).map(|at| names[at]);
        let event = Stored {
            parent,
            engines: &names[from..to],
            content: Content::Blocks(&blocks[from..to]),
            tier,
        };
        index.apply(rank(r), CacheEvent::Stored(event));
    };
    store(0, 0, 4, Tier::Device);
    store(0, 2, 7, Tier::Host);
    store(0, 7, 8, Tier::External);
    store(1, 0, 3, Tier::Disk);
    store(2, 0, 2, Tier::Device);
    store(2, 3, 5, Tier::Host);
    let mut overlap = Overlap::default();
    index.look_up(&names, &snapshot(3), &mut overlap);
    assert_eq!(overlap.blocks(Tier::Device), [4.0, 0.0, 2.0]);
    assert_eq!(overlap.blocks(Tier::Host), [3.0, 0.0, 0.0]);
    assert_eq!(overlap.blocks(Tier::Disk), [0.0, 3.0, 0.0]);
    assert_eq!(overlap.blocks(Tier::External), [1.0, 0.0, 0.0]);
    assert!(overlap.has_lower());
}

#[test]
fn clearing_concerns_one_rank_and_its_number_is_used_again() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (1..=200).collect();
    let names = chain(&blocks);
    for round in 0..50 {
        for r in 0..3 {
            index.apply(rank(r), stored(None, &names, &blocks));
        }
        assert_eq!(device(&index, &blocks), [200.0; 3], "round {round}");
        assert_eq!(index.apply(rank(1), CacheEvent::Cleared).removed, 200);
        assert_eq!(device(&index, &blocks), [200.0, 0.0, 200.0]);
        index.remove_rank(rank(2));
        assert_eq!(device(&index, &blocks), [200.0, 0.0, 0.0]);
        while index.tidy() {}
        index.apply(rank(0), removed(&names));
        index.state.read().check();
    }
    assert_eq!(index.stats().blocks, 0);
    assert!(index.state.read().ranks.slots() <= 6, "slots are used again");
}

#[test]
fn what_an_engine_writes_block_by_block_is_kept_together() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (1..=300).collect();
    let names = chain(&blocks);
    index.apply(rank(0), stored(None, &names[..100], &blocks[..100]));
    for at in 100..300 {
        index.apply(rank(0), stored(Some(names[at - 1]), &names[at..=at], &blocks[at..=at]));
    }
    assert_eq!(device(&index, &blocks), [300.0, 0.0, 0.0]);
    assert!(index.state.read().tree.run_numbers() <= 6);
    index.state.read().check();
}

#[test]
fn a_full_index_refuses_and_says_so() {
    let index = PrefixIndex::new(10);
    let blocks: Vec<u64> = (1..=16).collect();
    let applied = index.apply(rank(0), stored(None, &chain(&blocks), &blocks));
    assert_eq!((applied.stored, applied.refused), (10, 6));
    assert_eq!(device(&index, &blocks), [10.0, 0.0, 0.0]);
    index.apply(rank(0), CacheEvent::Cleared);
    while index.tidy() {}
    assert_eq!(index.apply(rank(1), stored(None, &[1], &[77])).stored, 1);
}

#[test]
fn content_that_is_not_of_as_many_blocks_changes_nothing() {
    let index = PrefixIndex::default();
    assert_eq!(index.apply(rank(0), stored(None, &[1, 2], &[1])).malformed, 2);
    for tokens in [&[][..], &[1, 2, 3]] {
        let content = Content::Tokens { tokens, media: &[], scope: Scope::default() };
        let event = Stored { parent: None, engines: &[1, 2], content, tier: Tier::Device };
        assert_eq!(index.apply(rank(0), CacheEvent::Stored(event)).malformed, 2);
    }
    assert_eq!(index.apply(rank(0), stored(None, &[], &[])), Applied::default());
    assert_eq!(index.stats().blocks, 0);
}

#[test]
fn tokens_behind_a_salted_prompt_are_salted_too() {
    let index = PrefixIndex::default();
    let tokens: Vec<u32> = (0..32).collect();
    let scope = Scope::new(None, Some("tenant-a"));
    let event = |parent, engines, tokens, scope| {
        CacheEvent::Stored(Stored {
            parent,
            engines,
            content: Content::Tokens { tokens, media: &[], scope },
            tier: Tier::Device,
        })
    };
    index.apply(rank(0), event(None, &[1], &tokens[..16], scope));
    // The engine says the salt with the first block only.
    index.apply(rank(0), event(Some(1), &[2], &tokens[16..], Scope::default()));
    let mut chain = Vec::new();
    let mut overlap = Overlap::default();
    for (asked, blocks) in [(scope, 2.0), (Scope::default(), 0.0)] {
        crate::hashing::sequence_hashes(&tokens, 16, asked, &mut chain);
        index.look_up(&chain, &snapshot(1), &mut overlap);
        assert_eq!(overlap.of_row(Tier::Device, 0), blocks);
    }
}

#[test]
fn ranks_that_need_not_start_at_zero_are_told_apart() {
    let index = PrefixIndex::default();
    let mut spec = WorkerSpec::new(WorkerId(5), "http://w", partition());
    spec.data_parallel_start_rank = 8;
    spec.data_parallel_size = 8.try_into().unwrap();
    let mut fleet = Fleet::default();
    fleet.upsert(spec).unwrap();
    let snapshot = fleet.snapshot(&partition());
    let nine = WorkerRank { worker_id: WorkerId(5), dp_rank: DpRank(9) };
    index.apply(nine, stored(None, &[1], &[1]));
    let mut overlap = Overlap::default();
    index.look_up(&[1], &snapshot, &mut overlap);
    assert_eq!(overlap.blocks(Tier::Device), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

/// Stores the first blocks of a prompt, and looks the prompt up.
fn spread_over_many(index: &PrefixIndex, names: &[u64], blocks: &[u64]) -> Vec<f64> {
    for r in 0..128 {
        let count = 1 + r as usize % 5;
        index.apply(rank(r), stored(None, &names[..count], &blocks[..count]));
    }
    index.remove_rank(rank(5));
    let mut overlap = Overlap::default();
    index.look_up(names, &snapshot(128), &mut overlap);
    overlap.blocks(Tier::Device).to_vec()
}

#[test]
fn a_rank_that_was_removed_holds_nothing_before_it_is_swept_of() {
    let blocks: Vec<u64> = (1..=8).collect();
    let names = chain(&blocks);
    let mut expected: Vec<f64> = (0..128).map(|r| f64::from(1 + r % 5)).collect();
    expected[5] = 0.0;
    assert_eq!(spread_over_many(&PrefixIndex::default(), &names, &blocks), expected);
}

#[test]
fn columns_of_one_index_are_not_taken_for_those_of_another() {
    let [first, second] = [PrefixIndex::default(), PrefixIndex::default()];
    first.apply(rank(0), stored(None, &[1], &[1]));
    second.apply(rank(1), stored(None, &[1], &[1]));
    let (rows, mut overlap) = (snapshot(2), Overlap::default());
    first.look_up(&[1], &rows, &mut overlap);
    assert_eq!(overlap.blocks(Tier::Device), [1.0, 0.0]);
    second.look_up(&[1], &rows, &mut overlap);
    assert_eq!(overlap.blocks(Tier::Device), [0.0, 1.0]);
}

#[test]
fn stores_of_no_block_and_clears_of_nothing_leave_nothing_behind() {
    let index = PrefixIndex::default();
    for round in 0..1_000 {
        assert_eq!(index.apply(rank(0), stored(Some(round), &[], &[])), Applied::default());
        assert_eq!(index.apply(rank(0), CacheEvent::Cleared), Applied::default());
        index.apply(rank(1), stored(None, &[7], &[7]));
        index.apply(rank(1), removed(&[7]));
        index.remove_rank(rank(1));
    }
    let state = index.state.read();
    assert!(state.ranks.life(0).unwrap().orphans.is_empty());
    assert_eq!((state.ranks.slots(), state.ranks.dead()), (2, 0));
}

#[test]
fn hashes_that_are_no_chain_harm_nobody() {
    let index = PrefixIndex::default();
    let sequences = |r, parent, hashes: &[u64]| {
        let content = Content::Sequences(hashes);
        let stored = Stored { parent, engines: hashes, content, tier: Tier::Device };
        index.apply(rank(r), CacheEvent::Stored(stored))
    };
    let mut overlap = Overlap::default();
    // Blocks that follow themselves, that follow two others, that begin where others go on.
    let odd: [&[u64]; 7] =
        [&[7, 7], &[7, 7, 7], &[1, 2, 3], &[2], &[1, 9, 2], &[2, 1, 2, 1], &[3, 7, 2, 9]];
    for round in 0..40 {
        for (at, hashes) in odd.iter().enumerate() {
            sequences((at + round) as u64 % 3, None, hashes);
            sequences(at as u64 % 3, hashes.last().copied(), odd[(at + round) % 7]);
            index.look_up(hashes, &snapshot(3), &mut overlap);
            assert!(overlap.blocks(Tier::Device).iter().all(|&b| b <= hashes.len() as f64));
        }
        for (at, hashes) in odd.iter().enumerate() {
            index.apply(rank((at + 1) as u64 % 3), removed(&hashes[..1 + round % hashes.len()]));
            let _ = index.look_up_rank(hashes, rank(0));
        }
        index.apply(rank(round as u64 % 3), CacheEvent::Cleared);
        while index.tidy() {}
        assert_eq!(index.stats().held, index.state.read().tree.held());
    }
    for r in 0..3 {
        index.remove_rank(rank(r));
    }
    while index.tidy() {}
    assert_eq!((index.stats().blocks, index.stats().held), (0, 0));
}

#[test]
fn many_ranks_that_leave_at_once_are_swept_together() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (1..=200).collect();
    let names = chain(&blocks);
    for r in 0..500 {
        let count = 1 + r as usize % 200;
        index.apply(rank(r), stored(None, &names[..count], &blocks[..count]));
    }
    for r in 0..490 {
        index.remove_rank(rank(r));
    }
    while index.tidy() {}
    index.state.read().check();
    assert_eq!(index.stats().held, (490..500).map(|r| 1 + r % 200).sum::<usize>());
    for r in 1_000..1_490 {
        index.apply(rank(r), stored(None, &names, &blocks));
    }
    assert!(index.state.read().ranks.slots() <= 500, "slots are used again");
    index.state.read().check();
}

#[test]
fn the_first_sequence_hash_is_the_block_hash() {
    assert_eq!(sequence_hash(None, 5), 5);
    assert_ne!(sequence_hash(Some(5), 6), 6);
}
