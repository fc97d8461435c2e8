//! A classifier's answers: asked for, checked, and made to count.

use std::num::NonZeroU64;

use super::{Lifecycles, Stage};
use crate::classifier::error::ClassificationError;
use crate::classifier::facts::{Admission, Admitted, Arrival, LifecycleEvent, Release, Verdict};
use crate::classifier::seat::Seat;
use crate::policy::{Cause, OnFailure, StageError};

impl Lifecycles {
    /// Asks about a request that is there and isn't held: a new one, or one that was just taken out
    /// to be offered again.
    pub(super) fn offer(&mut self, generation: u64, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(&generation) else { return };
        let was_held = matches!(entry.stage, Stage::Held);
        let Some(seat) = &mut self.seat else { return };
        entry.known = seat.is_there();
        self.counts.classified += u64::from(entry.known);
        let answer = seat.classify(&entry.view(now_ms), &mut self.scribe);
        let room = self.held.len() < seat.declaration().most_held as usize;
        let stage = answer.and_then(|verdict| staged(seat, &entry.arrival, verdict, room));
        let (place, due) = (entry.place(), entry.arrival.due_at_ms);
        let (failure, stage) = match stage {
            Ok(stage) => (None, stage),
            Err(error) => {
                let stage = if self.bench.leaves_to_another(seat, now_ms) {
                    Stage::Held
                } else {
                    self.counts.unclassified += 1;
                    without(seat, &entry.arrival, error.cause)
                };
                (Some(error), stage)
            }
        };
        match &stage {
            Stage::Held => {
                self.counts.held += u64::from(!was_held);
                self.held.insert(place, due);
            }
            Stage::Admitted(_) if failure.is_none() && was_held => self.counts.released += 1,
            Stage::Admitted(_) => self.counts.admitted += u64::from(failure.is_none()),
            Stage::Refused(_) => self.counts.rejected += u64::from(failure.is_none()),
        }
        let admitted = matches!(stage, Stage::Admitted(_));
        if was_held && !matches!(stage, Stage::Held) {
            // Held as far as anybody knows, until it is settled.
            self.held.insert(place, due);
            self.settle(generation, stage);
        } else if let Some(entry) = self.entries.get_mut(&generation) {
            entry.stage = stage;
        }
        // Who isn't there was not asked, and has nothing to answer for.
        let asked = failure.as_ref().is_none_or(|error| error.cause != Cause::Unavailable);
        if !asked {
            self.counts.failed(Cause::Unavailable);
        }
        if asked && !self.judge(failure.as_ref(), now_ms) && failure.is_some() && admitted {
            self.tell_admitted(generation, now_ms);
        }
    }

    /// Tells the classifier, and does what it answers.
    pub(super) fn tell(&mut self, event: &LifecycleEvent<'_>, now_ms: u64) {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.is_there()) else { return };
        let answer = seat.on_event(event, now_ms, &mut self.scribe);
        self.take_answer(answer, now_ms);
    }

    /// Each release counts by itself: one that can't be done keeps no other waiting.
    pub(super) fn take_answer(&mut self, answer: Result<Vec<Release>, StageError>, now_ms: u64) {
        let mut failure = None;
        match answer {
            Err(error) => failure = Some(error),
            Ok(releases) => {
                for release in releases {
                    if let Err(error) = self.release(release) {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        self.judge(failure.as_ref(), now_ms);
    }

    fn release(&mut self, Release { request_id, verdict }: Release) -> Result<(), StageError> {
        let held = self.ids.get(&request_id).and_then(|generation| self.entries.get(generation));
        let Some(entry) = held.filter(|entry| matches!(entry.stage, Stage::Held)) else {
            let id: String = request_id.chars().take(64).collect();
            return Err(StageError::bad_output(format!("released {id:?}, which isn't held")));
        };
        let Some(seat) = &self.seat else { return Ok(()) };
        let generation = entry.life.generation;
        let (stage, failure) = match staged(seat, &entry.arrival, verdict, true) {
            Ok(Stage::Held) => return Ok(()),
            Ok(stage) => (stage, None),
            Err(error) => {
                if self.bench.has_before() {
                    // It is offered to that one.
                    return Err(error);
                }
                (without(seat, &entry.arrival, error.cause), Some(error))
            }
        };
        let count = match (&stage, &failure) {
            (_, Some(_)) => &mut self.counts.unclassified,
            (Stage::Admitted(_), None) => &mut self.counts.released,
            _ => &mut self.counts.rejected,
        };
        *count += 1;
        self.settle(generation, stage);
        failure.map_or(Ok(()), Err)
    }

    /// Takes note of how a call went. Returns whether the instance is lost by that: then all that is
    /// held is admitted, or kept for the version before.
    fn judge(&mut self, failure: Option<&StageError>, now_ms: u64) -> bool {
        let Some(seat) = &mut self.seat else { return false };
        let lost = seat.judge(failure, now_ms, &mut self.counts);
        if failure.is_none() {
            self.bench.proves(seat);
        } else if !self.stand_in() && lost {
            self.let_go();
        }
        lost
    }
}

/// What becomes of a request that the classifier failed on, and nobody else is asked about.
fn without(seat: &Seat, arrival: &Arrival, cause: Cause) -> Stage {
    match seat.on_failure() {
        OnFailure::Reject => Stage::Refused(ClassificationError::Failed(cause)),
        // To leave a classifier out is to admit what it would be asked about.
        OnFailure::Default | OnFailure::Skip | OnFailure::LastGood => {
            Stage::Admitted(arrival.unchanged())
        }
    }
}

/// Whether a verdict about a request is one.
pub(in crate::classifier) fn check(
    seat: &Seat,
    arrival: &Arrival,
    verdict: Verdict,
) -> Result<(), StageError> {
    match verdict {
        Verdict::Admit(admission) => checked(seat, arrival, admission).map(drop),
        Verdict::Hold | Verdict::Reject(_) => Ok(()),
    }
}

/// What a verdict means for a request, if it is one; `room` is whether another one may be held.
fn staged(
    seat: &Seat,
    arrival: &Arrival,
    verdict: Verdict,
    room: bool,
) -> Result<Stage, StageError> {
    match verdict {
        Verdict::Admit(admission) => Ok(Stage::Admitted(checked(seat, arrival, admission)?)),
        Verdict::Hold if room => Ok(Stage::Held),
        Verdict::Hold => {
            let most = seat.declaration().most_held;
            let text = format!("held one request more than the {most} that it declared");
            Err(StageError::bad_output(text))
        }
        Verdict::Reject(why) => {
            let why: String = why.chars().take(500).collect();
            tracing::info!(
                classifier_type = seat.classifier_type(),
                request_id = &*arrival.request_id,
                ?why,
                "the request classifier refuses a request"
            );
            Ok(Stage::Refused(ClassificationError::Rejected))
        }
    }
}

fn checked(seat: &Seat, arrival: &Arrival, admission: Admission) -> Result<Admitted, StageError> {
    admission.check(seat.policy_classes())?;
    let unchanged = arrival.unchanged();
    let cost = admission.scheduling_cost_tokens.and_then(NonZeroU64::new);
    Ok(Admitted {
        policy_class: admission.policy_class.unwrap_or(unchanged.policy_class),
        due_at_ms: admission.due_at_ms.or(unchanged.due_at_ms),
        scheduling_cost_tokens: cost.unwrap_or(unchanged.scheduling_cost_tokens),
        selection_target: admission.selection_target.filter(|_| arrival.pinned_worker.is_none()),
    })
}
