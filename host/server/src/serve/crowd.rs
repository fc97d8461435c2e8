//! The connections of one listener: how many there are, and who goes when there is no room.
//!
//! Owns the count and the choice. A newcomer takes the place of the connection that has had no
//! request in flight for longest, those that never had one first; where all have, the newcomer is
//! refused. It doesn't know sockets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge};
use tokio::time::Instant;

use super::presence::{Here, Presence};

/// An operator is told once in so long: who fills a listener does it many times a second.
const QUIET: Duration = Duration::from_secs(60);

/// One in so many of the idle ones goes at once, so that a flood of newcomers doesn't have all
/// looked at for each.
const AT_ONCE: usize = 16;

/// What is shown of the connections.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// How many are open.
    pub(crate) open: IntGauge,
    /// Idle ones that gave their place to others.
    pub(crate) gave_way: IntCounter,
    /// Newcomers for whom there was no room.
    pub(crate) refused: IntCounter,
}

/// Marks a request that is one too many for what the router can open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beyond;

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Crowd {
    name: &'static str,
    most: usize,
    present: Mutex<Present>,
    /// Of those, the ones that have been asked to leave and have not yet.
    leaving: AtomicUsize,
    /// Requests in flight on all of them.
    requests: AtomicUsize,
    counts: Counts,
    told: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Present {
    next: u64,
    by_number: HashMap<u64, Arc<Presence>>,
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    presence: Arc<Presence>,
}

impl Crowd {
    /// Nobody yet, and room for so many.
    pub(super) fn new(name: &'static str, most: usize, counts: Counts) -> Arc<Self> {
        let (present, told) = (Mutex::default(), Mutex::default());
        let (leaving, requests) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { name, most, present, leaving, requests, counts, told })
    }

    /// A place for a newcomer, if need be somebody else's; none if nobody can leave.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Place> {
        let there = self.present.lock().by_number.len();
        let staying = there.saturating_sub(self.leaving.load(Ordering::SeqCst));
        if staying >= self.most && self.make_room() == 0 {
            self.counts.refused.inc();
            self.tell("newcomers are refused until requests have ended");
            return None;
        }
        let presence = Arc::new(Presence::begin());
        let mut present = self.present.lock();
        let number = present.next;
        present.next += 1;
        present.by_number.insert(number, presence.clone());
        self.counts.open.inc();
        Some(Place { crowd: self.clone(), number, presence })
    }

    /// Asks some of those to leave that have no request in flight. Returns how many were asked.
    pub(super) fn make_room(&self) -> usize {
        let present = self.present.lock();
        let staying = present.by_number.values().filter(|one| !one.is_leaving());
        let idle = staying.filter_map(|one| Some((one.idleness()?, one)));
        let mut idle: Vec<_> = idle.collect();
        let wanted = idle.len().div_ceil(AT_ONCE);
        if wanted == 0 {
            return 0;
        }
        idle.select_nth_unstable_by_key(wanted - 1, |&(idleness, _)| idleness);
        let mut asked = 0;
        for (_, one) in idle.into_iter().take(wanted) {
            if one.ask_to_leave() {
                self.leaving.fetch_add(1, Ordering::SeqCst);
                asked += 1;
            }
        }
        drop(present);
        self.counts.gave_way.inc_by(asked as u64);
        if asked > 0 {
            self.tell("idle ones are closed for newcomers");
        }
        asked
    }

    /// Whether some that were asked to leave have to be waited for.
    pub(super) fn is_over(&self) -> bool {
        self.len() > self.most
    }

    /// How many are there.
    pub(super) fn len(&self) -> usize {
        self.present.lock().by_number.len()
    }

    /// Requests in flight on all of them.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Tells an operator, if that wasn't done lately, that there is no room.
    fn tell(&self, what: &str) {
        if !self.is_time() {
            return;
        }
        let Self { name, most, .. } = self;
        tracing::warn!(
            listener = name,
            connections = self.len(),
            most,
            "the listener is full: {what}; raise the limit on open files if these are wanted"
        );
    }

    /// Whether it is long enough since the last word. The next is due a while after this one.
    pub(super) fn is_time(&self) -> bool {
        let mut told = self.told.lock();
        let now = Instant::now();
        let is_time = told.is_none_or(|told| now.duration_since(told) >= QUIET);
        if is_time {
            *told = Some(now);
        }
        is_time
    }
}

impl Place {
    /// What the connection tells of itself.
    pub(super) fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// A request has come; it is in flight until what this returns is dropped.
    pub(super) fn request(&self) -> InFlight {
        let before = self.crowd.requests.fetch_add(1, Ordering::SeqCst);
        let here = self.presence.request();
        InFlight { crowd: self.crowd.clone(), _here: here, is_beyond: before >= self.crowd.most }
    }

    /// It keeps its place, since a request came after it was asked to leave.
    pub(super) fn keep(&self) {
        if self.presence.stays() {
            self.crowd.leaving.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    crowd: Arc<Crowd>,
    _here: Here,
    is_beyond: bool,
}

impl InFlight {
    /// Whether there are more than connections: over HTTP/2, one can have many, and each of them
    /// wants one to a worker.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.crowd.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Crowd { present, counts, .. } = &*self.crowd;
        present.lock().by_number.remove(&self.number);
        // Under no lock: nobody asks one to leave that isn't there any more.
        self.keep();
        counts.open.dec();
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;
    use crate::telemetry::Metrics;

    fn crowd(most: usize) -> Arc<Crowd> {
        Crowd::new("public", most, Metrics::new().connections("public"))
    }

    #[tokio::test]
    async fn the_one_that_never_asked_for_anything_goes_first_and_then_the_longest_idle() {
        let crowd = crowd(3);
        let places: Vec<_> = (0..3).map(|_| crowd.admit().unwrap()).collect();
        drop(places[0].request());
        let busy = places[1].request();
        let fourth = crowd.admit().unwrap();
        let asked = |place: &Place| {
            futures_util::FutureExt::now_or_never(place.presence().is_asked()).is_some()
        };
        assert!(!asked(&places[0]) && !asked(&places[1]) && asked(&places[2]));
        assert_eq!((crowd.counts.gave_way.get(), crowd.counts.open.get()), (1, 4));
        let [first, second, third] = places.try_into().unwrap();
        drop(third);
        let requests = (fourth.request(), first.request());
        assert!(crowd.admit().is_none(), "all are busy");
        assert_eq!((crowd.counts.refused.get(), crowd.counts.open.get()), (1, 3));
        drop((requests, busy));
        let fifth = crowd.admit().unwrap();
        drop((first, second, fourth, fifth));
        assert_eq!((crowd.len(), crowd.leaving.load(Ordering::SeqCst)), (0, 0));
        assert_eq!(crowd.counts.open.get(), 0);
    }

    #[tokio::test]
    async fn one_that_is_asked_and_has_a_request_by_then_keeps_its_place() {
        let crowd = crowd(1);
        let place = crowd.admit().unwrap();
        let second = crowd.admit().unwrap();
        drop(second);
        assert_eq!(crowd.leaving.load(Ordering::SeqCst), 1);
        let request = place.request();
        place.keep();
        assert!(crowd.admit().is_none());
        drop(request);
        assert!(crowd.admit().is_some());
    }

    #[tokio::test]
    async fn an_operator_is_told_once_a_minute() {
        let crowd = crowd(1);
        assert!(crowd.is_time() && !crowd.is_time());
        *crowd.told.lock() = Instant::now().checked_sub(QUIET);
        assert!(crowd.is_time() && !crowd.is_time());
    }
}
