//! Bookings that are owned by a name: for callers who can't hold a [`Lease`], as over a network.
//!
//! Owns which request has which booking, and for how long it is kept when nobody speaks of it any more: who
//! takes a lease and vanishes leaves its load for [`DEFAULT_EXPIRY`], or as long as he said, not for ever. Every step says of
//! which attempt at the request it speaks, so that a late word of an old attempt changes nothing of the new
//! one; what was done already, or is of nobody, is [`Change::None`]. It doesn't know how a booking came
//! about, and asks no clock.

mod line;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use line::{Filed, State};

use super::Lease;
use crate::ids::WorkerRank;

/// How long a booking is kept that nobody speaks of.
pub const DEFAULT_EXPIRY: Duration = Duration::from_secs(300);

/// The most bookings at a time, unless said otherwise.
const MOST: usize = 1 << 18;

/// How often, at most, those that come look for some that have expired.
const LOOK_MS: u64 = 30_000;

/// How many are looked at, or given back, before others have their turn.
const AT_A_TIME: usize = 128;

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

/// On which terms a booking is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms<A> {
    /// For how long without a word about it; none is as long as usual.
    pub expiry: Option<Duration>,
    /// What goes with the booking, and ends with it.
    pub companion: A,
}

/// How a booking stands, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationView {
    /// Where it is.
    pub worker: WorkerRank,
    /// Whether its prompt waits for the first token, as far as anybody said.
    pub waits_for_prefill: bool,
    /// For how long it is kept from each word about it, in milliseconds.
    pub expiry_ms: u64,
    /// When it goes unless somebody speaks of it, in milliseconds from now.
    pub expires_in_ms: u64,
}

#[derive(Debug)]
struct Reservation<A> {
    attempt: AttemptId,
    lease: Lease,
    companion: A,
    expiry_ms: u64,
    /// When somebody last spoke of it.
    touched_ms: u64,
    /// Under which it is in line to be looked at: not after its end.
    filed: Filed,
}

impl<A> Reservation<A> {
    fn ends_ms(&self) -> u64 {
        self.touched_ms.saturating_add(self.expiry_ms)
    }
}

/// Bookings by request, each with something of its owner's that ends with it.
#[derive(Debug)]
pub struct Reservations<A = ()> {
    state: Mutex<State<A>>,
    expiry_ms: u64,
    most: usize,
}

impl<A> Default for Reservations<A> {
    fn default() -> Self {
        Self::new(DEFAULT_EXPIRY, MOST)
    }
}

impl<A: Default> Reservations<A> {
    /// Takes a booking for an attempt at a request, on the usual terms.
    pub fn add(
        &self,
        request_id: Arc<str>,
        attempt: AttemptId,
        lease: Lease,
        now_ms: u64,
    ) -> Result<(), ReserveError> {
        self.add_on(request_id, attempt, lease, Terms::default(), now_ms)
    }
}

