//! Makes instances anew, off the path of any decision.
//!
//! Owns one thread and a bounded queue. It knows its jobs only as something that can be run at a
//! time and may ask to be run again later.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use pointsman_core::clock::Stopwatch;

/// Jobs that can wait to be seen by the thread. One instance has one job at most.
const MOST_WAITING: usize = 1024;

/// What can be made anew.
pub(crate) trait Remake: Send + Sync {
    /// Makes it. Answers in how long to try again, if that failed.
    fn remake(&self) -> Option<Duration>;
}

struct Job {
    what: Weak<dyn Remake>,
    delay: Duration,
}

/// A job with the time at which it is due, on the thread's own clock.
struct Due {
    at: Duration,
    what: Weak<dyn Remake>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// The thread's door. The thread ends when the door is dropped.
pub(crate) struct Maker {
    jobs: SyncSender<Job>,
}

impl Maker {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, waiting) = sync_channel(MOST_WAITING);
        let run = move || run(&waiting);
        thread::Builder::new().name("pointsman-maker".to_owned()).spawn(run)?;
        Ok(Self { jobs })
    }

    /// Asks for `what` to be made anew after `delay`. False when the queue is full: ask again.
    pub(crate) fn ask(&self, what: Weak<dyn Remake>, delay: Duration) -> bool {
        self.jobs.try_send(Job { what, delay }).is_ok()
    }
}

fn run(waiting: &Receiver<Job>) {
    let clock = Stopwatch::start();
    let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
    loop {
        let next = due.peek().map(|Reverse(next)| next.at.saturating_sub(clock.elapsed()));
        let job = match next {
            // What is due now isn't kept waiting by those who still come.
            Some(Duration::ZERO) => None,
            Some(wait) => match waiting.recv_timeout(wait) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            },
            None => match waiting.recv() {
                Ok(job) => Some(job),
                Err(_) => return,
            },
        };
        if let Some(Job { what, delay }) = job {
            due.push(Reverse(Due { at: clock.elapsed() + delay, what }));
        }
        while due.peek().is_some_and(|Reverse(next)| next.at <= clock.elapsed()) {
            let Some(Reverse(Due { what, .. })) = due.pop() else { break };
            if let Some(delay) = what.upgrade().and_then(|what| what.remake()) {
                due.push(Reverse(Due { at: clock.elapsed() + delay, what }));
            }
        }
    }
}
