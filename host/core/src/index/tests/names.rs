//! What engines call their blocks.

use super::*;

#[test]
fn engines_with_names_of_their_own_share_blocks() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4];
    let names = [[11, 12, 13, 14], [21, 22, 23, 24]];
    for (r, names) in names.iter().enumerate() {
        index.apply(rank(r as u64), stored(None, &names[..2], &blocks[..2]));
        index.apply(rank(r as u64), stored(Some(names[1]), &names[2..], &blocks[2..]));
    }
    assert_eq!(device(&index, &blocks), [4.0, 4.0, 0.0]);
    assert_eq!(index.stats().blocks, 4);
    index.apply(rank(1), removed(&names[1][3..]));
    index.apply(rank(0), removed(&names[0][1..]));
    assert_eq!(device(&index, &blocks), [1.0, 3.0, 0.0]);
    // The other's name for it means nothing to this one.
    assert_eq!(index.apply(rank(1), removed(&names[0][2..3])).removed, 1);
}

#[test]
fn one_name_for_two_blocks_is_told_apart_by_engine() {
    let index = PrefixIndex::default();
    index.apply(rank(0), stored(None, &[7], &[1]));
    index.apply(rank(1), stored(None, &[7], &[2]));
    assert_eq!(device(&index, &[1]), [1.0, 0.0, 0.0]);
    assert_eq!(device(&index, &[2]), [0.0, 1.0, 0.0]);
    index.apply(rank(1), stored(Some(7), &[8], &[3]));
    assert_eq!(device(&index, &[2, 3]), [0.0, 2.0, 0.0]);
    index.apply(rank(1), removed(&[7]));
    assert_eq!(device(&index, &[1]), [1.0, 0.0, 0.0]);
    assert_eq!(device(&index, &[2, 3]), [0.0, 0.0, 0.0]);
}

#[test]
fn one_list_may_name_all_kinds_of_blocks() {
    let index = PrefixIndex::default();
    let blocks = [1, 2, 3, 4, 5, 6];
    let names = chain(&blocks);
    let mine = [11, 12, 13, 14, 15, 16];
    // The first four are known by the other's names; the third is held twice; the last wait.
    index.apply(rank(1), stored(None, &names[..4], &blocks[..4]));
    index.apply(rank(0), stored(None, &mine[..4], &blocks[..4]));
    index.apply(rank(0), stored(Some(mine[1]), &mine[2..3], &blocks[2..3]));
    index.apply(rank(0), stored(Some(90), &mine[4..], &blocks[4..]));
    let list = [mine[3], 91, mine[2], mine[4], mine[1], mine[2], mine[2], mine[4]];
    let applied = index.apply(rank(0), removed(&list));
    assert_eq!((applied.removed, applied.copies_removed, applied.unknown), (4, 1, 3));
    assert_eq!(device(&index, &blocks), [1.0, 4.0, 0.0]);
    let stats = index.rank_stats(rank(0)).unwrap();
    assert_eq!(stats, RankStats { held: [1, 0, 0, 0], orphans: 2 });
    index.state.read().check();
}

#[test]
fn lists_of_names_of_its_own_leave_no_splinters() {
    for reverse in [false, true] {
        let index = PrefixIndex::default();
        let blocks: Vec<u64> = (1..=60).collect();
        index.apply(rank(0), stored(None, &chain(&blocks), &blocks));
        let mut mine: Vec<u64> = (1_001..=1_060).collect();
        index.apply(rank(1), stored(None, &mine, &blocks));
        mine = mine.split_off(20);
        if reverse {
            mine.reverse();
        }
        assert_eq!(index.apply(rank(1), removed(&mine)).removed, 40);
        assert_eq!(device(&index, &blocks), [60.0, 20.0, 0.0]);
        assert_eq!(index.state.read().tree.run_numbers(), 1);
        index.state.read().check();
    }
}

#[test]
fn a_name_that_was_taken_is_known_to_everyone_who_uses_it() {
    let index = PrefixIndex::default();
    index.apply(rank(0), stored(None, &[7], &[1]));
    // Another block by the same name, told of by two engines.
    for r in [1, 2] {
        index.apply(rank(r), stored(None, &[7], &[2]));
    }
    assert_eq!(device(&index, &[2]), [0.0, 1.0, 1.0]);
    assert_eq!(index.apply(rank(2), removed(&[7])).removed, 1);
    assert_eq!(device(&index, &[2]), [0.0, 1.0, 0.0]);
    // Who had it first goes; the name is the other's still.
    index.apply(rank(0), removed(&[7]));
    index.apply(rank(2), stored(None, &[7], &[2]));
    for r in [2, 1] {
        assert_eq!(index.apply(rank(r), removed(&[7])).removed, 1);
    }
    assert_eq!(index.stats().blocks, 0);
}

#[test]
fn a_name_means_what_its_engine_called_so_last() {
    let index = PrefixIndex::default();
    // To rank 0, 7 is another block than to rank 1; then the same.
    index.apply(rank(1), stored(None, &[7], &[1]));
    index.apply(rank(0), stored(None, &[7], &[2]));
    index.apply(rank(0), stored(None, &[7], &[1]));
    index.apply(rank(0), removed(&[7]));
    assert_eq!(device(&index, &[1]), [0.0, 1.0, 0.0]);
    assert_eq!(device(&index, &[2]), [1.0, 0.0, 0.0]);
}

#[test]
fn names_that_are_never_taken_back_are_forgotten() {
    let index = PrefixIndex::default();
    index.apply(rank(0), stored(None, &[1], &[1]));
    let extras = || index.state.read().ranks.life(1).unwrap().copies_and_names();
    // The same block under ever new names, each taken back: as a copy, or as the last.
    index.apply(rank(1), stored(None, &[10], &[1]));
    for name in 100..10_100 {
        index.apply(rank(1), stored(None, &[name], &[1]));
        assert_eq!(index.apply(rank(1), removed(&[name])).copies_removed, 1);
    }
    assert_eq!(extras(), (0, 1));
    // Or taken back by the name that everyone uses.
    for name in 20_000..30_000 {
        index.apply(rank(1), stored(None, &[name], &[1]));
        index.apply(rank(1), removed(&[1]));
    }
    assert!(extras().1 < 3_000, "{:?}", extras());
}
