//! What is reserved under a name, and what was selected to be reserved.
//!
//! Owns the bookings of those who send requests themselves, with all that is to end with one: what its
//! request classifier, its session and policies that learn are told. A reservation ends when it is freed,
//! or when nobody has spoken of it for as long as its lease; either way its load is given back at once. One
//! set serves all listeners of a process. It doesn't know HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::affinity::SessionLease;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, WorkerRank};
use pointsman_core::ledger::{
    AttemptId, Lease, ReservationView, Reservations, ReserveError, Terms,
};
use pointsman_core::outcome::{Ending, OutcomeReporter};
use prometheus::IntGauge;

use super::cached::{Cache, Dropped, Kept};
use crate::config::SelectConfig;
use crate::telemetry::Metrics;

/// The one attempt that there is at a reservation: a retry has an id of its own.
const ATTEMPT: AttemptId = AttemptId(0);

/// What goes along with a reservation, and ends with it.
#[derive(Debug)]
pub(super) struct Company {
    /// Where it is.
    pub(super) partition: PartitionKey,
    /// Its worker's endpoint.
    pub(super) endpoint: String,
    /// The prompt's length in tokens.
    pub(super) prompt_tokens: u64,
    /// Tokens in one block of its worker.
    pub(super) block_size: u32,
    /// Output blocks that have been told of.
    pub(super) output_blocks: u64,
    /// By this, its request classifier hears of it; none where there is no classifier.
    pub(super) lifecycle: Option<Lifecycle>,
    /// Its stay with its session; none if it is of none that is bound.
    pub(super) session: Option<SessionLease>,
    /// By this, policies that learn hear of it; none if none does.
    pub(super) reporter: Option<OutcomeReporter>,
}

impl Company {
    /// Of a booking on a worker that the request is to be sent to now.
    pub(super) fn of(
        partition: PartitionKey,
        worker: &WorkerSpec,
        prompt_tokens: u64,
        lifecycle: Option<Lifecycle>,
        reporter: Option<OutcomeReporter>,
    ) -> Self {
        let (endpoint, block_size) = (worker.endpoint.clone(), worker.block_size.get());
        let (output_blocks, session) = (0, None);
        Self {
            partition,
            endpoint,
            prompt_tokens,
            block_size,
            output_blocks,
            lifecycle,
            session,
            reporter,
        }
    }

    /// Tells who wants to know that the worker has the request.
    pub(super) fn sent(&self, worker: WorkerRank) {
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.sent(worker);
        }
        if let Some(reporter) = &self.reporter {
            reporter.dispatched();
        }
    }

    fn responding(&mut self) {
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.responding();
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.first_token();
        }
    }

    fn grown(&mut self) {
        self.output_blocks = self.output_blocks.saturating_add(1);
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.reached(self.reached());
        }
    }

    /// Tokens of prompt and output, as far as blocks tell.
    fn reached(&self) -> u64 {
        let output = self.output_blocks.saturating_mul(u64::from(self.block_size));
        self.prompt_tokens.saturating_add(output)
    }

    /// It is over. Of an end that is no good one, a classifier hears by what is dropped.
    fn ended(mut self, end: End) {
        let reached = match end {
            End::Completed { output_tokens: Some(tokens) } => {
                self.prompt_tokens.checked_add(tokens)
            }
            _ if self.output_blocks > 0 => Some(self.reached()),
            _ => None,
        };
        let ending = match end {
            End::Completed { output_tokens } => {
                if let Some(lifecycle) = self.lifecycle.take() {
                    lifecycle.completed(reached);
                }
                Ending::Completed { output_tokens: output_tokens.unwrap_or_default() }
            }
            End::Failed => Ending::failed("its owner says so"),
            End::Cancelled => Ending::Cancelled,
        };
        if let Some(reporter) = self.reporter.take() {
            reporter.end(ending);
        }
    }
}

/// How a reservation's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Well, with so many output tokens, if that is known.
    Completed { output_tokens: Option<u64> },
    /// Its worker failed it.
    Failed,
    /// Its client left.
    Cancelled,
}

/// Which reservation, of all that there ever were: a name can be another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

/// Counts as long as it is there.
#[derive(Debug)]
struct Shown(IntGauge, Number);

