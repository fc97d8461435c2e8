//! What is done about a decision once it is made, on time of its own: it is shown to those who only
//! watch.
//!
//! Owns the thread for that, and how many decisions may wait for it. What doesn't fit isn't waited
//! for: it is dropped, and counted where it is missed. It doesn't know how decisions compare.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use pointsman_core::recording::Sample;

use crate::telemetry::Record;

/// Decisions that may wait: a few megabytes in a large fleet.
const MOST_WAITING: usize = 128;

/// A decision, with what it was made from.
type Made = (Box<Sample>, Arc<Record>);

/// The thread, and the way to it.
#[derive(Debug)]
pub struct Afterwards {
    queue: Mutex<Option<SyncSender<Made>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Afterwards {
    /// Begins.
    pub fn start() -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new()
            .name("afterwards".to_owned())
            .spawn(move || work_through(&waiting))?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// Leaves a decision to be shown around. Never waits.
    pub fn take(&self, sample: Box<Sample>, record: Arc<Record>) {
        let queue = self.queue.lock();
        let refused = match queue.as_ref().map(|queue| queue.try_send((sample, record))) {
            Some(Ok(())) | None => return,
            Some(Err(
                TrySendError::Full((sample, _)) | TrySendError::Disconnected((sample, _)),
            )) => sample,
        };
        drop(queue);
        refused.shadows.iter().for_each(|shadow| shadow.drop_one());
    }

    /// Ends, when what waits is done. Nothing more is taken.
    pub async fn stop(&self) {
        self.queue.lock().take();
        let Some(thread) = self.thread.lock().take() else { return };
        let ended = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::error!("the thread that shows decisions to shadows has panicked");
        }
    }
}

fn work_through(waiting: &Receiver<Made>) {
    while let Ok((sample, record)) = waiting.recv() {
        for shadow in &sample.shadows {
            // A bug of ours in one of them is not to end it for all.
            let seen = catch_unwind(AssertUnwindSafe(|| shadow.watch(&sample, record.receipt())));
            if seen.is_err() {
                shadow.drop_one();
                tracing::error!(shadow = &**shadow.instance(), "showing a decision has panicked");
            }
        }
    }
}
