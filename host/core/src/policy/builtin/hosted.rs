//! The policies that need nothing of the cache: `round-robin`, `random`, `least-loaded`,
//! `power-of-two`, `direct` and `device-aware`. Each is a picker alone, twice: for decisions under the
//! partition's lock, here, and for those made side by side without it.
//!
//! A request whose affinity target is among the rows gets that, past the picker: its turn, where it
//! has one, doesn't move.

pub(super) mod device_aware;
mod side_by_side;

use std::ops::Range;

use serde::Deserialize;

use super::{parameters, pick_lowest};
use crate::clock::Chance;
use crate::fleet::Snapshot;
use crate::ids::WorkerRank;
use crate::policy::candidates::Candidates;
use crate::policy::catalog::PolicyEnvironment;
use crate::policy::declaration::Properties;
use crate::policy::failure::StageError;
use crate::policy::input::Input;
use crate::policy::native::{NativePolicy, WorkerPicker};
use crate::policy::view::RequestView;

/// None of them takes any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

fn stateless() -> Properties {
    Properties { stateless: true, ..Properties::default() }
}

pub(super) fn round_robin(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    let properties = Properties { follows_fleet: true, ..Properties::default() };
    Ok(NativePolicy::new(properties)
        .picker("round-robin", RoundRobin::default())
        .hosted_unguarded(side_by_side::RoundRobin::default()))
}

pub(super) fn random(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless())
        .picker("random", Random)
        .hosted_unguarded(side_by_side::Random))
}

pub(super) fn least_loaded(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless())
        .picker("least-loaded", LeastLoaded)
        .hosted_unguarded(side_by_side::LeastLoaded))
}

pub(super) fn power_of_two(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless())
        .picker("power-of-two", PowerOfTwo)
        .hosted_unguarded(side_by_side::PowerOfTwo))
}

pub(super) fn direct(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless())
        .picker("direct", Direct)
        .hosted_unguarded(side_by_side::Direct))
}

/// The rows that the request's affinity target names, if there are any; they stand together.
fn bound(request: &RequestView<'_>, rows: &Candidates<'_>) -> Option<Range<usize>> {
    let target = request.affinity_target?;
    let ids = rows.identity().unwrap_or_default();
    let first = ids.iter().position(|id| target.matches(*id))?;
    let further = ids.iter().skip(first).take_while(|id| target.matches(**id)).count();
    Some(first..first + further)
}

/// Every worker in turn, and every rank of a worker in its turn: whoever has waited longest.
///
/// A plain cursor is unfair once requests differ in what they may have: it starves a worker that
/// only every other request may have. So each rank's last turn is kept.
#[derive(Debug, Default)]
struct RoundRobin {
    /// The last turn of every rank of the partition, in row order; 0 is never.
    turns: Vec<(WorkerRank, u64)>,
    last: u64,
}

impl WorkerPicker for RoundRobin {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        if request.pinned_worker.is_some() {
            return Ok(0);
        }
        if let Some(bound) = bound(request, rows) {
            return Ok(bound.start + Chance::new(request.moment.seed).below(bound.len()));
        }
        let ids = rows.identity().unwrap_or_default();
        let Some((row, at)) = self.longest_waiting(ids) else {
            // Rows that the fleet didn't announce; everyone among them begins anew.
            self.know(ids);
            return Ok(self.longest_waiting(ids).map_or(0, |(row, at)| self.take_turn(row, at)));
        };
        Ok(self.take_turn(row, at))
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) {
        self.know(&fleet.rows);
    }
}

impl RoundRobin {
    /// The row whose turn it is, and where that rank's last turn is kept. None if some row isn't
    /// known.
    fn longest_waiting(&self, ids: &[WorkerRank]) -> Option<(usize, usize)> {
        // (the worker's last turn, the rank's), the row, and where the rank's turn is kept.
        let mut longest: Option<((u64, u64), usize, usize)> = None;
        let (mut row, mut first) = (0, 0);
        for worker in self.turns.chunk_by(|(a, _), (b, _)| a.worker_id == b.worker_id) {
            let workers_last = worker.iter().map(|(_, turn)| *turn).max().unwrap_or(0);
            for (at, &(rank, turn)) in worker.iter().enumerate() {
                if ids.get(row) != Some(&rank) {
                    continue;
                }
                let waits_since = (workers_last, turn);
                if longest.is_none_or(|(since, ..)| waits_since < since) {
                    longest = Some((waits_since, row, first + at));
                }
                row += 1;
            }
            first += worker.len();
        }
        longest.filter(|_| row == ids.len()).map(|(_, row, at)| (row, at))
    }

    fn take_turn(&mut self, row: usize, at: usize) -> usize {
        self.last += 1;
        if let Some((_, turn)) = self.turns.get_mut(at) {
            *turn = self.last;
        }
        row
    }

    fn know(&mut self, ids: &[WorkerRank]) {
        let turn_of = |rank: &WorkerRank| {
            let found = self.turns.binary_search_by_key(rank, |(rank, _)| *rank);
            found.ok().and_then(|at| self.turns.get(at)).map_or(0, |(_, turn)| *turn)
        };
        self.turns = ids.iter().map(|rank| (*rank, turn_of(rank))).collect();
    }
}

/// Any row, evenly.
#[derive(Debug)]
struct Random;

impl WorkerPicker for Random {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let among = bound(request, rows).unwrap_or(0..rows.rows());
        Ok(among.start + Chance::new(request.moment.seed).below(among.len()))
    }
}

/// The fewest active requests; ties evenly.
#[derive(Debug)]
struct LeastLoaded;

impl WorkerPicker for LeastLoaded {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity, Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let among = bound(request, rows).unwrap_or(0..rows.rows());
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        let requests = requests.get(among.clone()).unwrap_or_default();
        Ok(among.start + pick_lowest(requests, &mut Chance::new(request.moment.seed)))
    }
}

/// The less loaded of two rows drawn at random; the first of them if they are equal.
#[derive(Debug)]
struct PowerOfTwo;

impl WorkerPicker for PowerOfTwo {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity, Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let among = bound(request, rows).unwrap_or(0..rows.rows());
        let count = among.len();
        if count < 2 {
            return Ok(among.start);
        }
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        let mut chance = Chance::new(request.moment.seed);
        let first = chance.below(count);
        // Drawn from the rest, so that it is never the first again.
        let second = (first + 1 + chance.below(count - 1)) % count;
        let (first, second) = (among.start + first, among.start + second);
        Ok(if requests.get(second) < requests.get(first) { second } else { first })
    }
}

/// Where the request says, and nowhere else.
#[derive(Debug)]
struct Direct;

impl WorkerPicker for Direct {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        if request.pinned_worker.is_some() {
            return Ok(0);
        }
        let Some(target) = request.affinity_target else {
            return Err(StageError::refused(
                "the request names no worker; `direct` needs a pin or an affinity target",
            ));
        };
        match bound(request, rows) {
            Some(bound) => Ok(bound.start + Chance::new(request.moment.seed).below(bound.len())),
            None => Err(StageError::refused(format!(
                "worker {target} is not among the eligible workers"
            ))),
        }
    }
}
