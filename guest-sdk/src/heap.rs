//! A component's heap: blocks by size, kept for the next of their size.
//!
//! Every decision takes the same few blocks and gives them back: what the router sends, what is
//! answered. A list of free blocks for each power of two makes both a matter of a few instructions.
//! Larger blocks, and the memory that the lists take theirs from, are the standard allocator's.
//! What is kept for one size is used for another only when there is no memory left: then all of it goes
//! back to the standard allocator first.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;

/// The least block, in bytes, and what all blocks are aligned to.
const LEAST: usize = 16;
/// The largest block that is kept.
const LARGEST: usize = 1 << 16;
/// Sizes from the least to the largest.
const SIZES: usize = (LARGEST / LEAST).ilog2() as usize + 1;

/// The allocator.
struct Heap {
    /// The first free block of each size, which begins with the address of the next.
    free: UnsafeCell<[*mut Free; SIZES]>,
}

/// A free block's beginning.
struct Free {
    next: *mut Free,
}

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static HEAP: Heap = Heap::new();

// SAFETY: a component has one thread.
#[cfg(target_arch = "wasm32")]
unsafe impl Sync for Heap {}

impl Heap {
    const fn new() -> Self {
        Self { free: UnsafeCell::new([ptr::null_mut(); SIZES]) }
    }

    /// Which size serves a layout, if one does.
    #[inline(always)]
    fn size(layout: Layout) -> Option<usize> {
        let (size, align) = (layout.size(), layout.align());
        if size > LARGEST || align > LEAST {
            return None;
        }
        Some((usize::BITS - (size.max(LEAST) - 1).leading_zeros() - LEAST.ilog2()) as usize)
    }

    /// Memory of the standard allocator's; what is kept here goes back to it if it has none.
    ///
    /// # Safety
    ///
    /// As for [`GlobalAlloc::alloc`].
    #[inline(never)]
    unsafe fn fresh(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() || !self.give_back() {
            return block;
        }
        unsafe { System.alloc(layout) }
    }

    /// Gives all free blocks back; false if there are none.
    #[cold]
    fn give_back(&self) -> bool {
        let mut any = false;
        for size in 0..SIZES {
            // SAFETY: what is in a list is a block of its size, and in no other place.
            unsafe {
                let first = &mut (*self.free.get())[size];
                while !first.is_null() {
                    let block = *first;
                    *first = (*block).next;
                    System.dealloc(block.cast(), Self::block(size));
                    any = true;
                }
            }
        }
        any
    }

    fn block(size: usize) -> Layout {
        // SAFETY: both are powers of two, and far from the largest number.
        unsafe { Layout::from_size_align_unchecked(LEAST << size, LEAST) }
    }
}

// SAFETY: a block is in one list or with one owner, is at least as large as what was asked for, and
// aligned to 16 bytes; what no size serves is the standard allocator's from beginning to end.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = Self::size(layout) else { return unsafe { self.fresh(layout) } };
        let first = unsafe { &mut (*self.free.get())[size] };
        if first.is_null() {
            return unsafe { self.fresh(Self::block(size)) };
        }
        let block = *first;
        *first = unsafe { (*block).next };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(size) = Self::size(layout) else {
            return unsafe { System.dealloc(block, layout) };
        };
        let block: *mut Free = block.cast();
        unsafe {
            let first = &mut (*self.free.get())[size];
            (*block).next = *first;
            *first = block;
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, wanted: usize) -> *mut u8 {
        // SAFETY: the caller promises that it is a layout.
        let new = unsafe { Layout::from_size_align_unchecked(wanted, layout.align()) };
        match (Self::size(layout), Self::size(new)) {
            (Some(before), Some(after)) if before == after => block,
            (None, None) => unsafe {
                let to = System.realloc(block, layout, wanted);
                if !to.is_null() || !self.give_back() {
                    return to;
                }
                System.realloc(block, layout, wanted)
            },
            _ => unsafe {
                let to = self.alloc(new);
                if !to.is_null() {
                    ptr::copy_nonoverlapping(block, to, layout.size().min(wanted));
                    self.dealloc(block, layout);
                }
                to
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;
    use crate::random::Random;

    /// A block that is in use, and what all of its bytes are.
    struct Block {
        at: *mut u8,
        layout: Layout,
        byte: u8,
    }

    impl Block {
        fn write(at: *mut u8, layout: Layout, byte: u8) -> Self {
            assert!(!at.is_null() && at.addr() % layout.align() == 0);
            unsafe { at.write_bytes(byte, layout.size()) };
            Self { at, layout, byte }
        }

        fn has(&self, bytes: usize) -> bool {
            (0..bytes).all(|place| unsafe { self.at.add(place).read() } == self.byte)
        }
    }

    #[test]
    fn no_block_is_anothers_and_what_is_in_it_stays() {
        let heap = Heap::new();
        let mut random = Random::new(1);
        let mut used: Vec<Block> = Vec::new();
        for round in 0..2_000_u32 {
            let size = match random.below(4) {
                0 => random.below(40),
                1 => random.below(600),
                2 => 1 << random.below(18),
                _ => random.below(3 * LARGEST),
            };
            let align = 1 << random.below(6);
            let layout = Layout::from_size_align(size.max(1), align).unwrap();
            let one = random.below(used.len().max(1));
            match random.below(3) {
                0 if !used.is_empty() => {
                    let block = used.swap_remove(one);
                    assert!(block.has(block.layout.size()));
                    unsafe { heap.dealloc(block.at, block.layout) };
                }
                1 if !used.is_empty() => {
                    let block = &mut used[one];
                    let wanted = layout.size();
                    block.at = unsafe { heap.realloc(block.at, block.layout, wanted) };
                    assert!(block.has(wanted.min(block.layout.size())));
                    let layout = Layout::from_size_align(wanted, block.layout.align()).unwrap();
                    *block = Block::write(block.at, layout, block.byte);
                }
                _ if used.len() < 60 => {
                    used.push(Block::write(unsafe { heap.alloc(layout) }, layout, round as u8));
                }
                _ => {}
            }
        }
        for block in used {
            assert!(block.has(block.layout.size()));
            unsafe { heap.dealloc(block.at, block.layout) };
        }
    }

    #[test]
    fn what_is_kept_goes_back_at_once() {
        let heap = Heap::new();
        let layouts = (1..300).map(|n| Layout::from_size_align(n * 311, 8).unwrap());
        let blocks: Vec<_> =
            layouts.map(|layout| (unsafe { heap.alloc(layout) }, layout)).collect();
        assert!(!heap.give_back(), "all are in use");
        for (block, layout) in blocks {
            unsafe { heap.dealloc(block, layout) };
        }
        assert!(heap.give_back());
        assert!(!heap.give_back());
        let layout = Layout::from_size_align(311, 8).unwrap();
        let block = Block::write(unsafe { heap.alloc(layout) }, layout, 7);
        assert!(block.has(311));
        unsafe { heap.dealloc(block.at, block.layout) };
    }

    #[test]
    fn what_was_given_back_is_what_is_taken_next() {
        let heap = Heap::new();
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let first = unsafe { heap.alloc(layout(500)) };
        unsafe { heap.dealloc(first, layout(500)) };
        assert_eq!(unsafe { heap.alloc(layout(512)) }, first);
        assert_eq!(unsafe { heap.realloc(first, layout(512), 300) }, first);
        unsafe { heap.dealloc(first, layout(300)) };
    }
}
