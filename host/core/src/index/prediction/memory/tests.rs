//! Whose end is written down: that of each prompt's last block, once.

use super::*;

fn taken(memory: &mut Memory, chain: &[u64], mark: u64) -> Option<(u64, u64)> {
    let known = memory.known(chain, 0);
    memory.open(chain, 0, known);
    let end = memory.extend(chain, known, usize::MAX);
    memory.open(chain, known, end);
    let mut gone = Vec::new();
    let written = memory.taken(chain[end - 1], mark, (0, 9), &mut gone);
    assert_eq!(gone, [] as [u64; 0]);
    memory.check();
    written
}

#[test]
fn the_end_of_a_prompt_is_written_down_once_and_of_no_block_before_its_last() {
    let mut memory = Memory::new(1, Way::Time);
    assert_eq!(taken(&mut memory, &[1, 2, 3], 10), Some((3, 10)));
    // It is known already, and says when it is asked that it is later now.
    assert_eq!(taken(&mut memory, &[1, 2, 3], 20), None);
    let mut gone = Vec::new();
    assert_eq!(memory.end(3, 10, 9, &mut gone), Some((3, 20)));
    // One that ends within another, and one that goes on where the first ended.
    assert_eq!(taken(&mut memory, &[1, 2], 15), None);
    assert_eq!(taken(&mut memory, &[1, 2, 3, 4], 12), Some((4, 12)));
    // What ended first is gone with it; the block before it is written down already.
    assert_eq!(memory.end(4, 12, 9, &mut gone), None);
    assert_eq!(gone, [4]);
    assert_eq!(memory.end(3, 20, 9, &mut gone), None);
    assert_eq!((gone, memory.len()), (vec![4, 3, 2, 1], 0));
}

#[test]
fn a_block_that_is_last_when_those_behind_it_have_gone_is_written_down_then() {
    let mut memory = Memory::new(1, Way::Time);
    assert_eq!(taken(&mut memory, &[1, 2, 3], 10), Some((3, 10)));
    assert_eq!(taken(&mut memory, &[1, 2], 30), None);
    let mut gone = Vec::new();
    assert_eq!(memory.end(3, 10, 9, &mut gone), Some((2, 30)));
    // Somebody else's end of it is the same one.
    assert_eq!(taken(&mut memory, &[1, 2], 40), None);
    assert_eq!(memory.end(2, 30, 9, &mut gone), Some((2, 40)));
    assert_eq!(memory.end(2, 40, 9, &mut gone), None);
    assert_eq!((gone, memory.len()), (vec![3, 2, 1], 0));
}

#[test]
fn a_prompt_is_found_as_far_as_it_is_held_wherever_that_ends() {
    let chain: Vec<u64> = (1..=9).collect();
    for held in 0..=chain.len() {
        let mut memory = Memory::new(1, Way::Time);
        memory.extend(&chain[..held], 0, usize::MAX);
        for from in 0..=held {
            assert_eq!(memory.known(&chain, from), held);
        }
        // One that leaves it after its fifth block.
        let other: Vec<u64> = (1..=5).chain(50..53).collect();
        assert_eq!(memory.known(&other, 0), held.min(5));
    }
}

#[test]
fn hashes_that_are_no_prompts_leave_every_block_with_whoever_lets_it_go() {
    for way in [Way::Time, Way::Capacity] {
        let mut memory = Memory::new(1, way);
        taken(&mut memory, &[1, 2, 3, 4], 10);
        taken(&mut memory, &[1, 5, 6, 7], 11);
        // Its last is held, its others by another prompt; then one that is held elsewhere follows.
        taken(&mut memory, &[1, 5, 3, 7], 12);
        taken(&mut memory, &[1, 2, 8, 7, 9], 13);
        taken(&mut memory, &[4, 2, 6], 14);
        memory.check();
    }
}
