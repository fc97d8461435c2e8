//! Decisions without the partition's lock: for policies that are a picker alone, and read nothing but
//! who the workers are and how many requests each carries.
//!
//! Owns the counters of what is booked so ([`Seats`]), the rows made ready for it ([`Seating`]), and
//! the way of such a decision: one atomic load of what is in place, a choice, a counter. No queue, no
//! lock, and no memory per request. Threads that decide at the same time share no cache line, as long
//! as there are no more of them than [`STRIPES`].
//!
//! It doesn't know when a decision may be made so: that is the partition's to say. What is booked here
//! is part of each row's active requests, and of nothing else: prompts and blocks are neither
//! booked nor predicted.

mod counts;
mod picker;
mod replicas;
mod seating;
mod seats;
mod stripes;

use std::sync::Arc;

use crate::clock::Moment;
use crate::eligibility::Exclusions;
use crate::ids::DecisionId;
use crate::policy::failure::StageKind;
use crate::receipt::{PolicyLabel, StageTrace};
use crate::request::RouteRequest;

pub(crate) use picker::Guarded;
pub use picker::{Ask, HostedPicker, Passing, Rows};
pub use replicas::Replicas;
pub use seating::Seating;
pub(crate) use seats::Serving;
pub use seats::{HostedLease, Seats};
pub(crate) use stripes::Padded;
pub use stripes::STRIPES;

/// How often a choice is made again because the fleet or the policy changed while it was made.
const MOST_ATTEMPTS: usize = 4;

/// A policy that can decide side by side.
#[derive(Debug)]
pub(crate) struct Hosting {
    pub(crate) label: PolicyLabel,
    pub(crate) by: By,
}

/// What decides.
#[derive(Debug)]
pub(crate) enum By {
    /// A picker that many may ask at once, and the stage's name.
    Picker(Arc<dyn HostedPicker>, Arc<str>),
    /// Several instances, each of which is asked by one at a time.
    Replicas(Replicas),
}

/// What there is to tell of a choice, for the record.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) eligible: u32,
    pub(crate) excluded: Exclusions,
    pub(crate) stage: Option<StageTrace>,
}

impl Hosting {
    /// Whether its choice is the same whatever the prompt is. A replica may go by its length.
    fn reads_no_prompt(&self) -> bool {
        matches!(self.by, By::Picker(..))
    }

    /// Chooses a row, and tells of it whoever wants to know: most of a decision's time would be spent
    /// on that.
    #[inline]
    fn choose(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        seating: &Seating,
        told: Option<&mut Told>,
    ) -> Option<u32> {
        match &self.by {
            By::Picker(picker, name) => {
                let ask = Ask::of(request, moment, seating)?;
                let row = picker.choose(&ask)?;
                if let Some(told) = told {
                    told.eligible = ask.rows.count() as u32;
                    told.excluded = ask.excluded();
                    told.stage = Some(StageTrace {
                        name: name.clone(),
                        kind: StageKind::Picker,
                        fuel: None,
                        micros: None,
                        failed: None,
                        detail: None,
                        bypassed: false,
                    });
                }
                Some(row)
            }
            By::Replicas(replicas) => replicas.choose(request, decision_id, moment, seating, told),
        }
    }
}

/// A partition's way past its lock.
#[derive(Clone, Copy, Debug)]
pub struct Hosted<'a>(&'a Seats);

impl<'a> Hosted<'a> {
    pub(crate) fn of(seats: &'a Seats) -> Self {
        Self(seats)
    }

    /// Chooses and books. None where that can't be done without the partition's lock: no policy
    /// decides so here, this request is none of its, or there is no worker for it. The caller decides
    /// as if this hadn't been asked. It isn't among the partition's counts; what
    /// [`crate::router::Router::route`] decides by the same way is.
    #[must_use]
    pub fn choose(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
    ) -> Option<HostedLease> {
        for _ in 0..MOST_ATTEMPTS {
            let serving = self.0.serving();
            let Serving { hosting, seating, .. } = serving.as_deref()?;
            let row = hosting.choose(request, decision_id, moment, seating, None)?;
            if let Some(lease) = self.0.book(serving.as_deref()?, row) {
                return Some(lease);
            }
        }
        None
    }

    /// The same. `made` is shown what was decided, and over what.
    pub(crate) fn place<T>(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        made: impl FnOnce(&Serving, u32, Told, HostedLease) -> T,
    ) -> Option<T> {
        for _ in 0..MOST_ATTEMPTS {
            let serving = self.0.serving();
            let serving = serving.as_deref()?;
            let mut told = Told::default();
            let Serving { hosting, seating, .. } = serving;
            let row = hosting.choose(request, decision_id, moment, seating, Some(&mut told))?;
            if let Some(lease) = self.0.book(serving, row) {
                return Some(made(serving, row, told, lease));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
