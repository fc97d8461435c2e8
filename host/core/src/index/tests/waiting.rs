//! Blocks whose parent has not come yet.

use super::*;

#[test]
fn a_gap_hides_what_is_behind_it_until_it_is_filled() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4, 5];
    let names = chain(&blocks);
    index.apply(rank(0), stored(None, &names, &blocks));
    index.apply(rank(0), removed(&names[1..2]));
    assert_eq!(device(&index, &blocks), [1.0, 0.0, 0.0]);
    assert_eq!(index.stats().held, 4);
    index.apply(rank(0), stored(Some(names[0]), &names[1..2], &blocks[1..2]));
    assert_eq!(device(&index, &blocks), [5.0, 0.0, 0.0]);
}

#[test]
fn an_orphan_counts_for_nothing_until_its_parent_comes() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4, 5, 6];
    let names = chain(&blocks);
    // Two stretches wait, the second for the first; a block of it goes meanwhile.
    index.apply(rank(0), stored(Some(names[3]), &names[4..], &blocks[4..]));
    let waits = index.apply(rank(0), stored(Some(names[1]), &names[2..4], &blocks[2..4]));
    assert_eq!(waits.orphaned, 2);
    assert_eq!(index.apply(rank(0), removed(&names[5..])).removed, 1);
    assert_eq!(device(&index, &blocks), [0.0, 0.0, 0.0]);
    assert_eq!(index.rank_stats(rank(0)).unwrap().orphans, 4);
    let linked = index.apply(rank(0), stored(None, &names[..2], &blocks[..2]));
    assert_eq!((linked.stored, linked.linked), (2, 3));
    assert_eq!(device(&index, &blocks), [5.0, 0.0, 0.0]);
    assert_eq!(index.rank_stats(rank(0)).unwrap(), RankStats { held: [5, 0, 0, 0], orphans: 0 });
}

#[test]
fn orphans_are_limited_and_the_oldest_goes_first() {
    let index = PrefixIndex::default();
    let blocks: Vec<u64> = (0..1000).collect();
    let mut dropped = 0;
    for stretch in 0..20_u64 {
        let names: Vec<u64> = (0..1000).map(|at| stretch * 1000 + at + 1).collect();
        dropped +=
            index.apply(rank(0), stored(Some(1 << 40 | stretch), &names, &blocks)).orphans_dropped;
    }
    assert_eq!(dropped, 4_000);
    assert_eq!(index.rank_stats(rank(0)).unwrap().orphans, 16_000);
    // The newest is there still.
    assert_eq!(index.apply(rank(0), removed(&[19_001])).removed, 1);
    assert_eq!(index.apply(rank(0), removed(&[1])).unknown, 1);
}

#[test]
fn what_waits_is_limited_by_its_size_too() {
    let index = PrefixIndex::default();
    let tokens = vec![1; 1 << 20];
    let mut dropped = 0;
    for name in 0..20 {
        let content = Content::Tokens { tokens: &tokens, media: &[], scope: Scope::default() };
        let event = Stored { parent: Some(99), engines: &[name], content, tier: Tier::Device };
        dropped += index.apply(rank(0), CacheEvent::Stored(event)).orphans_dropped;
    }
    assert!(dropped >= 12, "{dropped} of 20 blocks of 4 MiB");
    assert!(index.stats().bytes < 40 << 20);
    // What could never be placed doesn't wait.
    assert_eq!(index.apply(rank(0), stored(Some(99), &[1], &[1, 2])).malformed, 1);
}

#[test]
fn a_block_that_waits_is_removed_even_if_another_engine_tells_of_it() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3];
    let names = chain(&blocks);
    index.apply(rank(0), stored(Some(names[0]), &names[1..], &blocks[1..]));
    index.apply(rank(1), stored(None, &names, &blocks));
    let applied = index.apply(rank(0), removed(&[names[2], names[0], 99, names[2]]));
    assert_eq!((applied.removed, applied.unknown), (1, 3));
    let applied = index.apply(rank(0), stored(None, &names[..1], &blocks[..1]));
    assert_eq!((applied.stored, applied.linked), (1, 1));
    assert_eq!(device(&index, &blocks), [2.0, 3.0, 0.0]);
}

#[test]
fn what_follows_a_block_that_waits_waits_too() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4];
    let names = chain(&blocks);
    index.apply(rank(0), stored(Some(names[0]), &names[1..2], &blocks[1..2]));
    // Another engine means another block by the same name.
    index.apply(rank(1), stored(None, &names[1..2], &[77]));
    let waits = index.apply(rank(0), stored(Some(names[1]), &names[2..], &blocks[2..]));
    assert_eq!((waits.orphaned, waits.stored), (2, 0));
    let linked = index.apply(rank(0), stored(None, &names[..1], &blocks[..1]));
    assert_eq!(linked.linked, 3);
    assert_eq!(device(&index, &blocks), [4.0, 0.0, 0.0]);
}

#[test]
fn a_parent_that_another_engine_told_of_is_known() {
    let index = PrefixIndex::default();
    let blocks = [1, 2];
    let names = chain(&blocks);
    index.apply(rank(0), stored(Some(names[0]), &names[1..], &blocks[1..]));
    index.apply(rank(1), stored(None, &names, &blocks));
    assert_eq!(device(&index, &blocks), [0.0, 2.0, 0.0]);
    // It counts from when this engine has the parent too.
    index.apply(rank(0), stored(None, &names[..1], &blocks[..1]));
    assert_eq!(device(&index, &blocks), [2.0, 2.0, 0.0]);
    // And for one that has told of nothing before, at once.
    index.apply(rank(2), stored(Some(names[0]), &names[1..], &blocks[1..]));
    assert_eq!(index.rank_stats(rank(2)).unwrap(), RankStats { held: [1, 0, 0, 0], orphans: 0 });
}

#[test]
fn a_block_that_waits_twice_is_gone_when_it_was_removed_twice() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3];
    let names = chain(&blocks);
    for _ in 0..2 {
        index.apply(rank(0), stored(Some(names[0]), &names[1..], &blocks[1..]));
    }
    for _ in 0..2 {
        assert_eq!(index.apply(rank(0), removed(&names[2..])).removed, 1);
    }
    assert_eq!(index.apply(rank(0), removed(&names[2..])).unknown, 1);
    index.apply(rank(0), stored(None, &names[..1], &blocks[..1]));
    assert_eq!(device(&index, &blocks), [2.0, 0.0, 0.0]);
    assert_eq!(index.apply(rank(0), removed(&names[1..2])).copies_removed, 1);
    assert_eq!(index.apply(rank(0), removed(&names[1..2])).removed, 1);
}
