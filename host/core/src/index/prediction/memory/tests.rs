//! Whose end is written down: that of each prompt's last block, once. And how prompts are followed.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use super::*;
use crate::index::PrefixIndex;
use crate::index::tests::model::rank;
use crate::index::tree::LONGEST;

/// A memory, and the index that it keeps in step.
struct Kept {
    memory: Memory,
    index: PrefixIndex,
}

impl Kept {
    fn new(way: Way) -> Self {
        Self { memory: Memory::new(1, way), index: PrefixIndex::unnamed(1 << 20) }
    }

    /// Takes in a prompt, and opens it.
    fn take_in(&mut self, chain: &[u64]) -> Known {
        let Self { memory, index } = self;
        let known = memory.follow(chain, Known::default());
        memory.open(Known::default(), known);
        let (mut end, mut missing, mut stretches) = (known, &chain[known.blocks..], Vec::new());
        index.hold(rank(0), memory.place(known), known.blocks, missing, &mut stretches);
        for stretch in stretches {
            end = memory.add(end, &missing[..stretch.len], stretch.first);
            missing = &missing[stretch.len..];
        }
        memory.open(known, end);
        end
    }

    fn taken(&mut self, chain: &[u64], mark: u64) -> Option<Written> {
        let end = self.take_in(chain);
        let mut gone = Gone::default();
        let written = self.memory.taken(end.last.unwrap(), mark, (0, 9), &mut gone);
        assert_eq!(gone.blocks, 0);
        self.memory.check();
        written
    }

    /// What ends then: how many blocks, and what is to be asked for next.
    fn end(&mut self, last: NodeRef, step: u64) -> (usize, Option<Written>) {
        let mut gone = Gone::default();
        let written = self.memory.end(last, step, 9, &mut gone);
        (gone.blocks, written)
    }

    /// The block whose end is written down, and when that is.
    fn block(&self, written: Option<Written>) -> Option<(u64, u64)> {
        let (last, when) = written?;
        let id = self.memory.nodes.kept(last)?;
        Some((*self.memory.nodes.get(id)?.blocks.last()?, when))
    }
}

#[test]
fn the_end_of_a_prompt_is_written_down_once_and_of_no_block_before_its_last() {
    let mut kept = Kept::new(Way::Time);
    let first = kept.taken(&[1, 2, 3], 10);
    assert_eq!(kept.block(first), Some((3, 10)));
    // It is known already, and says when it is asked that it is later now.
    assert_eq!(kept.taken(&[1, 2, 3], 20), None);
    let (gone, first) = kept.end(first.unwrap().0, 10);
    assert_eq!((gone, kept.block(first)), (0, Some((3, 20))));
    // One that ends within another, and one that goes on where the first ended.
    assert_eq!(kept.taken(&[1, 2], 15), None);
    let longer = kept.taken(&[1, 2, 3, 4], 12);
    assert_eq!(kept.block(longer), Some((4, 12)));
    // What ended first is gone with it; the block before it is written down already.
    assert_eq!(kept.end(longer.unwrap().0, 12), (1, None));
    assert_eq!(kept.end(first.unwrap().0, 20), (3, None));
    assert_eq!(kept.memory.len(), 0);
    // Its number is another's now.
    let others: Vec<_> = [7, 8, 9].map(|block| kept.taken(&[block], 30)).into();
    assert_eq!(kept.end(first.unwrap().0, 99), (0, None));
    for other in others {
        assert_eq!(kept.end(other.unwrap().0, 30), (1, None));
    }
}

#[test]
fn a_block_that_is_last_when_those_behind_it_have_gone_is_written_down_then() {
    let mut kept = Kept::new(Way::Time);
    let first = kept.taken(&[1, 2, 3], 10);
    assert_eq!(kept.taken(&[1, 2], 30), None);
    let (gone, second) = kept.end(first.unwrap().0, 10);
    assert_eq!((gone, kept.block(second)), (1, Some((2, 30))));
    // Somebody else's end of it is the same one.
    assert_eq!(kept.taken(&[1, 2], 40), None);
    let (gone, second) = kept.end(second.unwrap().0, 30);
    assert_eq!((gone, kept.block(second)), (0, Some((2, 40))));
    assert_eq!(kept.end(second.unwrap().0, 40), (2, None));
    assert_eq!(kept.memory.len(), 0);
}

