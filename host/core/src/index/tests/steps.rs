//! No change, and no cleaning up, keeps the index for long: counted in blocks, not in time.

use super::super::state::AT_LEISURE_BLOCKS;
use super::*;

/// Blocks of one step, at most: it may end with a prompt's.
const MOST: usize = 2 * 1_024;

const MANY: u64 = 20_000;

/// Names, and what they are of: a prompt of many blocks.
fn long() -> (Vec<u64>, Vec<u64>) {
    let blocks: Vec<u64> = (1..=MANY).collect();
    (chain(&blocks), blocks)
}

/// Applies an event, and returns what each step has done.
fn steps(index: &PrefixIndex, event: CacheEvent<'_>) -> Vec<Applied> {
    let mut change = Change::new(rank(0), event);
    let mut steps = vec![];
    loop {
        let more = index.step(&mut change);
        steps.push(change.applied());
        if !more {
            return steps;
        }
    }
}

/// The most that happened from one to the next.
fn largest(totals: impl IntoIterator<Item = usize>) -> usize {
    let mut last = 0;
    totals
        .into_iter()
        .map(|total| total.abs_diff(std::mem::replace(&mut last, total)))
        .max()
        .unwrap()
}

/// Distinct blocks that there are.
fn blocks(index: &PrefixIndex) -> usize {
    index.state.read().tree.blocks()
}

/// Tidies, and returns the most blocks that one step has freed.
fn tidy(index: &PrefixIndex) -> usize {
    let mut totals = vec![];
    let before = blocks(index);
    while index.tidy() {
        totals.push(before - blocks(index));
    }
    totals.push(before - blocks(index));
    largest(totals)
}

#[test]
fn a_long_list_is_stored_and_removed_in_steps() {
    let index = PrefixIndex::default();
    let (names, hashes) = long();
    let done = steps(&index, stored(None, &names, &hashes));
    assert_eq!(done.last().unwrap().stored, names.len());
    assert!(largest(done.iter().map(|applied| applied.stored)) <= MOST);
    assert_eq!(index.look_up_rank(&names, rank(0))[0], MANY);
    // Half way, whoever looks sees what was applied up to there.
    let reversed: Vec<u64> = names.iter().rev().copied().collect();
    let mut change = Change::new(rank(0), removed(&reversed));
    assert!(index.step(&mut change));
    let left = index.look_up_rank(&names, rank(0))[0];
    assert!(left < MANY && left >= MANY - MOST as u64, "{left}");
    while index.step(&mut change) {}
    assert_eq!(change.applied().removed, names.len());
    tidy(&index);
    assert_eq!(blocks(&index), 0);
    index.state.read().check();
}

#[test]
fn a_rank_that_is_cleared_in_the_middle_of_a_list_gets_nothing_of_the_rest() {
    let (names, hashes) = long();
    for forget in [
        (|index: &PrefixIndex| index.remove_rank(rank(0))) as fn(&PrefixIndex),
        |index| {
            index.apply(rank(0), CacheEvent::Cleared);
        },
        |index| {
            index.apply(rank(0), CacheEvent::Cleared);
            index.apply(rank(0), stored(None, &[7], &[7]));
        },
    ] {
        let index = PrefixIndex::default();
        let mut change = Change::new(rank(0), stored(None, &names, &hashes));
        assert!(index.step(&mut change));
        forget(&index);
        while index.step(&mut change) {}
        let Applied { stored, strange, .. } = change.applied();
        assert_eq!(stored + strange, names.len());
        assert_eq!(index.look_up_rank(&names, rank(0))[0], 0);
        assert!(index.rank_stats(rank(0)).is_none_or(|stats| stats.held[0] <= 1));
        tidy(&index);
        index.state.read().check();
    }
}

#[test]
fn a_list_that_there_is_no_room_for_is_refused_from_there_on() {
    let index = PrefixIndex::new(5_000);
    let (names, hashes) = long();
    let applied = index.apply(rank(0), stored(None, &names, &hashes));
    assert_eq!((applied.stored, applied.refused), (5_000, names.len() - 5_000));
    assert_eq!(index.look_up_rank(&names, rank(0))[0], 5_000);
}

