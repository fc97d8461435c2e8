//! When a worker has too much to do: by the router's own count, and by what its engine reports.
//!
//! Owns the thresholds and the rule. A rank is busy while one of its counts is above one of the
//! thresholds that are set; a worker has too much to do while all its ranks are busy. What isn't known
//! makes no rank busy. It doesn't know where counts and reports come from.

use serde::{Deserialize, Serialize};

use super::reports::{LoadReport, LoadReports};
use crate::fleet::{Snapshot, WorkerSpec};
use crate::ledger::Columns;

/// What a worker that didn't say batches at most in one step, in tokens: more than any does, so that
/// a fraction of it is never reached by chance.
pub const UNKNOWN_BATCHED_TOKENS: u64 = 10_000_000;

/// Beyond what a rank is busy. None of them set looks at nothing; one is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyThresholds {
    /// The share of a rank's KV blocks that active requests may have, by the router's count or by the
    /// engine's, whichever is higher; 0 to 1. The router's own is not looked at where the rank's blocks
    /// aren't known.
    #[serde(default)]
    pub active_decode_blocks_threshold: Option<f64>,
    /// Prompt tokens of requests without a first token.
    #[serde(default)]
    pub active_prefill_tokens_threshold: Option<u64>,
    /// The same as a multiple of what the worker batches in one step; at least 0. A worker that didn't
    /// say counts as [`UNKNOWN_BATCHED_TOKENS`].
    #[serde(default)]
    pub active_prefill_tokens_threshold_frac: Option<f64>,
}

impl BusyThresholds {
    /// Whether none is set.
    #[must_use]
    pub fn are_off(&self) -> bool {
        *self == Self::default()
    }

    /// What is out of range, as (key, message). Empty when all is well.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let share = self.active_decode_blocks_threshold;
        if let Some(bad) = share.filter(|share| !(0.0..=1.0).contains(share)) {
            let text = format!("{bad} is out of range; expected 0 to 1");
            problems.push(("active_decode_blocks_threshold", text));
        }
        let multiple = self.active_prefill_tokens_threshold_frac;
        if let Some(bad) = multiple.filter(|frac| !(frac.is_finite() && *frac >= 0.0)) {
            let text = format!("{bad} is out of range; expected a finite number, at least 0");
            problems.push(("active_prefill_tokens_threshold_frac", text));
        }
        problems
    }

    fn is_busy(&self, spec: &WorkerSpec, seen: Seen) -> bool {
        let reported_total = seen.report.and_then(|report| report.total_kv_blocks);
        let total = spec.total_kv_blocks.or(reported_total);
        let decode = self.active_decode_blocks_threshold.is_some_and(|share| {
            total.is_some_and(|total| seen.decode_blocks > share * total as f64)
                || seen.report.is_some_and(|report| report.exceeds(share, spec.total_kv_blocks))
        });
        let most = self.active_prefill_tokens_threshold;
        let batched = spec.max_num_batched_tokens.unwrap_or(UNKNOWN_BATCHED_TOKENS);
        let multiple = self.active_prefill_tokens_threshold_frac;
        decode
            || most.is_some_and(|most| seen.prefill_tokens > most as f64)
            || multiple.is_some_and(|frac| seen.prefill_tokens > (frac * batched as f64).floor())
    }
}

/// What is known of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    decode_blocks: f64,
    prefill_tokens: f64,
    report: Option<LoadReport>,
}

/// Which workers have too much to do. Its buffer is reused.
#[derive(Debug, Default)]
pub struct Overload {
    workers: Vec<bool>,
}

impl Overload {
    /// By the places of the snapshot's workers; empty if none has too much to do.
    #[must_use]
    pub fn workers(&self) -> &[bool] {
        &self.workers
    }

    /// Nobody has.
    pub fn clear(&mut self) {
        self.workers.clear();
    }

    /// Looks at every rank of `snapshot`, whose columns these are.
    pub fn look(
        &mut self,
        thresholds: &BusyThresholds,
        snapshot: &Snapshot,
        columns: &Columns,
        reports: &LoadReports,
        now_ms: u64,
    ) {
        self.workers.clear();
        if thresholds.are_off() {
            return;
        }
        let (mut first, mut any) = (0, false);
        for worker in &snapshot.workers {
            let after = first + worker.spec.data_parallel_size.get() as usize;
            let at = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(0.0);
            let busy = (first..after).all(|row| {
                let rank = snapshot.rows.get(row);
                let report = rank.and_then(|&rank| reports.fresh(rank, worker.epoch, now_ms));
                let seen = Seen {
                    decode_blocks: at(&columns.active_decode_blocks, row),
                    prefill_tokens: at(&columns.active_prefill_tokens, row),
                    report,
                };
                thresholds.is_busy(&worker.spec, seen)
            });
            any |= busy;
            self.workers.push(busy);
            first = after;
        }
        if !any {
            self.workers.clear();
        }
    }
}
