//! What an index is full of, and what becomes of that.

use super::super::limits::{Extras, Limits};
use super::super::state::State;
use super::*;

/// An index of so many blocks, and other bounds.
fn bounded(blocks: usize, extras: Extras) -> PrefixIndex {
    PrefixIndex { state: BriefLock::new(State::new(Limits { blocks, extras })) }
}

fn extras(names: usize, orphans: usize) -> Extras {
    Extras { names, orphans, orphan_bytes: 1 << 20 }
}

/// A rank's copies, and the names that it alone uses.
fn of_rank(index: &PrefixIndex, r: u64) -> (usize, usize) {
    let state = index.state.read();
    let slot = state.ranks.slot(rank(r)).unwrap();
    state.ranks.life(slot).unwrap().copies_and_names()
}

#[test]
fn what_was_cleared_is_not_what_an_index_is_full_of() {
    let (all, few): (Vec<u64>, Vec<u64>) = ((1..=20_000).collect(), (30_001..=35_000).collect());
    for how in ["cleared", "left"] {
        let index = PrefixIndex::new(all.len());
        for (r, blocks) in all.chunks(5_000).enumerate() {
            assert_eq!(
                index.apply(rank(r as u64), stored(None, &chain(blocks), blocks)).refused,
                0
            );
        }
        // Nobody tidies: what comes makes its own room.
        for r in 0..3 {
            if how == "left" {
                index.remove_rank(rank(r));
            } else {
                assert_eq!(index.apply(rank(r), CacheEvent::Cleared).removed, 5_000);
            }
        }
        for round in 0..3 {
            let blocks: Vec<u64> = few.iter().map(|block| block + round * 10_000).collect();
            let applied = index.apply(rank(9), stored(None, &chain(&blocks), &blocks));
            assert_eq!((applied.stored, applied.refused), (5_000, 0), "{how}, {round}");
        }
        assert_eq!(index.apply(rank(9), stored(None, &[1], &[1])).refused, 1);
        index.state.read().check();
    }
}

#[test]
fn a_full_index_is_swept_for_a_change_for_a_while_only() {
    // Ever one block in a run of its own, which somebody holds still, and one dead slot.
    let blocks: Vec<u64> = (1..=70_000).collect();
    let index = PrefixIndex::new(blocks.len());
    for &block in &blocks {
        index.apply(rank(0), stored(None, &[block], &[block]));
    }
    index.apply(rank(1), stored(None, &[1], &[1]));
    index.remove_rank(rank(1));
    let mut change = Change::new(rank(2), stored(None, &[200_000], &[200_000]));
    let mut steps = 1;
    while index.step(&mut change) {
        steps += 1;
    }
    assert_eq!(change.applied().refused, 1);
    assert!(steps <= 65, "{steps}");
}

#[test]
fn names_of_all_engines_are_bounded_together() {
    let blocks: Vec<u64> = (1..=100).collect();
    let index = bounded(1 << 20, extras(150, 0));
    index.apply(rank(0), stored(None, &chain(&blocks), &blocks));
    let called = |r: u64| (0..100).map(|at| r * 1_000 + at).collect::<Vec<u64>>();
    let first = index.apply(rank(1), stored(None, &called(1), &blocks));
    assert_eq!((first.stored, first.refused), (100, 0));
    // What it couldn't take back isn't held.
    let second = index.apply(rank(2), stored(None, &called(2), &blocks));
    assert_eq!((second.stored, second.refused), (50, 50));
    assert_eq!(device(&index, &blocks), [100.0, 100.0, 50.0]);
    assert_eq!((of_rank(&index, 1), of_rank(&index, 2)), ((0, 100), (0, 50)));
    // Whoever uses everyone's names needs no room; a second copy does.
    let plain = index.apply(rank(3), stored(None, &chain(&blocks), &blocks));
    assert_eq!((plain.stored, plain.refused), (100, 0));
    let again = index.apply(rank(3), stored(None, &chain(&blocks), &blocks));
    assert_eq!((again.stored_again, again.refused), (0, 100));
    // Names that are known already need none either, and what is taken back makes room.
    index.apply(rank(2), removed(&called(2)[40..50]));
    let again = index.apply(rank(3), stored(None, &chain(&blocks), &blocks));
    assert_eq!((again.stored_again, again.refused), (10, 90));
    index.state.read().check();
    for (r, room) in [(1, 100), (2, 40)] {
        index.remove_rank(rank(r));
        let more = index.apply(rank(4), stored(None, &called(4)[..room], &blocks[..room]));
        assert_eq!(more.refused, 0);
        index.apply(rank(4), CacheEvent::Cleared);
        index.state.read().check();
    }
}

