//! A partition's desk: where its requests ask to be let in.
//!
//! Owns the lock under which the classifier is asked, and whether there is one at all. One caller at
//! a time works at a desk and may wait for the classifier; whoever only serves a request talks to its
//! [`Lifecycle`] and never waits. The caller also answers those that wait: see
//! [`Desk::take_released`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use super::counts::ClassifierCounts;
use super::error::ClassificationError;
use super::facts::{Arrival, Capacity};
use super::lifecycle::{Lifecycle, Mailbox, Ticket};
use super::lifecycles::{Arrived, Lifecycles, Released};
use super::log::ClassifierLog;
use super::provider::ClassifierDeclaration;
use super::seat::Seat;
use crate::policy::{BreakerState, Digest, Usage};

/// How a partition's classifier does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassifierReport {
    /// Its type.
    #[serde(rename = "type")]
    pub classifier_type: String,
    /// Its component's identity; none for a native classifier.
    pub digest: Option<Digest>,
    /// What it wants.
    #[serde(flatten)]
    pub declaration: ClassifierDeclaration,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// For how much longer it isn't; none unless the breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_for_ms: Option<u64>,
    /// Calls in a row that it failed.
    pub failures_in_a_row: u32,
    /// The component's identity of the one that failed, and for which this one, the version before,
    /// stands in; none where nobody stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_in_for: Option<Digest>,
    /// What it has used; none if nobody keeps count of that.
    #[serde(flatten)]
    pub usage: Option<Usage>,
}

/// Where a partition's requests ask to be let in.
#[derive(Debug, Default)]
pub struct Desk {
    mailbox: Arc<Mailbox>,
    wanted: AtomicBool,
    generations: AtomicU64,
    live: AtomicU64,
    lifecycles: Mutex<Lifecycles>,
}

impl Desk {
    /// A desk where everybody is let in: there is no classifier.
    #[must_use]
    pub fn new() -> Self {
        let mailbox = Arc::<Mailbox>::default();
        let lifecycles = Mutex::new(Lifecycles::new(mailbox.clone()));
        Self { mailbox, lifecycles, ..Self::default() }
    }

    /// Whether there is a classifier. If not, requests needn't come here.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Requests that have come and not ended.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Begins a request's lifecycle. The classifier hears of it when the request arrives.
    #[must_use]
    pub fn begin(&self) -> Lifecycle {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        Lifecycle::begin(generation, self.mailbox.clone())
    }

    /// Has `bell` called, from any thread, whenever there is something to do here: it is to have
    /// [`Desk::catch_up`] called soon, and must not do that itself.
    pub fn on_mail(&self, bell: impl Fn() + Send + Sync + 'static) {
        self.mailbox.set_bell(Arc::new(bell));
    }

    /// From the next instance on, all that one is asked and told, and answers, is left to `log`. An
    /// instance that has been told of nothing yet is such a one.
    pub fn write_to(&self, log: Arc<dyn ClassifierLog>) {
        self.lifecycles.lock().write_to(log);
    }

    /// A request is at the door. What has happened before is delivered first. The same lifecycle
    /// again gets the same answer. Waits for the classifier.
    pub fn arrive(
        &self,
        arrival: Arrival,
        ticket: impl Into<Ticket>,
        now_ms: u64,
    ) -> Result<Arrived, ClassificationError> {
        let ticket = ticket.into();
        self.work(|lifecycles| lifecycles.arrive(arrival, ticket, now_ms))
    }

    /// Delivers what has happened, in order, and does what its time has come for. Waits for the
    /// classifier.
    pub fn catch_up(&self, now_ms: u64) {
        self.work(|lifecycles| lifecycles.catch_up(now_ms));
    }

    /// What was held and isn't any more, since this was asked last.
    #[must_use]
    pub fn take_released(&self) -> Vec<Released> {
        self.work(Lifecycles::take_released)
    }

    /// Whether the next call has to make a classifier, or to tell a new one all that there is: then it
    /// takes a while.
    #[must_use]
    pub fn is_in_upheaval(&self) -> bool {
        let lifecycles = self.lifecycles.lock();
        let unsettled = lifecycles.seat().is_some_and(|seat| !seat.is_settled());
        // One that failed may be due to be tried again.
        unsettled || lifecycles.failed().is_some()
    }

    /// When [`Desk::catch_up`] has something to do though nothing happens; none is never.
    #[must_use]
    pub fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        self.lifecycles.lock().due_at_ms(now_ms)
    }

    /// What has been done here. Waits for the classifier.
    #[must_use]
    pub fn counts(&self) -> ClassifierCounts {
        self.lifecycles.lock().counts()
    }

    /// How the classifier does; none if there is none. Waits for it.
    #[must_use]
    pub fn report(&self, now_ms: u64) -> Option<ClassifierReport> {
        let lifecycles = self.lifecycles.lock();
        let seat = lifecycles.seat()?;
        Some(ClassifierReport {
            classifier_type: seat.classifier_type().to_owned(),
            digest: seat.digest().cloned(),
            declaration: seat.declaration(),
            breaker: seat.breaker().state(now_ms),
            open_for_ms: seat.breaker().open_for_ms(now_ms),
            failures_in_a_row: seat.breaker().failures_in_a_row(),
            stands_in_for: lifecycles.failed().and_then(|failed| failed.digest().cloned()),
            usage: seat.usage(),
        })
    }

    /// Puts another classifier in place, or none. Waits for the one before.
    pub fn replace(&self, seat: Option<Seat>) {
        let wanted = seat.is_some();
        self.lifecycles.lock().replace(seat);
        self.wanted.store(wanted, Ordering::Release);
        self.mailbox.ring();
    }

    /// The workers are now these.
    pub fn fleet_changed(&self, fleet: Arc<[Capacity]>) {
        self.mailbox.put_fleet(fleet);
    }

    fn work<R>(&self, at: impl FnOnce(&mut Lifecycles) -> R) -> R {
        let mut lifecycles = self.lifecycles.lock();
        let done = at(&mut lifecycles);
        self.live.store(lifecycles.live(), Ordering::Relaxed);
        done
    }
}