#[test]
fn tokens_media_and_the_scope_go_on_from_step_to_step() {
    let scope = Scope::new(Some("adapter"), Some("salt"));
    let tokens: Vec<u32> = (0..4 * 3_000).collect();
    let engines: Vec<u64> = (1..=3_000).collect();
    let media: Vec<Vec<u64>> = engines.iter().map(|at| vec![at % 5; (at % 3) as usize]).collect();
    let content = Content::Tokens { tokens: &tokens, media: &media, scope };
    let mut hashes = vec![];
    content.chain(3_000, None, scope, &mut hashes);
    for step in [1, 7, 1_024, usize::MAX] {
        let index = PrefixIndex::default();
        let event = Stored { parent: None, engines: &engines, content, tier: Tier::Host };
        let mut change = Change::new(rank(0), CacheEvent::Stored(event)).in_steps_of(step);
        while index.step(&mut change) {}
        assert_eq!(index.look_up_rank(&hashes, rank(0)), [0, 3_000, 0, 0]);
    }
}

#[test]
fn a_step_is_short_when_its_blocks_are_long() {
    let of = |size: usize, media: usize| {
        let (tokens, media) = (vec![0; size * 64], vec![vec![0; media]; 64]);
        let content = Content::Tokens { tokens: &tokens, media: &media, scope: Scope::default() };
        let engines = [0; 64];
        Stored { parent: None, engines: &engines, content, tier: Tier::Device }
            .leading(1_024, 1_000)
    };
    assert_eq!([of(16, 0), of(100, 0), of(50, 50), of(5_000, 0), of(1, 5_000)], [62, 10, 10, 1, 1]);
}

#[test]
fn a_large_rank_is_swept_a_few_blocks_at_a_time() {
    for length in [1, 128, MANY] {
        let index = PrefixIndex::default();
        for first in (0..MANY).step_by(length as usize) {
            let hashes: Vec<u64> = (first + 1..=first + length).collect();
            index.apply(rank(0), stored(None, &chain(&hashes), &hashes));
        }
        let all = blocks(&index);
        assert!(all as u64 >= MANY);
        index.apply(rank(0), CacheEvent::Cleared);
        let most = tidy(&index);
        assert!(most <= AT_LEISURE_BLOCKS + 64, "{most} of {length}");
        assert_eq!(blocks(&index), 0);
        index.state.read().check();
    }
}

#[test]
fn what_is_known_for_the_sake_of_one_block_is_freed_little_by_little() {
    let index = PrefixIndex::default();
    let (names, hashes) = long();
    index.apply(rank(0), stored(None, &names, &hashes));
    let (last, before) = names.split_last().unwrap();
    index.apply(rank(0), removed(before));
    assert_eq!(blocks(&index), names.len(), "they lead to one that is held");
    index.apply(rank(0), removed(&[*last]));
    let freed = names.len() - blocks(&index);
    assert!(freed <= MOST + 2 * 64 + 64, "{freed}");
    assert!(tidy(&index) <= AT_LEISURE_BLOCKS + 64);
    assert_eq!(blocks(&index), 0);
    index.state.read().check();
}

#[test]
fn a_block_that_thousands_wait_for_links_them_in_steps() {
    let index = PrefixIndex::default();
    let most = 16_384_usize;
    for at in 0..most as u64 {
        // All under one name, as no honest engine would.
        index.apply(rank(0), stored(Some(1), &[2], &[100 + at]));
    }
    assert_eq!(index.rank_stats(rank(0)).unwrap().orphans, most);
    let done = steps(&index, stored(None, &[1], &[1]));
    assert_eq!(done.last().unwrap().linked, most);
    assert!(largest(done.iter().map(|applied| applied.linked)) <= MOST);
    assert_eq!(
        index.rank_stats(rank(0)).unwrap(),
        RankStats { held: [most + 1, 0, 0, 0], orphans: 0 }
    );
    index.state.read().check();
}

#[test]
fn more_than_may_ever_wait_takes_no_room_from_others() {
    let index = PrefixIndex::default();
    index.apply(rank(0), stored(Some(5), &[6], &[6]));
    let (names, hashes) = long();
    let applied = index.apply(rank(0), stored(Some(9), &names, &hashes));
    assert_eq!((applied.orphaned, applied.orphans_dropped), (names.len(), names.len()));
    assert_eq!(index.rank_stats(rank(0)).unwrap().orphans, 1);
}
