//! Reading and applying a batch without holding up who shares the thread.
//!
//! Owns where that is done: a small batch here and now, a large one (a message may have 32 MiB, and
//! millions of events) on a thread where it may take its time. What a batch means is
//! [`crate::feeds::intake`]'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pointsman_core::ids::WorkerRank;
use pointsman_core::index::{Applied, CacheEvent};

use super::Subscriber;
use crate::feeds::intake::{CacheSink, Intake};
use crate::feeds::wire::{Batch, Malformed};

/// Bytes of a batch that aren't worth a thread of their own.
const SMALL: usize = 32 << 10;

/// Bytes of small batches that are applied before other tasks get their turn.
const MOST_IN_A_ROW: usize = 128 << 10;

/// A sink until its feed ends.
struct Until {
    sink: Arc<dyn CacheSink>,
    ended: Arc<AtomicBool>,
}

/// Says that a feed has ended, if it is dropped before it is done.
struct End(Arc<AtomicBool>);

impl CacheSink for Until {
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        match self.ended.load(Ordering::Relaxed) {
            false => self.sink.apply(rank, event),
            true => Applied::default(),
        }
    }

    fn live(&self, rank: WorkerRank) {
        self.sink.live(rank);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Subscriber {
    /// Reads a payload as a whole, and returns when it was published.
    pub(super) async fn read(&self, payload: &Bytes) -> Result<f64, Malformed> {
        if payload.len() <= SMALL {
            return Batch::read(payload).map(|batch| batch.ts);
        }
        let payload = payload.clone();
        elsewhere(move || Batch::read(&payload).map(|batch| batch.ts)).await
    }

    /// Applies a batch that could be read; if it couldn't, its content is lost, and said to be.
    /// Returns false if the rank must be cleared and filled anew. Not to be dropped half-way,
    /// unless the feed is: the batch would be known, and not applied.
    pub(super) async fn apply(
        &mut self,
        seq: u64,
        payload: &Bytes,
        read: Result<f64, Malformed>,
    ) -> bool {
        if let Err(malformed) = read {
            self.stats.malformed(format!("batch {seq} can't be read: {malformed}"));
            return true;
        }
        if payload.len() <= SMALL {
            let Ok(batch) = Batch::read(payload) else { return true };
            let sound = self.intake.take_batch(&batch, &self.stats, &*self.sink).0;
            self.in_a_row += payload.len();
            if self.in_a_row > MOST_IN_A_ROW {
                self.in_a_row = 0;
                tokio::task::yield_now().await;
            }
            return sound;
        }
        let intake = Intake::new(self.config.rank, self.config.block_size);
        let mut intake = std::mem::replace(&mut self.intake, intake);
        let (payload, stats) = (payload.clone(), Arc::clone(&self.stats));
        let end = End(Arc::default());
        let until = Until { sink: Arc::clone(&self.sink), ended: Arc::clone(&end.0) };
        let sound;
        (self.intake, sound) = elsewhere(move || {
            let batch = Batch::read(&payload);
            let sound = batch.is_ok_and(|batch| intake.take_batch(&batch, &stats, &until).0);
            (intake, sound)
        })
        .await;
        sound
    }
}

/// Does something on a thread where it may take its time. A panic there is one here.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
