//! Bookings that are owned by a name: for callers who can't hold a [`Lease`], as over a network.
//!
//! Owns which request has which booking, and for how long it is kept when nobody speaks of it any more: who
//! takes a lease and vanishes leaves its load for [`DEFAULT_EXPIRY`], not for ever. Every step says of
//! which attempt at the request it speaks, so that a late word of an old attempt changes nothing of the new
//! one; what was done already, or is of nobody, is [`Change::None`]. It doesn't know how a booking came
//! about, and asks no clock.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use thiserror::Error;

use super::Lease;
use crate::ids::WorkerRank;

/// How long a booking is kept that nobody speaks of.
pub const DEFAULT_EXPIRY: Duration = Duration::from_secs(300);

/// The most bookings at a time, unless said otherwise.
const MOST: usize = 1 << 18;

/// How often, at most, those that come look for some that have expired.
const LOOK_MS: u64 = 30_000;

/// Which attempt at a request: a retry is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttemptId(pub u64);

/// Whether a step did anything.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It did.
    Done,
    /// It had been done, or there is no such booking, or it is of another attempt.
    None,
}

/// Why a booking wasn't taken. Its load has been given back.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReserveError {
    /// The request has one.
    #[error(
        "request {request_id:?} is booked on {worker} already; free that first, or use another id"
    )]
    Duplicate {
        /// The request.
        request_id: Arc<str>,
        /// Where it is booked.
        worker: WorkerRank,
    },
    /// There are too many.
    #[error(
        "{most} requests are booked already, the most that are kept; free some, or wait until they expire"
    )]
    Full {
        /// How many there may be.
        most: usize,
    },
}

#[derive(Debug)]
struct Reservation {
    attempt: AttemptId,
    lease: Lease,
    /// When somebody last spoke of it.
    touched_ms: u64,
}

#[derive(Debug, Default)]
struct State {
    all: HashMap<Arc<str>, Reservation>,
    looked_ms: u64,
}

/// Bookings by request.
#[derive(Debug)]
pub struct Reservations {
    state: Mutex<State>,
    expiry_ms: u64,
    most: usize,
}

impl Default for Reservations {
    fn default() -> Self {
        Self::new(DEFAULT_EXPIRY, MOST)
    }
}

impl Reservations {
    /// None yet. Those that nobody speaks of go after `expiry`; nothing at all is as
    /// [`DEFAULT_EXPIRY`]. There are never more than `most`.
    #[must_use]
    pub fn new(expiry: Duration, most: usize) -> Self {
        let expiry = if expiry.is_zero() { DEFAULT_EXPIRY } else { expiry };
        let expiry_ms = u64::try_from(expiry.as_millis()).unwrap_or(u64::MAX).max(1);
        Self { state: Mutex::default(), expiry_ms, most }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a request is booked; none if it isn't. Ask before a decision is made for it.
    #[must_use]
    pub fn worker_of(&self, request_id: &str) -> Option<WorkerRank> {
        self.state.lock().all.get(request_id).map(|reservation| reservation.lease.worker())
    }

    /// Takes a booking for an attempt at a request.
    pub fn add(
        &self,
        request_id: Arc<str>,
        attempt: AttemptId,
        lease: Lease,
        now_ms: u64,
    ) -> Result<(), ReserveError> {
        let expired = self.look(now_ms);
        drop(expired);
        let mut state = self.state.lock();
        let full = state.all.len() >= self.most;
        match state.all.entry(request_id) {
            Entry::Occupied(there) => {
                let (request_id, worker) = (there.key().clone(), there.get().lease.worker());
                Err(ReserveError::Duplicate { request_id, worker })
            }
            Entry::Vacant(_) if full => Err(ReserveError::Full { most: self.most }),
            Entry::Vacant(place) => {
                place.insert(Reservation { attempt, lease, touched_ms: now_ms });
                Ok(())
            }
        }
    }

    /// The first token has come.
    pub fn prefill_complete(&self, request_id: &str, attempt: AttemptId, now_ms: u64) -> Change {
        self.with(request_id, attempt, now_ms, |lease| {
            let waited = lease.waits_for_prefill();
            lease.prefill_done_at(now_ms);
            waited
        })
    }

    /// One more output block begins, `decay_fraction` of the output still to come: see
    /// [`Lease::output_block`].
    pub fn output_block(
        &self,
        request_id: &str,
        attempt: AttemptId,
        decay_fraction: Option<f64>,
        now_ms: u64,
    ) -> Change {
        self.with(request_id, attempt, now_ms, |lease| lease.output_block(decay_fraction))
    }

    /// So many output tokens there are by now: see [`Lease::progress`].
    pub fn progress(
        &self,
        request_id: &str,
        attempt: AttemptId,
        output_tokens: u64,
        now_ms: u64,
    ) -> Change {
        self.with(request_id, attempt, now_ms, |lease| {
            if output_tokens > 0 {
                lease.prefill_done_at(now_ms);
            }
            lease.progress(output_tokens);
            true
        })
    }

    /// It goes on: it has all its time again.
    pub fn touch(&self, request_id: &str, attempt: AttemptId, now_ms: u64) -> Change {
        self.with(request_id, attempt, now_ms, |_| true)
    }

    /// It is over: its load is given back.
    pub fn free(&self, request_id: &str, attempt: AttemptId) -> Change {
        let mut state = self.state.lock();
        match state.all.entry_ref(request_id) {
            hashbrown::hash_map::EntryRef::Occupied(there) if there.get().attempt == attempt => {
                let freed = there.remove();
                // The ledger's lock is not taken under this one.
                drop(state);
                drop(freed);
                Change::Done
            }
            _ => Change::None,
        }
    }

    /// Gives back what nobody has spoken of for too long. Returns how many that were.
    pub fn expire(&self, now_ms: u64) -> usize {
        let expired = self.expired(now_ms);
        expired.len()
    }

    fn look(&self, now_ms: u64) -> Vec<Reservation> {
        let due = now_ms.saturating_sub(self.state.lock().looked_ms) >= LOOK_MS;
        if due { self.expired(now_ms) } else { Vec::new() }
    }

    fn expired(&self, now_ms: u64) -> Vec<Reservation> {
        let mut state = self.state.lock();
        state.looked_ms = now_ms;
        let over = |reservation: &Reservation| {
            now_ms.saturating_sub(reservation.touched_ms) >= self.expiry_ms
        };
        let expired = state.all.extract_if(|_, reservation| over(reservation));
        expired.map(|(_, reservation)| reservation).collect()
    }

    fn with(
        &self,
        request_id: &str,
        attempt: AttemptId,
        now_ms: u64,
        step: impl FnOnce(&mut Lease) -> bool,
    ) -> Change {
        let mut state = self.state.lock();
        let reservation = state.all.get_mut(request_id).filter(|there| there.attempt == attempt);
        let Some(reservation) = reservation else { return Change::None };
        reservation.touched_ms = reservation.touched_ms.max(now_ms);
        if step(&mut reservation.lease) { Change::Done } else { Change::None }
    }
}

#[cfg(test)]
mod tests;
