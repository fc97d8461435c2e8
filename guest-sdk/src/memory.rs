//! A component's heap: blocks by size, kept for the next of their size.
//!
//! Every decision takes the same few blocks and gives them back: what the router sends, what is
//! answered. A list of free blocks for each power of two makes both a matter of a few instructions.
//! Larger blocks, and the memory that the lists take theirs from, are the standard allocator's.
//! What is kept for one size is never used for another: at most what a policy had of that size at
//! once.
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

#[global_allocator]
static HEAP: Heap = Heap { free: UnsafeCell::new([ptr::null_mut(); SIZES]) };

// SAFETY: a component has one thread.
unsafe impl Sync for Heap {}

impl Heap {
    /// Which size serves a layout, if one does.
    #[inline(always)]
    fn size(layout: Layout) -> Option<usize> {
        let (size, align) = (layout.size(), layout.align());
        if size > LARGEST || align > LEAST {
            return None;
        }
        Some((usize::BITS - (size.max(LEAST) - 1).leading_zeros() - LEAST.ilog2()) as usize)
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
        let Some(size) = Self::size(layout) else { return unsafe { System.alloc(layout) } };
        let first = unsafe { &mut (*self.free.get())[size] };
        if first.is_null() {
            return unsafe { System.alloc(Self::block(size)) };
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
            (None, None) => unsafe { System.realloc(block, layout, wanted) },
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
