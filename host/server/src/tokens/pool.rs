//! Where long prompts are tokenised, so that no async thread waits for it.
//!
//! Owns how many are at it at the same time, how many may wait, for how long, and how many bytes
//! may be in work together. One pool serves all models. A short prompt never waits for long ones
//! alone: one thread more is kept for the short ones.
//!
//! Who has waited for too long, or is gone, leaves a [`Stop`] behind: the work looks at it between
//! its steps, and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Prompts of at most so many bytes have a thread of their own besides the others: such a prompt
/// takes about 0.1 s.
const SHORT_BYTES: usize = 256 << 10;

/// Bodies in work at the same time, short ones aside: so many KiB.
const ROOM_KIB: usize = 64 << 10;

/// Why something wasn't done.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PoolError {
    /// Too many wait.
    #[error("{0} prompts wait to be tokenised; raise tokenizer_threads or tokenizer_queue")]
    Busy(usize),
    /// It took too long, most often since others came first.
    #[error(
        "making the prompt into tokens took longer than {0:?}; raise tokenizer_threads or tokenizer_timeout"
    )]
    Late(Duration),
    /// It was given up half-way: it panicked, or the process ends.
    #[error("it was given up half-way; see the log")]
    Lost,
}

/// The pool.
#[derive(Debug)]
pub struct TokenPool {
    threads: Arc<Semaphore>,
    /// For short prompts alone.
    kept: Arc<Semaphore>,
    room: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
    patience: Duration,
}

/// Says that nobody waits for the work any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it may end.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says it.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Says it when whoever waits is gone.
struct Waits(Stop);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl TokenPool {
    /// A pool of so many threads, and one for short prompts; with so many prompts that may wait for
    /// one, and the longest that anybody waits for an answer.
    #[must_use]
    pub fn new(threads: usize, most_waiting: usize, patience: Duration) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            kept: Arc::new(Semaphore::new(1)),
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            waiting: AtomicUsize::new(0),
            most_waiting,
            patience,
        }
    }

    /// How many wait, for metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Does something with a prompt of so many bytes on a thread of the pool.
    ///
    /// Who stops waiting gives its place up. What a thread has begun it ends, or breaks off when it
    /// looks at its [`Stop`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let waits = Waits(Stop::default());
        let stop = waits.0.clone();
        let done = async {
            let held = self.thread(bytes).await?;
            let done = spawn_blocking(move || {
                let _held = held;
                work(&stop)
            });
            done.await.map_err(|_| PoolError::Lost)
        };
        timeout(self.patience, done).await.unwrap_or(Err(PoolError::Late(self.patience)))
    }

    /// A thread for a prompt, and the room that it takes.
    async fn thread(&self, bytes: usize) -> Result<Held, PoolError> {
        let is_short = bytes <= SHORT_BYTES;
        let kib = if is_short { 0 } else { bytes.div_ceil(1 << 10).min(ROOM_KIB) };
        let kib = u32::try_from(kib).unwrap_or(0);
        let free = |of: &Arc<Semaphore>, number| Arc::clone(of).try_acquire_many_owned(number).ok();
        let room = free(&self.room, kib);
        let thread = room.as_ref().and_then(|_| free(&self.threads, 1));
        let kept = || if is_short { free(&self.kept, 1) } else { None };
        if let (Some(room), Some(thread)) = (room, thread.or_else(kept)) {
            return Ok(Held { _room: room, _thread: thread });
        }
        let _place = Place::take(self)?;
        let lost = |_| PoolError::Lost;
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(lost)?;
        let any = Arc::clone(&self.threads).acquire_owned();
        let thread = if is_short {
            let kept = Arc::clone(&self.kept).acquire_owned();
            tokio::select! {
                thread = any => thread,
                thread = kept => thread,
            }
        } else {
            any.await
        };
        Ok(Held { _room: room, _thread: thread.map_err(lost)? })
    }
}

/// What a prompt in work holds.
struct Held {
    _room: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

/// A place among those who wait.
struct Place<'p>(&'p AtomicUsize);

