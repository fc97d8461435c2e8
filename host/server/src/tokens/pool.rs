//! Where long prompts are tokenised, so that no async thread waits for it.
//!
//! Owns how many are at it at the same time and how many may wait. One pool serves all models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Why something wasn't done.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PoolError {
    /// Too many wait.
    #[error("{0} prompts wait to be tokenised; raise the pool's threads")]
    Busy(usize),
    /// It was given up half-way: it panicked, or the process ends.
    #[error("it was given up half-way; see the log")]
    Lost,
}

/// The pool.
#[derive(Debug)]
pub struct TokenPool {
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

impl TokenPool {
    /// A pool of so many threads, with so many prompts that may wait for one.
    #[must_use]
    pub fn new(threads: usize, most_waiting: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            waiting: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// How many wait, for metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Does something on a thread of the pool.
    ///
    /// Who stops waiting gives its place up, but what a thread has begun it ends.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let threads = Arc::clone(&self.threads);
        let thread = match Arc::clone(&threads).try_acquire_owned() {
            Ok(thread) => thread,
            Err(_) => {
                let place = Place::take(self)?;
                let thread = threads.acquire_owned().await.map_err(|_| PoolError::Lost)?;
                drop(place);
                thread
            }
        };
        let done = spawn_blocking(move || {
            let _thread = thread;
            work()
        });
        done.await.map_err(|_| PoolError::Lost)
    }
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

    #[tokio::test]
    async fn one_more_than_may_wait_is_turned_away_and_places_come_back() {
        let pool = Arc::new(TokenPool::new(1, 1));
        let (open, gate) = mpsc::channel::<()>();
        let mut first = Box::pin(pool.run(move || gate.recv().is_ok()));
        let mut second = Box::pin(pool.run(|| true));
        tokio::select! {
            biased;
            _ = &mut first => panic!("the gate is shut"),
            () = std::future::ready(()) => {}
        }
        tokio::select! {
            biased;
            _ = &mut second => panic!("the thread is taken"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(pool.waiting(), 1);
        assert_eq!(pool.run(|| true).await, Err(PoolError::Busy(1)));
        drop(second);
        assert_eq!(pool.waiting(), 0);
        open.send(()).expect("the thread listens");
        assert_eq!(first.await, Ok(true));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn what_panics_is_lost_and_its_thread_comes_back() {
        let pool = TokenPool::new(1, 1);
        let lost = pool.run(|| assert_eq!(1, 2, "on purpose")).await;
        assert_eq!(lost, Err(PoolError::Lost));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }
}
