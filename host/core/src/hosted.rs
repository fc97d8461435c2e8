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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::clock::Moment;
use crate::eligibility::Exclusions;
use crate::ids::DecisionId;
use crate::policy::failure::StageKind;
use crate::receipt::{PolicyLabel, StageTrace};
use crate::request::RouteRequest;

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

/// What was chosen, and from how many.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) row: u32,
    pub(crate) eligible: u32,
    pub(crate) excluded: Exclusions,
    /// What it cost; none for those that many may ask at once, where it is always the same.
    pub(crate) stage: Option<StageTrace>,
}

impl Hosting {
    /// What the choice cost, for the record.
    pub(crate) fn stage(&self, choice: &mut Choice) -> Option<StageTrace> {
        choice.stage.take().or_else(|| match &self.by {
            By::Picker(_, name) => Some(StageTrace {
                name: name.clone(),
                kind: StageKind::Picker,
                fuel: None,
                micros: None,
                failed: None,
                bypassed: false,
            }),
            By::Replicas(_) => None,
        })
    }

    fn choose(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        seating: &Seating,
    ) -> Option<Choice> {
        match &self.by {
            By::Picker(picker, _) => {
                let (ask, excluded) = Ask::of(request, moment, seating)?;
                // A picker that panics is asked under the lock, where that has consequences.
                let chosen = catch_unwind(AssertUnwindSafe(|| picker.choose(&ask)));
                let row = chosen.ok()??;
                Some(Choice { row, eligible: ask.rows.count() as u32, excluded, stage: None })
            }
            By::Replicas(replicas) => replicas.choose(request, decision_id, moment, seating),
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
    /// as if this hadn't been asked.
    #[must_use]
    pub fn choose(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
    ) -> Option<HostedLease> {
        self.place(request, decision_id, moment, |_, _, lease| lease)
    }

    /// The same. `made` is shown what was decided, and over what.
    pub(crate) fn place<T>(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        made: impl FnOnce(&Serving, Choice, HostedLease) -> T,
    ) -> Option<T> {
        for _ in 0..MOST_ATTEMPTS {
            let serving = self.0.serving();
            let serving = serving.as_deref()?;
            let seating = &serving.seating;
            let choice = serving.hosting.choose(request, decision_id, moment, seating)?;
            if let Some(lease) = self.0.book(serving, choice.row) {
                return Some(made(serving, choice, lease));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
