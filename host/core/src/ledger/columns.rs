//! The load of a partition's rows, as columns and for display.

use serde::Serialize;

use crate::ids::WorkerRank;

/// The load of one row, for display.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowLoad {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Requests booked and not yet released.
    pub active_requests: u64,
    /// Prompt tokens of requests without a first token.
    pub active_prefill_tokens: u64,
    /// KV blocks of all active requests, each counted once.
    pub active_decode_blocks: u64,
}

/// The load columns of a partition, one value per snapshot row. Counts, exact below 2^53.
#[derive(Debug, Default)]
pub struct Columns {
    /// Requests booked and not yet released.
    pub active_requests: Vec<f64>,
    /// Prompt tokens of requests without a first token, as they were booked. What is left of them at a
    /// moment, where their duration is modelled, is told by [`super::Books::fill_prefill`].
    pub active_prefill_tokens: Vec<f64>,
    /// KV blocks of all active requests: those that several share on the row counted once, and those that
    /// weigh less as a guessed end comes nearer by their weight. The sum is rounded.
    pub active_decode_blocks: Vec<f64>,
}

impl Columns {
    pub(super) fn with_rows(rows: usize) -> Self {
        Self {
            active_requests: vec![0.0; rows],
            active_prefill_tokens: vec![0.0; rows],
            active_decode_blocks: vec![0.0; rows],
        }
    }

    pub(super) fn each(&self) -> [(&'static str, &[f64]); 3] {
        [
            ("active_requests", &self.active_requests),
            ("active_prefill_tokens", &self.active_prefill_tokens),
            ("active_decode_blocks", &self.active_decode_blocks),
        ]
    }
}

/// Adds to a row's value, and returns the sum; never below zero.
pub(super) fn add(column: &mut [f64], row: u32, change: f64) -> f64 {
    let Some(value) = column.get_mut(row as usize) else { return 0.0 };
    *value = (*value + change).max(0.0);
    *value
}
