//! What is done about a decision once it is made, on time of its own: it is recorded, and shown to
//! those who only watch.
//!
//! Owns the threads for that, and how many decisions may wait for each: records are written first,
//! so that none waits for a policy that takes long. The logs of request classifiers have a thread of
//! their own, since a log that lacks an entry is worth nothing. What doesn't fit isn't waited for: it is dropped,
//! and counted where it is missed. Nor is a thread woken for each decision while many come, which
//! would take as long as to make it. It doesn't know how decisions compare, or where they are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::classifier::{ClassifierLog, LogEntry};
use pointsman_core::recording::Sample;

use crate::recorder::Recorder;
use crate::telemetry::Record;

/// Decisions that may wait: a few megabytes in a large fleet.
const MOST_WAITING: usize = 128;

/// Entries of classifiers' logs that may wait: those of a few thousand requests.
const MOST_ENTRIES: usize = 16_384;

/// A thread that has nothing to do looks again after so long, and then again, before it waits to be
/// woken: whoever wakes it is on the way to a worker.
const PAUSE: Duration = Duration::from_micros(500);
const LOOKS: usize = 4;

/// A decision, with what it was made from.
#[derive(Debug)]
struct Made {
    sample: Sample,
    record: Arc<Record>,
    /// Whether it is to be kept.
    keep: bool,
}

/// The threads, and the way to them.
#[derive(Debug)]
pub struct Afterwards {
    queue: Mutex<Option<SyncSender<Made>>>,
    /// None where no logs are kept.
    entries: Mutex<Option<SyncSender<Box<LogEntry>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    recorder: Arc<Recorder>,
}

impl Afterwards {
    /// Begins.
    pub fn start(recorder: Arc<Recorder>) -> std::io::Result<Self> {
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        let (queue, made) = sync_channel(MOST_WAITING);
        let (show, recorded) = sync_channel(MOST_WAITING);
        let its = recorder.clone();
        let records = thread("records").spawn(move || record(&made, &its, &show))?;
        let shadows = thread("shadows").spawn(move || show_around(&recorded))?;
        let mut threads = vec![records, shadows];
        let mut entries = None;
        if recorder.keeps_logs() {
            let (send, noted) = sync_channel::<Box<LogEntry>>(MOST_ENTRIES);
            entries = Some(send);
            let its = recorder.clone();
            let write = move || noted.iter().for_each(|entry| its.keep_entry(&entry));
            threads.push(thread("logs").spawn(write)?);
        }
        let (queue, entries) = (Mutex::new(Some(queue)), Mutex::new(entries));
        Ok(Self { queue, entries, threads: Mutex::new(threads), recorder })
    }

    /// Where the logs of request classifiers go; none where none are kept.
    #[must_use]
    pub fn log(self: &Arc<Self>) -> Option<Arc<dyn ClassifierLog>> {
        self.recorder.keeps_logs().then(|| self.clone() as Arc<dyn ClassifierLog>)
    }

    /// Leaves a decision to be shown around, and to be kept if it is one of those. Never waits.
    pub fn take(&self, sample: Sample, record: Arc<Record>, keep: bool) {
        let made = Made { sample: sample.for_another_thread(), record, keep };
        let sent = self.queue.lock().as_ref().map(|queue| queue.try_send(made));
        let Some(Err(TrySendError::Full(missed) | TrySendError::Disconnected(missed))) = sent
        else {
            return;
        };
        missed.sample.shadows().for_each(|shadow| shadow.drop_one());
        if missed.keep {
            self.recorder.drop_one();
        }
    }

    /// Ends, when what waits is done. Nothing more is taken.
    pub async fn stop(&self) {
        self.queue.lock().take();
        self.entries.lock().take();
        let threads = std::mem::take(&mut *self.threads.lock());
        let join = || threads.into_iter().filter_map(|thread| thread.join().err()).count();
        let ended = tokio::task::spawn_blocking(join).await;
        if !matches!(ended, Ok(0)) {
            tracing::error!("a thread that keeps decisions or shows them around has panicked");
        }
    }
}

impl ClassifierLog for Afterwards {
    fn note(&self, entry: LogEntry) {
        let sent = self.entries.lock().as_ref().map(|entries| entries.try_send(Box::new(entry)));
        if !matches!(sent, Some(Ok(()))) {
            self.recorder.drop_entry();
        }
    }
}

/// The next decision; none when there is none and no more will come.
fn next(made: &Receiver<Made>) -> Option<Made> {
    for _ in 0..LOOKS {
        match made.try_recv() {
            Ok(made) => return Some(made),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => thread::sleep(PAUSE),
        }
    }
    made.recv().ok()
}

/// Keeps those that are to be kept, and leaves all to who shows them around.
fn record(made: &Receiver<Made>, recorder: &Recorder, show: &SyncSender<Made>) {
    while let Some(made) = next(made) {
        if made.keep {
            recorder.keep(&made.sample, &made.record);
        }
        if made.sample.shadows().next().is_some()
            && let Err(TrySendError::Full(missed) | TrySendError::Disconnected(missed)) =
                show.try_send(made)
        {
            missed.sample.shadows().for_each(|shadow| shadow.drop_one());
        }
    }
}

/// Shows decisions to those who only watch.
fn show_around(recorded: &Receiver<Made>) {
    while let Some(Made { sample, record, .. }) = next(recorded) {
        for shadow in sample.shadows() {
            // A bug of ours in one of them is not to end it for all.
            let seen = catch_unwind(AssertUnwindSafe(|| shadow.watch(&sample, record.receipt())));
            if seen.is_err() {
                shadow.drop_one();
                tracing::error!(shadow = &**shadow.instance(), "showing a decision has panicked");
            }
        }
    }
}
