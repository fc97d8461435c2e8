//! What a stage knows besides its rows: the request, the partition, and chance.

use crate::random::Random;
use crate::request::{Partition, Request};

/// The circumstances of one call.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Facts about the request.
    pub request: &'a Request,
    /// What the instance serves.
    pub partition: &'a Partition,
    pub(crate) prefix_hashes: &'a [u64],
    pub(crate) random: &'a Random,
}

impl<'a> Context<'a> {
    /// Tokens in one KV block; never zero.
    pub fn block_size(&self) -> f64 {
        f64::from(self.partition.block_size)
    }

    /// Chained hashes of the prompt's leading blocks, first block first: as many as the policy
    /// asked for with [`Stages::prefix_hash_blocks`](crate::Stages::prefix_hash_blocks) and the
    /// prompt has.
    pub fn prefix_hashes(&self) -> &'a [u64] {
        self.prefix_hashes
    }

    /// A generator that the decision's seed decides.
    ///
    /// Every call of this function starts the same stream anew, so a stage asks once and keeps the
    /// generator for the call. The picker's stream starts at the seed itself; each filter and each
    /// scorer has its own.
    pub fn random(&self) -> Random {
        self.random.clone()
    }
}
