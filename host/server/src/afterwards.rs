//! What is done about a decision once it is made, on time of its own: it is recorded, and shown to
//! those who only watch.
//!
//! Owns the thread for that, and how many decisions may wait for it. What doesn't fit isn't waited
//! for: it is dropped, and counted where it is missed. It doesn't know how decisions compare, or
//! where they are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use pointsman_core::recording::Sample;

use crate::recorder::Recorder;
use crate::telemetry::Record;

/// Decisions that may wait: a few megabytes in a large fleet.
const MOST_WAITING: usize = 128;

/// A decision, with what it was made from.
#[derive(Debug)]
struct Made {
    sample: Sample,
    record: Arc<Record>,
    /// Whether it is to be kept.
    keep: bool,
}

/// The thread, and the way to it.
#[derive(Debug)]
pub struct Afterwards {
    queue: Mutex<Option<SyncSender<Made>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    recorder: Arc<Recorder>,
}

impl Afterwards {
    /// Begins.
    pub fn start(recorder: Arc<Recorder>) -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let its = recorder.clone();
        let thread = std::thread::Builder::new()
            .name("afterwards".to_owned())
            .spawn(move || work_through(&waiting, &its))?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), recorder })
    }

    /// Leaves a decision to be shown around, and to be kept if it is one of those. Never waits.
    pub fn take(&self, sample: Sample, record: Arc<Record>, keep: bool) {
        let made = Made { sample, record, keep };
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
        let Some(thread) = self.thread.lock().take() else { return };
        let ended = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::error!("the thread that keeps decisions and shows them around has panicked");
        }
    }
}

fn work_through(waiting: &Receiver<Made>, recorder: &Recorder) {
    while let Ok(Made { sample, record, keep }) = waiting.recv() {
        if keep {
            recorder.keep(&sample, &record);
        }
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