impl<'p> Place<'p> {
    fn take(pool: &'p TokenPool) -> Result<Self, PoolError> {
        let before = pool.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(&pool.waiting);
        if before >= pool.most_waiting { Err(PoolError::Busy(before)) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Longer than what is short.
    const LONG: usize = SHORT_BYTES + 1;
    const MINUTE: Duration = Duration::from_secs(60);

    /// Lets a future run until it waits.
    macro_rules! begin {
        ($future:expr) => {
            tokio::select! {
                biased;
                _ = &mut $future => panic!("it doesn't wait"),
                () = std::future::ready(()) => {}
            }
        };
    }

    #[tokio::test]
    async fn one_more_than_may_wait_is_turned_away_and_places_come_back() {
        let pool = Arc::new(TokenPool::new(1, 1, MINUTE));
        let (open, gate) = mpsc::channel::<()>();
        let mut first = Box::pin(pool.run(LONG, move |_| gate.recv().is_ok()));
        let mut second = Box::pin(pool.run(LONG, |_| true));
        begin!(first);
        begin!(second);
        assert_eq!(pool.waiting(), 1);
        assert_eq!(pool.run(LONG, |_| true).await, Err(PoolError::Busy(1)));
        drop(second);
        assert_eq!(pool.waiting(), 0);
        open.send(()).expect("the thread listens");
        assert_eq!(first.await, Ok(true));
        assert_eq!(pool.run(LONG, |_| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_short_prompt_passes_long_ones() {
        let pool = TokenPool::new(1, 8, MINUTE);
        let (open, gate) = mpsc::channel::<()>();
        let mut first = Box::pin(pool.run(LONG, move |_| gate.recv().is_ok()));
        let mut second = Box::pin(pool.run(LONG, |_| true));
        begin!(first);
        begin!(second);
        for _ in 0..3 {
            assert_eq!(pool.run(SHORT_BYTES, |_| 7).await, Ok(7));
        }
        open.send(()).expect("the thread listens");
        assert_eq!((first.await, second.await), (Ok(true), Ok(true)));
    }

    #[tokio::test]
    async fn nobody_waits_for_longer_than_allowed_and_the_work_is_told() {
        let pool = TokenPool::new(1, 8, Duration::from_millis(20));
        let (tell, told) = mpsc::channel();
        let work = move |stop: &Stop| {
            while !stop.is_set() {
                std::thread::yield_now();
            }
            tell.send(()).is_ok()
        };
        let late = Err(PoolError::Late(Duration::from_millis(20)));
        assert_eq!(pool.run(LONG, work).await, late);
        told.recv().expect("the work ended");
        // Its thread comes back a moment after it has told, and whoever waits for it waits no longer either.
        while pool.threads.available_permits() == 0 {
            std::thread::yield_now();
        }
        let (_open, gate) = mpsc::channel::<()>();
        let mut stuck = Box::pin(pool.run(LONG, move |_| gate.recv().is_ok()));
        begin!(stuck);
        assert_eq!(pool.run(LONG, |_| true).await, late);
        assert_eq!(pool.waiting(), 0);
    }

    #[tokio::test]
    async fn bodies_in_work_take_so_much_room_and_no_more() {
        let pool = TokenPool::new(8, 8, MINUTE);
        let (open, gate) = mpsc::channel::<()>();
        let mut large = Box::pin(pool.run(usize::MAX, move |_| gate.recv().is_ok()));
        begin!(large);
        let mut next = Box::pin(pool.run(LONG, |_| true));
        begin!(next);
        assert_eq!(pool.run(1, |_| 7).await, Ok(7));
        open.send(()).expect("the thread listens");
        assert_eq!((large.await, next.await), (Ok(true), Ok(true)));
    }

    #[tokio::test]
    async fn what_panics_is_lost_and_its_thread_comes_back() {
        let pool = TokenPool::new(1, 1, MINUTE);
        let lost = pool.run(LONG, |_| assert_eq!(1, 2, "on purpose")).await;
        assert_eq!(lost, Err(PoolError::Lost));
        assert_eq!(pool.run(LONG, |_| 7).await, Ok(7));
    }
}
