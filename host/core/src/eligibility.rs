//! Which rows a request may have, by the host's rules, before any policy is asked.
//!
//! Owns the rules (allow-list, pins, adapters, required taints, availability, overload) and the reasons
//! for what is left out. A policy only ever sees rows that passed here. It doesn't know policies.

mod overload;
mod reports;
mod rules;

use std::fmt;

use serde::Serialize;

use crate::fleet::{Snapshot, Worker};
use crate::ids::{DpRank, WorkerRank};
use crate::request::RouteRequest;

pub use overload::{BusyThresholds, Overload, UNKNOWN_BATCHED_TOKENS};
pub use reports::{LoadReport, LoadReports, MOST_REPORT_AGE_MS};
pub(crate) use rules::Rules;

/// Why a row was left out. In the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// Not in the caller's allow-list.
    NotAllowed,
    /// Not what the request is pinned to.
    NotPinned,
    /// It lacks the request's adapter, which others have.
    WithoutAdapter,
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
    /// See [`Exclusion::WithoutAdapter`].
    pub without_adapter: u32,
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
    pub(crate) fn count(&mut self, why: Exclusion, rows: u32) {
        *match why {
            Exclusion::NotAllowed => &mut self.not_allowed,
            Exclusion::NotPinned => &mut self.not_pinned,
            Exclusion::WithoutAdapter => &mut self.without_adapter,
            Exclusion::Tried => &mut self.tried,
            Exclusion::Draining => &mut self.draining,
            Exclusion::Unhealthy => &mut self.unhealthy,
            Exclusion::MissingTaint => &mut self.missing_taint,
            Exclusion::Overloaded => &mut self.overloaded,
        } += rows;
    }
}

impl fmt::Display for Exclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.not_allowed, "not allowed by the request"),
            (self.not_pinned, "not what it is pinned to"),
            (self.without_adapter, "without its adapter"),
            (self.tried, "already tried"),
            (self.draining, "draining"),
            (self.unhealthy, "unhealthy"),
            (self.missing_taint, "without a required taint"),
            (self.overloaded, "overloaded"),
        ];
        let mut comma = "";
        for (rows, reason) in reasons.into_iter().filter(|(rows, _)| *rows > 0) {
            write!(f, "{comma}{rows} {reason}")?;
            comma = ", ";
        }
        if comma.is_empty() { f.write_str("none is registered") } else { Ok(()) }
    }
}

/// The rows that a request may have, and how many it may not. Its buffer is reused.
#[derive(Debug, Default)]
pub struct Eligibility {
    /// Snapshot rows, ascending.
    pub(crate) rows: Vec<u32>,
    /// What was left out.
    pub excluded: Exclusions,
    /// The pinned row, when the pin names a rank or its worker has only one.
    pub pinned: Option<WorkerRank>,
    /// For how many rows of a snapshot `rows` are all of them, as it stands.
    all: Option<usize>,
}

impl Eligibility {
    /// Applies the rules to every row of `snapshot`, of whose workers these have too much to do; see
    /// [`Overload::workers`].
    pub fn find(&mut self, snapshot: &Snapshot, request: &RouteRequest, overloaded: &[bool]) {
        self.excluded = Exclusions::default();
        self.pinned = None;
        let constraints = &request.constraints;
        if constraints.exclude_nobody() && snapshot.all_ready && overloaded.is_empty() {
            let all = Some(snapshot.rows.len());
            if self.all != all {
                self.all = all;
                self.rows.clear();
                self.rows.extend(0..snapshot.rows.len() as u32);
            }
            return;
        }
        self.all = None;
        self.rows.clear();
        // A worker's rows stand together, and all rules but a pinned rank are about the worker.
        let rules = Rules::of(constraints, snapshot, overloaded);
        let mut first = 0;
        for (at, worker) in snapshot.workers.iter().enumerate() {
            let ranks = worker.spec.data_parallel_size.get();
            let after = first + ranks;
            match rules.exclusion(at, worker) {
                Some(why) => self.excluded.count(why, ranks),
                None => match constraints.pinned.and_then(|target| target.dp_rank) {
                    None => self.rows.extend(first..after),
                    Some(rank) => self.keep_rank(worker, first, rank),
                },
            }
            first = after;
        }
        if constraints.pinned.is_some()
            && let [row] = self.rows[..]
        {
            self.pinned = snapshot.rows.get(row as usize).copied();
        }
    }

    /// Keeps one rank of a worker whose rows begin at `first`.
    fn keep_rank(&mut self, worker: &Worker, first: u32, rank: DpRank) {
        let ranks = worker.spec.data_parallel_size.get();
        let at = rank.0.checked_sub(worker.spec.data_parallel_start_rank);
        let found = at.filter(|&at| at < ranks);
        self.rows.extend(found.map(|at| first + at));
        let others = ranks - u32::from(found.is_some());
        self.excluded.count(Exclusion::NotPinned, others);
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
            Self::NotAllowed => {
                "is not in the request's list of allowed workers; name one that is, or allow it"
            }
            Self::NotRoutable => {
                "is not registered for this model and group; name one that is, or leave the choice to the router"
            }
            Self::WorkerUnavailable => {
                "is not available now; try again later, or leave the choice to the router"
            }
            Self::RankUnavailable => {
                "has no such data-parallel rank; name one that it has, or leave the rank out"
            }
            Self::TaintsUnsatisfied => {
                "lacks a taint that the request requires; name one that has it, or don't require it"
            }
            Self::Overloaded => {
                "has too much to do; try again later, or leave the choice to the router"
            }
        }
    }
}

#[cfg(test)]
mod tests;
