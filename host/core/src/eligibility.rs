//! Which rows a request may have, by the host's rules, before any policy is asked.
//!
//! Owns the rules (allow-list, pins, required taints, availability) and the reasons for what is
//! left out. A policy only ever sees rows that passed here. It doesn't know load or policies.

use serde::Serialize;

use crate::fleet::{Availability, Snapshot, Worker};
use crate::ids::WorkerRank;
use crate::request::{Constraints, RouteRequest};

/// Why a row was left out. In the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// Not in the caller's allow-list.
    NotAllowed,
    /// Not what the request is pinned to.
    NotPinned,
    /// This request has already failed there.
    Tried,
    /// Leaving.
    Draining,
    /// Its probe or a connection failed.
    Unhealthy,
    /// It lacks a required taint.
    MissingTaint,
    /// It has too much to do.
    Overloaded,
}

/// How many rows were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exclusions {
    /// See [`Exclusion::NotAllowed`].
    pub not_allowed: u32,
    /// See [`Exclusion::NotPinned`].
    pub not_pinned: u32,
    /// See [`Exclusion::Tried`].
    pub tried: u32,
    /// See [`Exclusion::Draining`].
    pub draining: u32,
    /// See [`Exclusion::Unhealthy`].
    pub unhealthy: u32,
    /// See [`Exclusion::MissingTaint`].
    pub missing_taint: u32,
    /// See [`Exclusion::Overloaded`].
    pub overloaded: u32,
}

impl Exclusions {
    fn count(&mut self, why: Exclusion) {
        *match why {
            Exclusion::NotAllowed => &mut self.not_allowed,
            Exclusion::NotPinned => &mut self.not_pinned,
            Exclusion::Tried => &mut self.tried,
            Exclusion::Draining => &mut self.draining,
            Exclusion::Unhealthy => &mut self.unhealthy,
            Exclusion::MissingTaint => &mut self.missing_taint,
            Exclusion::Overloaded => &mut self.overloaded,
        } += 1;
    }
}

/// The rows that a request may have, and how many it may not. Its buffer is reused.
#[derive(Debug, Default)]
pub struct Eligibility {
    /// Snapshot rows, ascending.
    pub rows: Vec<u32>,
    /// What was left out.
    pub excluded: Exclusions,
    /// The pinned row, when the pin names a rank or its worker has only one.
    pub pinned: Option<WorkerRank>,
}

impl Eligibility {
    /// Applies the rules to every row of `snapshot`.
    pub fn find(&mut self, snapshot: &Snapshot, request: &RouteRequest) {
        self.rows.clear();
        self.excluded = Exclusions::default();
        self.pinned = None;
        let constraints = &request.constraints;
        let unconstrained = constraints.allowed.is_none()
            && constraints.pinned.is_none()
            && constraints.tried.is_empty()
            && constraints.required_taints.is_empty();
        if unconstrained && snapshot.all_ready {
            self.rows.extend(0..snapshot.rows.len() as u32);
            return;
        }
        let rows = snapshot.rows.iter().zip(&snapshot.worker_of_row);
        for (row, (rank, &worker)) in rows.enumerate() {
            let Some(worker) = snapshot.workers.get(worker as usize) else { continue };
            match exclusion(constraints, worker, *rank) {
                None => self.rows.push(row as u32),
                Some(why) => self.excluded.count(why),
            }
        }
        if constraints.pinned.is_some()
            && let [row] = self.rows[..]
        {
            self.pinned = Some(snapshot.rows[row as usize]);
        }
    }

    /// Why a pinned request got nothing: the first rule, in the order of the rules, that every row
    /// of the pinned worker fails.
    #[must_use]
    pub fn pin_problem(snapshot: &Snapshot, request: &RouteRequest) -> Option<PinProblem> {
        let target = request.constraints.pinned?;
        let found = snapshot.workers.iter().find(|w| w.spec.worker_id == target.worker_id);
        let allowed = request.constraints.allowed.as_ref();
        Some(match (found, allowed) {
            (_, Some(allowed)) if !allowed.contains(&target.worker_id) => PinProblem::NotAllowed,
            (None, _) => PinProblem::NotRoutable,
            (Some(worker), _) => {
                let rank = target.dp_rank.or_else(|| worker.spec.ranks().next())?;
                let rank_exists = worker.spec.ranks().any(|r| r == rank);
                let rank = WorkerRank { worker_id: target.worker_id, dp_rank: rank };
                match exclusion(&request.constraints, worker, rank) {
                    _ if !rank_exists => PinProblem::RankUnavailable,
                    Some(Exclusion::Tried | Exclusion::Draining | Exclusion::Unhealthy) => {
                        PinProblem::WorkerUnavailable
                    }
                    Some(Exclusion::MissingTaint) => PinProblem::TaintsUnsatisfied,
                    Some(Exclusion::Overloaded) => PinProblem::Overloaded,
                    _ => PinProblem::NotRoutable,
                }
            }
        })
    }
}

/// Why a pin can't be honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinProblem {
    /// The caller's allow-list leaves it out.
    NotAllowed,
    /// The partition has no such worker.
    NotRoutable,
    /// It is leaving, unhealthy, or has already failed this request.
    WorkerUnavailable,
    /// It has no such rank.
    RankUnavailable,
    /// It lacks a required taint.
    TaintsUnsatisfied,
    /// It has too much to do.
    Overloaded,
}

impl PinProblem {
    /// The reason in words that follow "worker N …".
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::NotAllowed => "is not in the request's list of allowed workers",
            Self::NotRoutable => "is not registered for this model and group",
            Self::WorkerUnavailable => "is not available now",
            Self::RankUnavailable => "has no such data-parallel rank",
            Self::TaintsUnsatisfied => "lacks a taint that the request requires",
            Self::Overloaded => "has too much to do",
        }
    }
}

fn exclusion(constraints: &Constraints, worker: &Worker, rank: WorkerRank) -> Option<Exclusion> {
    let id = worker.spec.worker_id;
    if constraints.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&id)) {
        Some(Exclusion::NotAllowed)
    } else if constraints.pinned.is_some_and(|target| !target.matches(rank)) {
        Some(Exclusion::NotPinned)
    } else if constraints.tried.contains(&id) {
        Some(Exclusion::Tried)
    } else if worker.availability == Availability::Draining {
        Some(Exclusion::Draining)
    } else if worker.availability == Availability::Unhealthy {
        Some(Exclusion::Unhealthy)
    } else if !constraints.required_taints.is_subset(&worker.spec.taints) {
        Some(Exclusion::MissingTaint)
    } else if worker.availability == Availability::Overloaded {
        Some(Exclusion::Overloaded)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
