//! Whose end is written down: that of each prompt's last block, once.

use super::*;

fn taken(memory: &mut Memory, chain: &[u64], mark: u64) -> Vec<(u64, u64)> {
    let known = memory.known(chain, 0);
    memory.extend(chain, known, usize::MAX);
    memory.open(chain);
    let mut written = Vec::new();
    assert_eq!(memory.close(chain, Close::Taken(mark), 0, &mut written), [] as [u64; 0]);
    memory.check();
    written
}

#[test]
fn the_end_of_a_prompt_is_written_down_once_and_of_no_block_before_its_last() {
    let mut memory = Memory::new(1, Way::Time);
    assert_eq!(taken(&mut memory, &[1, 2, 3], 10), [(3, 10)]);
    // It is known already, and says when it is asked that it is later now.
    assert_eq!(taken(&mut memory, &[1, 2, 3], 20), []);
    let mut gone = Vec::new();
    assert_eq!(memory.end(3, 10, 9, &mut gone), Some((3, 20)));
    // One that ends within another, and one that goes on where the first ended.
    assert_eq!(taken(&mut memory, &[1, 2], 15), []);
    assert_eq!(taken(&mut memory, &[1, 2, 3, 4], 12), [(4, 12)]);
    // What ended first is gone with it; the block before it is written down already.
    assert_eq!(memory.end(4, 12, 9, &mut gone), None);
    assert_eq!(gone, [4]);
    assert_eq!(memory.end(3, 20, 9, &mut gone), None);
    assert_eq!((gone, memory.len()), (vec![4, 3, 2, 1], 0));
}

#[test]
fn a_block_that_is_last_when_those_behind_it_have_gone_is_written_down_then() {
    let mut memory = Memory::new(1, Way::Time);
    assert_eq!(taken(&mut memory, &[1, 2, 3], 10), [(3, 10)]);
    assert_eq!(taken(&mut memory, &[1, 2], 30), []);
    let mut gone = Vec::new();
    assert_eq!(memory.end(3, 10, 9, &mut gone), Some((2, 30)));
    // Somebody else's end of it is the same one.
    assert_eq!(taken(&mut memory, &[1, 2], 40), []);
    assert_eq!(memory.end(2, 40, 9, &mut gone), None);
    assert_eq!((gone, memory.len()), (vec![3, 2, 1], 0));
}
