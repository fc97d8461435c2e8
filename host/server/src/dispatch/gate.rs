//! The gate of one partition: one task decides at a time, and those who wait stand in line.
//!
//! Owns whose turn it is, and how slow decisions have been. It doesn't know what a turn is for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pointsman_core::RouteError;
use pointsman_core::admission::{Line, Scout};
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::PartitionKey;
use pointsman_core::ledger::Bell;
use pointsman_core::partition::Decision;
use pointsman_core::queue::Profile;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::waiting::Ticket;

/// A decision slower than this belongs on a pool.
pub(super) const SLOW_MICROS: f64 = 200.0;

/// The gate of one partition.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) partition: PartitionKey,
    /// One permit: the tasks that wait stand in line. Whoever decides holds it to the end, be it a
    /// task or a thread.
    pub(super) turn: Arc<Semaphore>,
    /// Somebody is to have the turn before all that stand in line: they step aside until then.
    pub(super) paused: watch::Sender<bool>,
    /// Leaky count of slow decisions: how the last hundred or so went.
    pub(super) slowness: AtomicU64,
    /// Requests that wait for a worker to have less to do. Locked for moments only, in which nothing is
    /// decided: also by those who leave.
    pub(super) line: Mutex<Line<Ticket>>,
    /// Whoever has the turn has this, too.
    pub(super) scout: Mutex<Scout>,
    pub(super) bell: Arc<Doorbell>,
    /// The same, as the ledger knows it.
    pub(super) rings: Arc<dyn Bell>,
    /// Whether somebody goes when the bell rings.
    pub(super) attended: AtomicBool,
}

/// Wakes the attendant; once, however often it is rung before he goes.
#[derive(Debug, Default)]
pub(super) struct Doorbell(Notify);

impl Doorbell {
    /// Until it has been rung since the last time.
    pub(super) async fn rung(&self) {
        self.0.notified().await;
    }
}

impl Bell for Doorbell {
    fn ring(&self) {
        self.0.notify_one();
    }
}

/// A gate at which all step aside, until this is dropped.
pub(super) struct Pause<'a>(&'a Gate);

impl<'a> Pause<'a> {
    pub(super) fn of(gate: &'a Gate) -> Self {
        gate.paused.send_replace(true);
        Self(gate)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.paused.send_replace(false);
    }
}

impl Gate {
    pub(super) fn new(partition: PartitionKey, profile: Arc<Profile>) -> Self {
        let bell = Arc::<Doorbell>::default();
        Self {
            partition,
            turn: Arc::new(Semaphore::new(1)),
            paused: watch::Sender::new(false),
            slowness: AtomicU64::new(0),
            line: Mutex::new(Line::new(profile)),
            scout: Mutex::default(),
            rings: bell.clone(),
            bell,
            attended: AtomicBool::new(false),
        }
    }

    /// Has the line looked at, if anybody stands there: whoever held up the others may have gone, or
    /// others may be busy now.
    pub(super) fn look_again(&self) {
        if !self.line.lock().is_empty() {
            self.rings.ring();
        }
    }

    /// Stands in line for the turn; none only if there will never be one again.
    pub(super) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            // The semaphore is never closed.
            let turn = self.turn.clone().acquire_owned().await.ok()?;
            if !*self.paused.borrow() {
                return Some(turn);
            }
            drop(turn);
            self.paused.subscribe().wait_for(|paused| !paused).await.ok()?;
        }
    }

    /// More than one decision in a hundred is slow.
    pub(super) fn is_slow(&self) -> bool {
        self.slowness.load(Ordering::Relaxed) > Self::TURN_SLOW
    }

    /// A slow decision weighs as much as a hundred quick ones.
    fn note(&self, micros: f64) {
        let now = self.slowness.load(Ordering::Relaxed);
        let next =
            if micros > SLOW_MICROS { (now + 100).min(Self::MOST) } else { now.saturating_sub(1) };
        // Only the holder of the turn writes.
        self.slowness.store(next, Ordering::Relaxed);
    }

    /// Decides, and notes how long it took; by whoever has the turn.
    pub(super) fn measured(
        &self,
        decide: impl FnOnce() -> Result<Decision, RouteError>,
    ) -> Result<Decision, RouteError> {
        let watch = Stopwatch::start();
        let decided = decide();
        self.note(match &decided {
            Ok(decision) => decision.receipt.micros,
            // A policy that fails slowly is as slow as one that decides slowly.
            Err(_) => watch.micros(),
        });
        decided
    }

    const TURN_SLOW: u64 = 200;
    pub(super) const MOST: u64 = 1_000;
}
