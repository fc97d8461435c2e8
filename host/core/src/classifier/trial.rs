//! A trial: a classifier made for a partition is asked about made-up requests, before any real one
//! depends on it.
//!
//! A component that says no to made-up requests isn't broken, and one that fails on them is.

use std::sync::Arc;

use super::facts::{Arrival, ClassifyRequest, LifecycleEvent, LiveRequest};
use super::lifecycles::check;
use super::log::Scribe;
use super::seat::Seat;
use super::spec::{ClassifierSpec, SeatContext, SeatError};
use crate::ids::{DpRank, WorkerId, WorkerRank, WorkerTarget};
use crate::policy::{Cause, StageError};
use crate::request::Session;

/// Its time, in milliseconds.
const NOW_MS: u64 = 1_000;

impl ClassifierSpec {
    /// Makes a classifier as for a partition, and asks it about made-up requests.
    pub(crate) fn try_out(&self, cx: SeatContext<'_>) -> Result<(), SeatError> {
        let class = cx.policy_classes.first().cloned().unwrap_or_default();
        let seat = self.seat(SeatContext { trial: true, ..cx })?;
        // Those that are linked in are trusted, and so is what stands in for one that failed.
        let Some(mut seat) = seat.filter(|seat| seat.digest().is_some()) else { return Ok(()) };
        let mut unread = Scribe::default();
        let worker = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
        let arrivals = [
            made_up("trial-1", &class),
            with_a_session("trial-2", &class),
            pinned("trial-3", &class, worker),
        ];
        for arrival in &arrivals {
            let request = view(arrival);
            let answer = seat.classify(&request, &mut unread);
            let answer = answer.and_then(|verdict| check(&seat, arrival, verdict));
            fails(&seat, "classify", answer)?;
        }
        let other = with_a_session("trial-4", &class);
        let admitted = other.unchanged();
        let live = LiveRequest {
            request: view(&other),
            admitted: &admitted,
            worker: None,
            responding: false,
        };
        let [first, second, third] = &arrivals;
        for event in [
            LifecycleEvent::Inherited(live),
            LifecycleEvent::Admitted(&first.request_id),
            LifecycleEvent::Sent(&first.request_id, worker),
            LifecycleEvent::Responding(&first.request_id),
            LifecycleEvent::Completed(&first.request_id, Some(1_200)),
            LifecycleEvent::Aborted(&second.request_id, None),
            LifecycleEvent::Aborted(&third.request_id, Some(worker)),
            LifecycleEvent::FleetChanged(&[]),
            LifecycleEvent::Tick,
        ] {
            let answer = seat.on_event(&event, NOW_MS, &mut unread);
            fails(&seat, "on-event", answer.map(drop))?;
        }
        Ok(())
    }
}

fn fails(seat: &Seat, call: &'static str, answer: Result<(), StageError>) -> Result<(), SeatError> {
    match answer {
        Err(error) if error.cause != Cause::Refused => Err(SeatError::DryRun {
            classifier_type: seat.classifier_type().to_owned(),
            call,
            error,
        }),
        _ => Ok(()),
    }
}

fn view(arrival: &Arrival) -> ClassifyRequest<'_> {
    let (arrived_at_ms, now_ms) = (NOW_MS, NOW_MS);
    ClassifyRequest { arrival, progress_tokens: 0, arrived_at_ms, now_ms }
}

fn made_up(id: &str, class: &Arc<str>) -> Arrival {
    Arrival::new(id.into(), class.clone(), 1_000)
}

fn with_a_session(id: &str, class: &Arc<str>) -> Arrival {
    let session = Session { id: "trial".into(), parent_id: None, is_final: None, evict: None };
    Arrival { session: Some(session), due_at_ms: Some(NOW_MS + 1_000), ..made_up(id, class) }
}

fn pinned(id: &str, class: &Arc<str>, worker: WorkerRank) -> Arrival {
    let target = WorkerTarget { worker_id: worker.worker_id, dp_rank: None };
    Arrival { pinned_worker: Some(target), ..made_up(id, class) }
}
