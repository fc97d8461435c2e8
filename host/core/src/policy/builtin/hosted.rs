//! The policies that need nothing of the cache: `round-robin`, `random`, `least-loaded`,
//! `power-of-two` and `direct`. Each is a picker alone.

use serde::Deserialize;

use super::{parameters, pick_lowest};
use crate::clock::Chance;
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
    Ok(NativePolicy::new(Properties::default()).picker("round-robin", RoundRobin { next: 0 }))
}

pub(super) fn random(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless()).picker("random", Random))
}

pub(super) fn least_loaded(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless()).picker("least-loaded", LeastLoaded))
}

pub(super) fn power_of_two(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless()).picker("power-of-two", PowerOfTwo))
}

pub(super) fn direct(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let NoParameters {} = parameters(environment)?;
    Ok(NativePolicy::new(stateless()).picker("direct", Direct))
}

/// Every row in turn. A pinned request doesn't move the turn.
#[derive(Debug)]
struct RoundRobin {
    next: u64,
}

impl WorkerPicker for RoundRobin {
    fn inputs(&self) -> &[Input] {
        &[]
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
        let row = self.next % rows.rows() as u64;
        self.next = self.next.wrapping_add(1);
        Ok(row as usize)
    }
}

/// Any row, evenly.
#[derive(Debug)]
struct Random;

impl WorkerPicker for Random {
    fn inputs(&self) -> &[Input] {
        &[]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        Ok(Chance::new(request.moment.seed).below(rows.rows()))
    }
}

/// The fewest active requests; ties evenly.
#[derive(Debug)]
struct LeastLoaded;

impl WorkerPicker for LeastLoaded {
    fn inputs(&self) -> &[Input] {
        &[Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        Ok(pick_lowest(requests, &mut Chance::new(request.moment.seed)))
    }
}

/// The less loaded of two rows drawn at random; the first of them if they are equal.
#[derive(Debug)]
struct PowerOfTwo;

impl WorkerPicker for PowerOfTwo {
    fn inputs(&self) -> &[Input] {
        &[Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        let count = rows.rows();
        if count < 2 || requests.len() != count {
            return Ok(0);
        }
        let mut chance = Chance::new(request.moment.seed);
        let first = chance.below(count);
        // Drawn from the rest, so that it is never the first again.
        let second = (first + 1 + chance.below(count - 1)) % count;
        Ok(if requests[second] < requests[first] { second } else { first })
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
        let ids = rows.identity().unwrap_or_default();
        ids.iter().position(|id| target.matches(*id)).ok_or_else(|| {
            StageError::refused(format!("worker {target} is not among the eligible workers"))
        })
    }
}