#[test]
fn a_long_list_without_room_for_its_names_is_refused_from_there_on() {
    let blocks: Vec<u64> = (1..=10_000).collect();
    let index = bounded(1 << 20, extras(3_000, 0));
    index.apply(rank(0), stored(None, &chain(&blocks), &blocks));
    let mine: Vec<u64> = (100_001..=110_000).collect();
    let applied = index.apply(rank(1), stored(None, &mine, &blocks));
    assert_eq!((applied.stored, applied.refused), (3_000, 7_000));
    assert_eq!(device(&index, &blocks), [10_000.0, 3_000.0, 0.0]);
    let applied = index.apply(rank(1), removed(&mine));
    assert_eq!((applied.removed, applied.unknown), (3_000, 7_000));
    index.state.read().check();
}

#[test]
fn what_waits_is_bounded_over_all_ranks() {
    let index = bounded(1 << 20, extras(100, 100));
    let blocks: Vec<u64> = (1..=20).collect();
    let wait = |r, parent| index.apply(rank(r), stored(Some(parent), &chain(&blocks), &blocks));
    for r in 0..4 {
        assert_eq!((wait(r, 77).orphaned, wait(r, 78).orphaned), (20, 20));
    }
    // The first two have all; the third has its newest; the last never had any.
    let orphans = [0, 1, 2, 3].map(|r| index.rank_stats(rank(r)).map_or(0, |stats| stats.orphans));
    assert_eq!(orphans, [40, 40, 20, 0]);
    assert_eq!(wait(2, 79).orphans_dropped, 20);
    assert_eq!(wait(3, 79).orphans_dropped, 20);
    index.apply(rank(0), CacheEvent::Cleared);
    assert_eq!(wait(3, 79).orphans_dropped, 0);
    index.state.read().check();
    // By the bytes of what is in them, too.
    let tokens = vec![1; 20 * 4_096];
    let content = Content::Tokens { tokens: &tokens, media: &[], scope: Scope::default() };
    let index = bounded(1 << 20, extras(100, 1_000));
    let mut dropped = 0;
    for r in 0..8 {
        let stored = Stored { parent: Some(7), engines: &blocks, content, tier: Tier::Device };
        dropped += index.apply(rank(r), CacheEvent::Stored(stored)).orphans_dropped;
    }
    assert_eq!(dropped, 5 * 20);
    index.state.read().check();
}

/// However many names an engine has, one that comes has a few looked at.
#[test]
fn names_are_looked_at_again_a_few_at_a_time() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (1..=20_000).collect();
    index.apply(rank(0), stored(None, &chain(&blocks), &blocks));
    index.apply(rank(1), stored(None, &chain(&blocks), &blocks));
    // Names for blocks that it takes back by everyone's: they lead nowhere.
    for round in 1..=4 {
        let mine: Vec<u64> = blocks.iter().map(|block| round << 40 | block).collect();
        index.apply(rank(1), stored(None, &mine, &blocks));
        index.apply(rank(1), removed(&chain(&blocks)));
    }
    index.apply(rank(1), removed(&chain(&blocks)));
    let mut names = of_rank(&index, 1).1;
    assert!(names > 20_000, "{names}");
    let mut most = 0;
    for at in 0..2_000 {
        index.apply(rank(1), stored(None, &[1 << 50 | at], &blocks[..1]));
        let now = of_rank(&index, 1).1;
        most = most.max(names.saturating_sub(now));
        names = now;
    }
    assert!(most <= 200, "{most} went at once");
    assert!(names < 6_000, "{names} are left");
    index.state.read().check();
}

#[test]
fn an_index_that_has_become_empty_gives_its_memory_back() {
    let index = PrefixIndex::default();
    let empty = index.stats().bytes;
    for leaves in [false, true] {
        for r in 0..50 {
            let blocks: Vec<u64> = (1..=4_000).map(|at| r * 10_000 + at).collect();
            for part in blocks.chunks(3) {
                index.apply(rank(r), stored(None, &chain(part), part));
            }
        }
        let full = index.stats().bytes;
        assert!(full > 5 << 20, "{full}");
        for r in 0..50 {
            if leaves {
                index.remove_rank(rank(r));
            } else {
                index.apply(rank(r), CacheEvent::Cleared);
            }
        }
        while index.tidy() {}
        assert!(index.stats().bytes < empty + 20_000, "{} of {full}", index.stats().bytes);
        assert_eq!(index.stats().blocks, 0);
    }
    assert_eq!(index.state.read().ranks.slots(), 0);
    // And goes on as if it were new.
    index.apply(rank(0), stored(None, &chain(&[1, 2]), &[1, 2]));
    assert_eq!(device(&index, &[1, 2]), [2.0, 0.0, 0.0]);
    index.state.read().check();
}
