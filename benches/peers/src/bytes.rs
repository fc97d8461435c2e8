//! What is allocated while something is done: the system's allocator, counting.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Nothing is counted else, so that whoever allocates much isn't slowed down by it.
static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What this thread has taken, so that what others do meanwhile isn't counted.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting.
pub struct Counting;

fn note(allocations: u64, bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        TAKEN.fetch_add(allocations, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        // It is gone while its thread ends; nobody asks for it then.
        let _ = OWN.try_with(|own| own.set(own.get() + allocations));
    }
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What was allocated.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// How often, in all threads.
    pub allocations: u64,
    /// Bytes that weren't given back.
    pub bytes: i64,
}

/// Does something, and counts. Not to be nested.
pub fn counted<T>(what: impl FnOnce() -> T) -> (T, Taken) {
    let before = (TAKEN.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    COUNTING.store(true, Ordering::Relaxed);
    let done = what();
    COUNTING.store(false, Ordering::Relaxed);
    let allocations = TAKEN.load(Ordering::Relaxed) - before.0;
    (done, Taken { allocations, bytes: BYTES.load(Ordering::Relaxed) - before.1 })
}

/// Allocations of this thread for each of so many.
pub fn allocations_of(times: usize, mut what: impl FnMut()) -> f64 {
    let before = OWN.with(Cell::get);
    counted(|| (0..times).for_each(|_| what()));
    (OWN.with(Cell::get) - before) as f64 / times as f64
}

/// Allocations so far, of those that are counted.
pub fn allocations() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}
