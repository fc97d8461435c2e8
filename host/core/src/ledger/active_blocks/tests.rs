//! Promises of the active blocks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const ROWS: usize = 24;

fn blocks(rows: usize) -> ActiveBlocks {
    let mut blocks = ActiveBlocks::default();
    blocks.renumber(&[], rows);
    blocks
}

fn chain(hashes: &[u64]) -> Arc<[u64]> {
    hashes.into()
}

fn hold(blocks: &mut ActiveBlocks, hashes: &[u64], row: u32, id: BookingId) -> Held {
    let held = blocks.hold(&chain(hashes), hashes.len(), row, id, |_, _| {});
    blocks.check();
    held
}

fn release(blocks: &mut ActiveBlocks, held: Held, row: u32, id: BookingId) -> u64 {
    let gone = blocks.release(held.leaf, row, id, |_, _| {});
    blocks.check();
    gone
}

#[test]
fn blocks_that_are_shared_on_a_row_are_fresh_once() {
    let mut trie = blocks(2);
    let first = hold(&mut trie, &[1, 2, 3, 4], 0, 0);
    assert_eq!((first.fresh, trie.len()), (4, 1));
    // Two of three are there, so the run is cut behind them.
    let second = hold(&mut trie, &[1, 2, 9], 0, 1);
    assert_eq!((second.fresh, trie.len()), (1, 3));
    // Another row shares nothing, but uses the same runs.
    let third = hold(&mut trie, &[1, 2, 3, 4], 1, 2);
    assert_eq!((third.fresh, trie.len()), (4, 3));
    assert_eq!([0, 1].map(|row| trie.active(&[1, 2, 9, 9], row)), [3, 2]);
    assert_eq!([0, 1].map(|row| trie.active(&[2, 3], row)), [0, 0], "only from the beginning");
    assert_eq!(release(&mut trie, first, 0, 0), 2, "1 and 2 stay for the second");
    assert_eq!(release(&mut trie, second, 0, 1), 3);
    assert_eq!(trie.len(), 1, "what was cut is one again");
    assert_eq!(release(&mut trie, third, 1, 2), 4);
    assert_eq!((trie.len(), trie.names.len()), (0, 0));
}

#[test]
fn who_is_alone_is_told_when_that_begins_and_ends() {
    let mut trie = blocks(2);
    let one = hold(&mut trie, &[1, 2, 3, 4], 0, 7);
    assert_eq!(trie.alone(one.leaf, 0), 4);
    let mut told = Vec::new();
    let two = trie.hold(&chain(&[1, 2, 5]), 3, 0, 8, |id, blocks| told.push((id, blocks)));
    assert_eq!(told, [(7, 2)]);
    assert_eq!((trie.alone(one.leaf, 0), trie.alone(two.leaf, 0)), (2, 1));
    told.clear();
    let elsewhere = trie.hold(&chain(&[1, 2]), 2, 1, 9, |id, blocks| told.push((id, blocks)));
    assert!(told.is_empty(), "another row takes nothing away");
    let gone = trie.release(one.leaf, 0, 7, |id, blocks| told.push((id, blocks)));
    assert_eq!((gone, told), (2, vec![(8, 2)]));
    assert_eq!((trie.alone(two.leaf, 0), trie.alone(elsewhere.leaf, 1)), (3, 2));
}

#[test]
fn a_prompt_within_another_ends_where_it_ends() {
    let mut trie = blocks(1);
    let long = hold(&mut trie, &[1, 2, 3, 4], 0, 0);
    let short = hold(&mut trie, &[1, 2], 0, 1);
    assert_eq!((short.fresh, trie.len()), (0, 2));
    let same = hold(&mut trie, &[1, 2, 3, 4], 0, 2);
    assert_eq!((same.fresh, same.leaf), (0, long.leaf));
    assert_eq!(release(&mut trie, short, 0, 1), 0);
    assert_eq!(trie.len(), 1);
    assert_eq!(release(&mut trie, long, 0, 0) + release(&mut trie, same, 0, 2), 4);
}

