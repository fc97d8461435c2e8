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
    pub(crate) stream: Stream,
}

/// Which of the decision's random streams a stage draws from. The picker's is the seed itself,
/// since a host without a guest picker breaks ties with that stream too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Filter(usize),
    Scorer(usize),
    Picker,
}

impl Stream {
    #[inline]
    pub(crate) fn of(self, seed: u64) -> Random {
        match self {
            Self::Filter(index) => Random::stream(seed, index as u64 * 2 + 1),
            Self::Scorer(index) => Random::stream(seed, index as u64 * 2 + 2),
            Self::Picker => Random::new(seed),
        }
    }
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
        self.stream.of(self.request.seed)
    }
}
