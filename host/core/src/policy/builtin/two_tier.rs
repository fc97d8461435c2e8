//! `two-tier`: the longest prefix while load is balanced, the least loaded worker while it isn't.
//!
//! Load is active requests. Three rules, in order:
//!
//! 1. If the most loaded row has more requests than the least loaded by more than
//!    `balance_abs_threshold`, and more than `balance_rel_threshold` times as many: the least loaded.
//! 2. Else, if the row with most of the prompt on its device has more than `cache_threshold` of it:
//!    that one; of several that have as much, the least loaded.
//! 3. Else the least loaded.

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

/// The parameters.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TwoTierParameters {
    /// 0 to 1.
    cache_threshold: f64,
    /// At least 0.
    balance_abs_threshold: f64,
    /// At least 1.
    balance_rel_threshold: f64,
}

impl Default for TwoTierParameters {
    fn default() -> Self {
        Self { cache_threshold: 0.5, balance_abs_threshold: 32.0, balance_rel_threshold: 1.1 }
    }
}

impl TwoTierParameters {
    fn check(self) -> Result<Self, String> {
        let ranges = [
            ("cache_threshold", self.cache_threshold, 0.0..=1.0, "0 to 1"),
            (
                "balance_abs_threshold",
                self.balance_abs_threshold,
                0.0..=f64::MAX,
                "a finite number, at least 0",
            ),
            (
                "balance_rel_threshold",
                self.balance_rel_threshold,
                1.0..=f64::MAX,
                "a finite number, at least 1",
            ),
        ];
        match ranges.into_iter().find(|(_, value, range, _)| !range.contains(value)) {
            None => Ok(self),
            Some((key, value, _, range)) => {
                Err(format!("{key}: {value} is out of range; expected {range}"))
            }
        }
    }
}

pub(super) fn build(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let parameters = parameters::<TwoTierParameters>(environment)?.check()?;
    let properties = Properties { stateless: true, ..Properties::default() };
    Ok(NativePolicy::new(properties)
        .picker("two-tier", TwoTier { parameters, loads: Vec::new(), rows: Vec::new() }))
}

/// The picker.
#[derive(Debug)]
struct TwoTier {
    parameters: TwoTierParameters,
    // Buffers: the loads of the rows with the longest prefix, and which those are.
    loads: Vec<f64>,
    rows: Vec<usize>,
}

impl WorkerPicker for TwoTier {
    fn inputs(&self) -> &[Input] {
        &[Input::ActiveRequests, Input::DeviceOverlapBlocks]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let TwoTierParameters { cache_threshold, balance_abs_threshold, balance_rel_threshold } =
            self.parameters;
        let loads = rows.column(Input::ActiveRequests).unwrap_or_default();
        let overlaps = rows.column(Input::DeviceOverlapBlocks).unwrap_or_default();
        let most = |column: &[f64]| column.iter().copied().fold(0.0, f64::max);
        let (busiest, least) = (most(loads), loads.iter().copied().fold(f64::INFINITY, f64::min));
        let unbalanced =
            busiest - least > balance_abs_threshold && busiest > balance_rel_threshold * least;
        let longest = most(overlaps);
        let share =
            if request.request_blocks == 0 { 0.0 } else { longest / request.request_blocks as f64 };
        let mut chance = Chance::new(request.moment.seed);
        if unbalanced || share <= cache_threshold {
            return Ok(pick_lowest(loads, &mut chance));
        }
        self.loads.clear();
        self.rows.clear();
        for (row, (&load, &overlap)) in loads.iter().zip(overlaps).enumerate() {
            if overlap == longest {
                self.loads.push(load);
                self.rows.push(row);
            }
        }
        let at = pick_lowest(&self.loads, &mut chance);
        Ok(self.rows.get(at).copied().unwrap_or(0))
    }
}