#[test]
fn only_the_counted_part_of_a_chain_is_held() {
    let mut trie = blocks(1);
    let held = trie.hold(&chain(&[1, 2, 3]), 2, 0, 0, |_, _| {});
    assert_eq!((held.fresh, trie.active(&[1, 2, 3], 0)), (2, 2));
    let longer = trie.hold(&chain(&[1, 2, 3]), usize::MAX, 0, 1, |_, _| {});
    assert_eq!(longer.fresh, 1);
    trie.check();
}

#[test]
fn what_is_active_is_taken_off_all_rows_or_some() {
    // Enough rows that many holders are counted in a table.
    let rows = 100;
    let mut trie = blocks(rows);
    for row in 0..60 {
        hold(&mut trie, &[1, 2, 3], row, row);
    }
    for row in 50..54 {
        hold(&mut trie, &[1, 2, 3, 4, 5], row, 100 + row);
    }
    let mut all = vec![9.0; rows];
    trie.take_off(&[1, 2, 3, 4, 6], None, &mut all);
    let expected = |row: u32| match row {
        50..54 => 5.0,
        0..60 => 6.0,
        _ => 9.0,
    };
    assert_eq!(all, (0..100).map(expected).collect::<Vec<_>>());
    let some = [0, 7, 51, 53, 59, 60, 99];
    let mut column = [9.0; 7];
    trie.take_off(&[1, 2, 3, 4, 6], Some(&some), &mut column);
    assert_eq!(column, some.map(expected));
}

#[test]
fn many_prompts_that_come_and_go_leave_nothing_but_bounded_memory() {
    let mut trie = blocks(1);
    let long: Vec<u64> = (0..500).collect();
    let stays = hold(&mut trie, &long, 0, 0);
    for end in 1..500 {
        let mut other = long[..end].to_vec();
        other.push(10_000);
        let held = trie.hold(&chain(&other), other.len(), 0, 1, |_, _| {});
        assert!(trie.len() <= 3);
        trie.release(held.leaf, 0, 1, |_, _| {});
        assert_eq!(trie.len(), 1);
    }
    trie.check();
    release(&mut trie, stays, 0, 0);
    let held: Vec<_> =
        (0..5_000).map(|n| trie.hold(&chain(&[n]), 1, 0, n as u32, |_, _| {})).collect();
    for (held, id) in held.into_iter().zip(0..) {
        trie.release(held.leaf, 0, id, |_, _| {});
    }
    assert_eq!(trie.runs.capacity(), 0, "a crowd that has gone leaves its memory");
}