impl<A> Reservations<A> {
    /// None yet. Those that nobody speaks of go after `expiry`; nothing at all is as
    /// [`DEFAULT_EXPIRY`]. There are never more than `most`.
    #[must_use]
    pub fn new(expiry: Duration, most: usize) -> Self {
        let expiry = if expiry.is_zero() { DEFAULT_EXPIRY } else { expiry };
        let state = State::default();
        Self { state: Mutex::new(state), expiry_ms: millis(expiry), most }
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

    /// How a request's booking stands, with what goes along; none if there is none. It isn't spoken of
    /// by that.
    pub fn view<R>(
        &self,
        request_id: &str,
        now_ms: u64,
        look: impl FnOnce(ReservationView, &A) -> R,
    ) -> Option<R> {
        let state = self.state.lock();
        let there = state.all.get(request_id)?;
        let view = ReservationView {
            worker: there.lease.worker(),
            waits_for_prefill: there.lease.waits_for_prefill(),
            expiry_ms: there.expiry_ms,
            expires_in_ms: there.ends_ms().saturating_sub(now_ms),
        };
        Some(look(view, &there.companion))
    }

    /// Takes a booking for an attempt at a request. What it comes with is dropped with it if it isn't
    /// taken.
    pub fn add_on(
        &self,
        request_id: Arc<str>,
        attempt: AttemptId,
        lease: Lease,
        terms: Terms<A>,
        now_ms: u64,
    ) -> Result<(), ReserveError> {
        if now_ms.saturating_sub(self.state.lock().looked_ms) >= LOOK_MS {
            self.expire(now_ms);
        }
        let Terms { expiry, companion } = terms;
        let expiry_ms = expiry.map_or(self.expiry_ms, millis);
        let filed = Filed::default();
        let newcomer =
            Reservation { attempt, lease, companion, expiry_ms, touched_ms: now_ms, filed };
        // The ledger's lock is not taken under this one: who isn't taken ends after it.
        let (refused, _newcomer) = {
            let mut state = self.state.lock();
            match self.refusal(&state, &request_id) {
                Some(refused) => (refused, newcomer),
                None => {
                    let filed = state.file(request_id.clone(), newcomer.ends_ms());
                    state.all.insert(request_id, Reservation { filed, ..newcomer });
                    return Ok(());
                }
            }
        };
        Err(refused)
    }

    fn refusal(&self, state: &State<A>, request_id: &Arc<str>) -> Option<ReserveError> {
        if let Some(there) = state.all.get(request_id) {
            let (request_id, worker) = (request_id.clone(), there.lease.worker());
            return Some(ReserveError::Duplicate { request_id, worker });
        }
        let most = self.most;
        (state.all.len() >= most).then_some(ReserveError::Full { most })
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

    /// Somebody speaks of it, and does something with it and with what goes along. None if there is no
    /// such booking. Keep `step` short: all others wait for it.
    pub fn step<R>(
        &self,
        request_id: &str,
        attempt: AttemptId,
        now_ms: u64,
        step: impl FnOnce(&mut Lease, &mut A) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        let there = state.all.get_mut(request_id).filter(|there| there.attempt == attempt)?;
        there.touched_ms = there.touched_ms.max(now_ms);
        Some(step(&mut there.lease, &mut there.companion))
    }

    /// It is over: its load is given back.
    pub fn free(&self, request_id: &str, attempt: AttemptId) -> Change {
        self.take(request_id, attempt).map_or(Change::None, |_freed| Change::Done)
    }

    /// It is over, or goes on in other hands: with what goes along. None if there is no such booking.
    #[must_use]
    pub fn take(&self, request_id: &str, attempt: AttemptId) -> Option<(Lease, A)> {
        self.take_if(request_id, attempt, |_| true)
    }

    /// The same, if what goes along says that it is the one that is meant: a name can be another's by
    /// now.
    #[must_use]
    pub fn take_if(
        &self,
        request_id: &str,
        attempt: AttemptId,
        is_meant: impl FnOnce(&A) -> bool,
    ) -> Option<(Lease, A)> {
        let is = |there: &Reservation<A>| there.attempt == attempt && is_meant(&there.companion);
        let Reservation { lease, companion, .. } = self.state.lock().take(request_id, is)?;
        Some((lease, companion))
    }

    /// Gives back what nobody has spoken of for too long. Returns how many that were. Costs next to
    /// nothing while there is none, and nobody waits for more than a few of them.
    pub fn expire(&self, now_ms: u64) -> usize {
        let mut count = 0;
        loop {
            let (expired, is_last) = self.some_expired(now_ms);
            count += expired.len();
            drop(expired);
            if is_last {
                return count;
            }
        }
    }

    /// Some of those that are over, and whether all have been looked at.
    fn some_expired(&self, now_ms: u64) -> (Vec<Reservation<A>>, bool) {
        let mut state = self.state.lock();
        state.looked_ms = now_ms;
        let mut expired = Vec::new();
        for _ in 0..AT_A_TIME {
            match state.look_at_one(now_ms) {
                None => return (expired, true),
                Some(over) => expired.extend(over),
            }
        }
        // Whoever waits is let in before the next.
        parking_lot::MutexGuard::unlock_fair(state);
        (expired, false)
    }

    fn with(
        &self,
        request_id: &str,
        attempt: AttemptId,
        now_ms: u64,
        step: impl FnOnce(&mut Lease) -> bool,
    ) -> Change {
        match self.step(request_id, attempt, now_ms, |lease, _| step(lease)) {
            Some(true) => Change::Done,
            Some(false) | None => Change::None,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests;
