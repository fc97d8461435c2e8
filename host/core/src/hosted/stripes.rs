//! Which stripe of striped state a thread uses.
//!
//! State that every decision changes is kept once for each stripe, on cache lines of its own, so that
//! threads that decide at the same time don't pass lines to and fro. A thread keeps its stripe for
//! life. Beyond [`STRIPES`] threads some share one, which costs them time and nothing else.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many stripes there are. More would make sums over them dearer, fewer would make more threads
/// share one.
pub const STRIPES: usize = 8;

/// Stripes that were given out, over and over.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// This thread's stripe, below [`STRIPES`].
pub(crate) fn mine() -> usize {
    MINE.with(|mine| {
        mine.get().unwrap_or_else(|| {
            let given = GIVEN.fetch_add(1, Ordering::SeqCst) % STRIPES;
            mine.set(Some(given));
            given
        })
    })
}

/// How many of the stripes some thread has: the first ones.
pub(crate) fn in_use() -> usize {
    GIVEN.load(Ordering::SeqCst).min(STRIPES)
}

/// Has cache lines of its own: two, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_stripe_and_others_get_others() {
        let mine_now = mine();
        assert_eq!(mine(), mine_now);
        assert!(in_use() > 0);
        let others = std::thread::spawn(mine).join();
        assert!(others.is_ok_and(|other| other < STRIPES));
    }
}