#[derive(Clone, Debug)]
enum Step {
    Hold(u32, Vec<u64>),
    Release(usize),
    /// Rows whose bit is set leave.
    Leave(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // Few letters and short prompts, so that they meet, part and end within one another.
    let prompt = prop::collection::vec(0..3_u64, 0..8);
    prop_oneof![
        6 => (0..ROWS as u32, prompt).prop_map(|(row, prompt)| Step::Hold(row, prompt)),
        4 => any::<usize>().prop_map(Step::Release),
        1 => any::<u64>().prop_map(|bits| Step::Leave(bits & (bits >> 7) & (bits >> 13))),
    ]
}

/// Every block's name tells all that comes before it.
fn named(prompt: &[u64]) -> Vec<u64> {
    let mut name = 1;
    let next = |letter: &u64| {
        name = name * 4 + letter;
        name
    };
    prompt.iter().map(next).collect()
}

proptest! {
    #[test]
    fn any_bookings_are_what_sets_of_blocks_would_be(
        steps in prop::collection::vec(step(), 1..60), honest: bool,
    ) {
        let mut trie = blocks(ROWS);
        let mut live: Vec<(Held, u32, BookingId, Vec<u64>)> = Vec::new();
        let mut rows = ROWS;
        for (step, id) in steps.into_iter().zip(0..) {
            match step {
                Step::Hold(row, prompt) if (row as usize) < rows => {
                    let hashes = if honest { named(&prompt) } else { prompt };
                    let known = paths(&live, row);
                    let held = trie.hold(&chain(&hashes), hashes.len(), row, id, |_, _| {});
                    live.push((held, row, id, hashes.clone()));
                    prop_assert_eq!(held.fresh as usize, paths(&live, row).len() - known.len());
                }
                Step::Release(at) if !live.is_empty() => {
                    let (held, row, id, _) = live.swap_remove(at % live.len());
                    let before = {
                        let mut with = live.clone();
                        with.push((held, row, id, trie_chain(&trie, held)));
                        paths(&with, row).len()
                    };
                    let gone = trie.release(held.leaf, row, id, |_, _| {});
                    prop_assert_eq!(gone as usize, before - paths(&live, row).len());
                }
                Step::Leave(bits) => {
                    let leaves = |row: u32| bits >> (row % 64) & 1 == 1;
                    live.retain(|(held, row, id, _)| {
                        if leaves(*row) {
                            trie.release(held.leaf, *row, *id, |_, _| {});
                        }
                        !leaves(*row)
                    });
                    let mut next = 0;
                    let new: Vec<Option<u32>> = (0..rows as u32).map(|row| {
                        (!leaves(row)).then(|| { next += 1; next - 1 })
                    }).collect();
                    rows = next as usize;
                    trie.renumber(&new, rows);
                    for (_, row, ..) in &mut live {
                        *row = new[*row as usize].expect("it stays");
                    }
                }
                _ => {}
            }
            trie.check();
            prop_assert!(trie.len() <= 2 * live.len());
            let alone = live.iter().all(|(held, row, id, hashes)| {
                let mut others = live.clone();
                others.retain(|other| other.2 != *id);
                let known = paths(&others, *row);
                let mine = (1..=hashes.len()).filter(|&end| !known.contains(&hashes[..end])).count();
                trie.alone(held.leaf, *row) == mine as u64
            });
            prop_assert!(alone);
            let wanted = live.first().map(|first| first.3.clone()).unwrap_or_default();
            let mut column = vec![0.0; rows];
            trie.take_off(&wanted, None, &mut column);
            for row in 0..rows as u32 {
                let known = paths(&live, row);
                let active = (1..=wanted.len()).filter(|&end| known.contains(&wanted[..end])).count();
                prop_assert_eq!(column[row as usize], -(active as f64));
                prop_assert_eq!(trie.active(&wanted, row), active as u64);
            }
        }
        for (held, row, id, _) in live {
            trie.release(held.leaf, row, id, |_, _| {});
        }
        prop_assert_eq!(trie.len(), 0);
        prop_assert!(trie.names.is_empty());
    }

    #[test]
    fn two_stretches_have_in_common_what_they_begin_with(
        same in prop::collection::vec(any::<u64>(), 0..100),
        one in prop::collection::vec(0..2_u64, 0..40),
        other in prop::collection::vec(0..2_u64, 0..40),
    ) {
        let expected = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let join = |rest: &[u64]| same.iter().chain(rest).copied().collect::<Vec<_>>();
        prop_assert_eq!(common(&join(&one), &join(&other)), same.len() + expected);
    }
}

/// The beginnings that a row has active: what a block is, if it is known by all before it.
fn paths(live: &[(Held, u32, BookingId, Vec<u64>)], row: u32) -> BTreeSet<Vec<u64>> {
    let mine = live.iter().filter(|booking| booking.1 == row);
    mine.flat_map(|booking| (1..=booking.3.len()).map(|end| booking.3[..end].to_vec())).collect()
}

/// A booking's hashes, as the trie knows them.
fn trie_chain(trie: &ActiveBlocks, held: Held) -> Vec<u64> {
    let mut parts = BTreeMap::new();
    trie.path(held.leaf, |_, run| {
        parts.insert(run.from, run.hashes().to_vec());
    });
    parts.into_values().flatten().collect()
}
