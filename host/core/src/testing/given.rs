//! Choosing from loads and caches that are given, instead of having come about: for benches, which compare
//! choices over the same inputs, and for tests of policies.
//!
//! It owns how they are put into a partition. The choice is the partition's own: the host's rules, the
//! columns, the policy and the checks of its answer, as in a decision; but nothing is looked up in
//! caches before, and nothing booked afterwards.

use std::sync::Arc;

use crate::clock::Moment;
use crate::error::RouteError;
use crate::ids::DecisionId;
use crate::partition::Partition;
use crate::policy::RouterSettings;
use crate::policy::pipeline::Selected;
use crate::request::RouteRequest;

/// What one row carries, and holds of the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GivenRow {
    /// Requests.
    pub active_requests: u32,
    /// Prompt tokens that wait for a first token.
    pub active_prefill_tokens: u64,
    /// KV blocks.
    pub active_decode_blocks: u64,
    /// The weighted estimate of what it holds of the prompt, in blocks, without anything being known of
    /// the tiers.
    pub effective_overlap_blocks: f64,
}

/// A partition with given rows. Nothing is to be booked in it: its ledger would count wrong.
#[derive(Debug)]
pub struct Given {
    partition: Arc<Partition>,
    settings: Arc<RouterSettings>,
}

impl Given {
    /// The partition with these rows, in its order; what is left out is 0.
    #[must_use]
    pub fn new(
        partition: Arc<Partition>,
        settings: Arc<RouterSettings>,
        rows: &[GivenRow],
    ) -> Self {
        for (row, given) in rows.iter().enumerate() {
            partition.ledger().impose(|columns| {
                let values = [
                    (&mut columns.active_requests, f64::from(given.active_requests)),
                    (&mut columns.active_prefill_tokens, given.active_prefill_tokens as f64),
                    (&mut columns.active_decode_blocks, given.active_decode_blocks as f64),
                ];
                for (column, value) in values {
                    column.get_mut(row).into_iter().for_each(|to| *to = value);
                }
            });
        }
        let mut effective: Vec<f64> = rows.iter().map(|row| row.effective_overlap_blocks).collect();
        effective.resize(partition.ledger().snapshot().rows.len(), 0.0);
        partition.hold().give_caches(effective);
        Self { partition, settings }
    }

    /// A row carries another number of prompt tokens from now on.
    pub fn set_prefill_tokens(&self, row: usize, tokens: u64) {
        self.partition.ledger().impose(|columns| {
            let column = columns.active_prefill_tokens.get_mut(row);
            column.into_iter().for_each(|to| *to = tokens as f64);
        });
    }

    /// The row that the partition's policy chooses, or whoever stands in for it; none if the fleet
    /// changed meanwhile.
    pub fn choose(
        &self,
        request: &RouteRequest,
        moment: Moment,
    ) -> Result<Option<Selected>, RouteError> {
        self.partition.choose(request, &self.settings, DecisionId(moment.seed), moment)
    }
}
