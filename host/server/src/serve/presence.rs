//! One connection as others see it: whether it has a request in flight, since when it hasn't, and
//! whether its place is wanted.
//!
//! Written by the connection, read by the crowd that it is part of. It doesn't know bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Presence {
    began: Instant,
    /// Requests whose answer has not ended.
    requests: AtomicUsize,
    /// A write waits until the client reads.
    stalled: AtomicBool,
    /// It has had a request.
    served: AtomicBool,
    /// Milliseconds from `began` until its last request ended.
    idle_since: AtomicU64,
    /// Its place is wanted.
    unwanted: AtomicBool,
    asked: Notify,
}

impl Presence {
    /// A connection that has just come.
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            served: AtomicBool::new(false),
            idle_since: AtomicU64::new(0),
            unwanted: AtomicBool::new(false),
            asked: Notify::new(),
        }
    }

    /// A request has come; it is in flight until what this returns is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Here {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.served.store(true, Ordering::SeqCst);
        Here(self.clone())
    }

    /// Whether a write waits until the client reads.
    pub(super) fn stalls(&self, stalled: bool) {
        // Mostly it is so already; then nobody's cache line moves.
        if self.stalled.load(Ordering::SeqCst) != stalled {
            self.stalled.store(stalled, Ordering::SeqCst);
        }
    }

    /// Whether a request is in flight, up to the last byte of its answer.
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 0 || self.stalled.load(Ordering::SeqCst)
    }

    /// Whether it has been asked to give its place, and hasn't yet.
    pub(super) fn is_leaving(&self) -> bool {
        self.unwanted.load(Ordering::SeqCst)
    }

    /// Whether it has had a request, and since when it has none; none while it has one. Who is less
    /// has less to lose.
    pub(super) fn idleness(&self) -> Option<(bool, Instant)> {
        let since = Duration::from_millis(self.idle_since.load(Ordering::SeqCst));
        let idle = (self.served.load(Ordering::SeqCst), self.began + since);
        (!self.is_busy()).then_some(idle)
    }

    /// Asks it to give its place. False if it has been asked already.
    pub(super) fn ask_to_leave(&self) -> bool {
        let news = !self.unwanted.swap(true, Ordering::SeqCst);
        if news {
            self.asked.notify_one();
        }
        news
    }

    /// It stays, since a request came meanwhile. True if it had been asked.
    pub(super) fn stays(&self) -> bool {
        self.unwanted.swap(false, Ordering::SeqCst)
    }

    /// Until its place is wanted.
    pub(super) async fn is_asked(&self) {
        self.asked.notified().await;
    }
}

/// A request in flight here.
#[derive(Debug)]
pub(super) struct Here(Arc<Presence>);

impl Drop for Here {
    fn drop(&mut self) {
        let Presence { began, requests, idle_since, .. } = &*self.0;
        let since = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        idle_since.store(since, Ordering::SeqCst);
        requests.fetch_sub(1, Ordering::SeqCst);
    }
}