impl Shown {
    fn of(gauge: &IntGauge, number: Number) -> Self {
        gauge.inc();
        Self(gauge.clone(), number)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// All of them.
#[derive(Debug)]
pub struct Selections {
    reservations: Reservations<(Company, Shown)>,
    cached: Mutex<Cache>,
    metrics: Arc<Metrics>,
    /// How many reservations there have been.
    numbers: AtomicU64,
}

impl Selections {
    /// None yet.
    #[must_use]
    pub fn new(config: Option<&SelectConfig>, metrics: &Arc<Metrics>) -> Self {
        let config = config.cloned().unwrap_or_default();
        let cached = Cache::new(
            config.selection_cache_ttl,
            config.selection_cache_entries,
            config.selection_cache_size,
        );
        Self {
            reservations: Reservations::new(config.reservation_lease, config.max_reservations),
            cached: Mutex::new(cached),
            metrics: metrics.clone(),
            numbers: AtomicU64::default(),
        }
    }

    /// How many reservations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reservations.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reservations.is_empty()
    }

    /// Gives back what nobody has spoken of for as long as its lease, and lets selections go that
    /// nobody has booked in time. To be called now and then.
    pub fn expire(&self, now_ms: u64) {
        let expired = self.reservations.expire(now_ms);
        if expired > 0 {
            self.metrics.selections().expired(expired);
            tracing::info!(
                reservations = expired,
                "nobody spoke of them for as long as their leases; their load is given back"
            );
        }
        let expired = self.cached.lock().expire(now_ms);
        self.let_go(Dropped { expired, displaced: Vec::new() });
    }

    /// Where a name is reserved; none if it isn't.
    pub(super) fn worker_of(&self, id: &str) -> Option<WorkerRank> {
        self.reservations.worker_of(id)
    }

    /// Reserves a booking under a name.
    pub(super) fn reserve(
        &self,
        id: Arc<str>,
        lease: Lease,
        company: Company,
        expiry: Option<Duration>,
        now_ms: u64,
    ) -> Result<Number, ReserveError> {
        let number = Number(self.numbers.fetch_add(1, Ordering::Relaxed));
        let shown = Shown::of(&self.metrics.selections().reservations(), number);
        let terms = Terms { expiry, companion: (company, shown) };
        self.reservations.add_on(id, ATTEMPT, lease, terms, now_ms).map(|()| number)
    }

    /// Has a session's stay go along with a reservation; it ends at once if there is none any more.
    pub(super) fn join(
        &self,
        (id, number): (&str, Number),
        session: Option<SessionLease>,
        now_ms: u64,
    ) {
        if let Some(session) = session {
            let mut session = Some(session);
            let _ = self.reservations.step(id, ATTEMPT, now_ms, |_, (company, shown)| {
                if shown.1 == number {
                    std::mem::swap(&mut company.session, &mut session);
                }
            });
        }
    }

    /// How a reservation stands; none if there is none.
    pub(super) fn view<R>(
        &self,
        id: &str,
        now_ms: u64,
        look: impl FnOnce(ReservationView, &Company) -> R,
    ) -> Option<R> {
        self.reservations.view(id, now_ms, |view, (company, _)| look(view, company))
    }

    /// The first token has come. False if there is no such reservation.
    pub(super) fn prefill_complete(&self, id: &str, now_ms: u64) -> bool {
        let step = |lease: &mut Lease, (company, _): &mut (Company, Shown)| {
            lease.prefill_done_at(now_ms);
            company.responding();
        };
        self.reservations.step(id, ATTEMPT, now_ms, step).is_some()
    }

    /// One more output block begins. None if there is no such reservation; false if output blocks aren't
    /// booked.
    pub(super) fn output_block(&self, id: &str, decay: Option<f64>, now_ms: u64) -> Option<bool> {
        let step = |lease: &mut Lease, (company, _): &mut (Company, Shown)| {
            company.grown();
            lease.output_block(decay)
        };
        self.reservations.step(id, ATTEMPT, now_ms, step)
    }

    /// It goes on: it has all its time again. False if there is no such reservation.
    pub(super) fn heartbeat(&self, id: &str, now_ms: u64) -> bool {
        self.reservations.step(id, ATTEMPT, now_ms, |_, _| ()).is_some()
    }

    /// It is over. False if there is no such reservation.
    pub(super) fn free(&self, id: &str, end: End) -> bool {
        let Some((lease, (company, _shown))) = self.reservations.take(id, ATTEMPT) else {
            return false;
        };
        drop(lease);
        company.ended(end);
        true
    }

    /// Nobody can be told of it: it is as if it had never been. What has its name by now stays.
    pub(super) fn abandon(&self, id: &str, number: Number) {
        let is = |(_, shown): &(Company, Shown)| shown.1 == number;
        if let Some((mut lease, _company)) = self.reservations.take_if(id, ATTEMPT, is) {
            lease.prompt_refused();
            self.metrics.selections().abandoned();
        }
    }

    /// Keeps a selection to be booked by its id.
    pub(super) fn keep(&self, id: Arc<str>, kept: Kept, now_ms: u64) {
        let dropped = self.cached.lock().put(id, kept, now_ms);
        self.let_go(dropped);
    }

    /// Takes a selection that is to be booked; none if there is none of that id any more.
    pub(super) fn take_kept(&self, id: &str, now_ms: u64) -> Option<Kept> {
        let kept = self.cached.lock().take(id, now_ms);
        self.show_kept();
        kept
    }

    /// What was dropped ends here, under no lock.
    fn let_go(&self, Dropped { expired, displaced }: Dropped) {
        self.show_kept();
        for (reason, dropped) in [("expired", expired), ("displaced", displaced)] {
            if !dropped.is_empty() {
                self.metrics.selections().dropped(reason, dropped.len());
            }
        }
    }

    fn show_kept(&self) {
        let kept = i64::try_from(self.cached.lock().len()).unwrap_or(i64::MAX);
        self.metrics.selections().kept().set(kept);
    }
}