#[test]
fn a_prompt_is_found_as_far_as_it_is_held_wherever_that_ends() {
    let chain: Vec<u64> = (1..=3 * LONGEST as u64 + 9).collect();
    for held in (0..=chain.len()).filter(|held| held % 7 == 0 || held % LONGEST < 2) {
        let kept = || {
            let mut kept = Kept::new(Way::Capacity);
            let end = kept.take_in(&chain[..held]);
            assert_eq!(end.blocks, held);
            kept
        };
        for from in [0, 1, held / 2, held.saturating_sub(1), held] {
            let mut kept = kept();
            let from = kept.memory.follow(&chain[..from.min(held)], Known::default());
            assert_eq!(kept.memory.follow(&chain, from).blocks, held);
            kept.memory.nodes.iter().for_each(|(_, node)| assert!(node.len() > 0));
        }
        // One that leaves it in the middle.
        let leaves = held / 2;
        let other: Vec<u64> = (1..=leaves as u64).chain(9_000..9_300).collect();
        let mut kept = kept();
        assert_eq!(kept.memory.follow(&other, Known::default()).blocks, leaves);
        assert_eq!(kept.take_in(&other).blocks, other.len());
        assert_eq!(kept.memory.follow(&chain, Known::default()).blocks, held);
        kept.memory.check();
    }
}

#[test]
fn what_a_conversation_goes_on_from_is_found_by_its_last_blocks() {
    let chain: Vec<u64> = (1..=20_000).collect();
    let mut kept = Kept::new(Way::Time);
    for turn in (20..=chain.len()).step_by(20) {
        kept.taken(&chain[..turn], 10);
    }
    assert_eq!(kept.memory.nodes.iter().count(), 1_250, "one for each end and each full length");
    for known in [20, 1_000, 10_010, 20_000] {
        let begin = kept.memory.furthest(&chain[..known]);
        assert!(begin.known > 0 && begin.known + LONGEST >= known, "{begin:?} of {known}");
    }
}

#[test]
fn what_a_prompt_costs_is_its_hashes_and_some_nodes() {
    let chain: Vec<u64> = (1..=3_437).collect();
    let mut kept = Kept::new(Way::Time);
    kept.taken(&chain, 10);
    assert_eq!(kept.memory.nodes.iter().count(), chain.len().div_ceil(LONGEST));
    let bytes = kept.memory.bytes();
    assert!(bytes < 12 * chain.len(), "{bytes}");
}

#[test]
fn hashes_that_are_no_prompts_leave_every_block_with_whoever_lets_it_go() {
    for way in [Way::Time, Way::Capacity] {
        let mut kept = Kept::new(way);
        kept.taken(&[1, 2, 3, 4], 10);
        kept.taken(&[1, 5, 6, 7], 11);
        // Its last is held, its others by another prompt; then one that is held elsewhere follows.
        kept.taken(&[1, 5, 3, 7], 12);
        kept.taken(&[1, 2, 8, 7, 9], 13);
        kept.taken(&[4, 2, 6], 14);
        kept.memory.check();
    }
}

#[test]
fn what_is_no_prompt_hides_nothing_of_one_when_it_goes() {
    let mut kept = Kept::new(Way::Time);
    kept.taken(&[1, 2, 3], 10);
    kept.taken(&[1, 2], 10);
    kept.taken(&[9], 12);
    let odd = kept.taken(&[9, 3], 11);
    assert_eq!(kept.end(odd.unwrap().0, 11), (1, None));
    assert_eq!(kept.memory.follow(&[1, 2, 3], Known::default()).blocks, 3);
}
