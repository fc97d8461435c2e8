//! The lock of an index, whose holders are done sooner than a thread falls asleep and wakes.
//!
//! Owns how look-ups and changes wait for each other. A look-up takes a microsecond or a few, and so
//! does a step of a change; whoever sleeps meanwhile is woken tens of microseconds later, and a
//! change that sleeps holds up all look-ups until it wakes. So both try again and again at first, and
//! sleep only if that leads to nothing. And most of the time of a long change is memory that is
//! waited for: while there are look-ups, it is read before the lock is taken. It doesn't know what
//! it guards.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How often it is tried to get in before a thread sleeps: some tens of microseconds.
const MOST_TRIES: usize = 1_000;

/// Changes that look ahead after a look-up: if no other comes meanwhile, nobody is held up.
const AHEAD: u32 = 256;

/// The lock.
#[derive(Debug)]
pub(super) struct BriefLock<T> {
    lock: RwLock<T>,
    /// How many changes are still to look ahead.
    ahead: AtomicU32,
}

impl<T> BriefLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self { lock: RwLock::new(value), ahead: AtomicU32::new(0) }
    }

    /// Lets a look-up in.
    pub(super) fn look_up(&self) -> RwLockReadGuard<'_, T> {
        // Written now and then only: it is others' memory too.
        if self.ahead.load(Ordering::Relaxed) < AHEAD / 2 {
            self.ahead.store(AHEAD, Ordering::Relaxed);
        }
        self.read()
    }

    /// Lets in whoever reads, and isn't in a hurry.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        awake(|| self.lock.try_read()).unwrap_or_else(|| self.lock.read())
    }

    /// Lets a change in. Look-ups go first, for as long as it waits awake.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        awake(|| self.lock.try_write()).unwrap_or_else(|| self.lock.write())
    }

    /// The same. If there were look-ups lately, `look` reads beside them what will be changed.
    pub(super) fn write_ahead(&self, look: impl FnOnce(&T)) -> RwLockWriteGuard<'_, T> {
        let left = self.ahead.load(Ordering::Relaxed);
        if left > 0 {
            self.ahead.store(left - 1, Ordering::Relaxed);
            if let Some(value) = self.lock.try_read() {
                look(&value);
            }
        }
        self.write()
    }
}

fn awake<G>(get: impl Fn() -> Option<G>) -> Option<G> {
    for _ in 0..MOST_TRIES {
        if let Some(guard) = get() {
            return Some(guard);
        }
        spin_loop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(lock: &BriefLock<u32>) -> bool {
        let mut looked = false;
        drop(lock.write_ahead(|_| looked = true));
        looked
    }

    #[test]
    fn changes_look_ahead_while_there_are_look_ups() {
        let lock = BriefLock::new(1);
        assert_eq!(*lock.read(), 1);
        assert!(!looks(&lock));
        for _ in 0..2 {
            assert_eq!(*lock.look_up(), 1);
            assert_eq!((0..2 * AHEAD).filter(|_| looks(&lock)).count(), AHEAD as usize);
        }
    }

    #[test]
    fn whoever_waits_longer_than_awake_gets_in_all_the_same() {
        let lock = BriefLock::new(0);
        std::thread::scope(|scope| {
            let mut held = lock.write();
            let waiting = scope.spawn(|| *lock.read());
            // Far longer than it is waited awake.
            for _ in 0..100 * MOST_TRIES {
                spin_loop();
            }
            *held = 7;
            drop(held);
            assert_eq!(waiting.join().expect("it got in"), 7);
        });
    }
}
