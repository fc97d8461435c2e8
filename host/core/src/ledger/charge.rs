//! What a request adds to the row that it is booked on.

use std::sync::Arc;

use super::growth::Growth;

/// The most tokens or blocks that one booking charges: far above any request, and low enough that
/// thousands of them at once stay exact in a column of doubles.
pub const MAX_CHARGE: u64 = 1 << 40;

/// The KV blocks of a prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct PromptBlocks<'a> {
    chain: Option<&'a Arc<[u64]>>,
    count: u64,
}

impl<'a> PromptBlocks<'a> {
    /// So many blocks that no other request shares.
    #[must_use]
    pub fn own(count: u64) -> Self {
        Self { chain: None, count: count.min(MAX_CHARGE) }
    }

    /// So many blocks, of which those with a sequence hash are shared with whoever begins alike. Hashes
    /// past the count are left out.
    #[must_use]
    pub fn shared(chain: &'a Arc<[u64]>, count: u64) -> Self {
        Self { chain: Some(chain), ..Self::own(count) }
    }

    /// All of them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The hashes of those that may be shared.
    #[must_use]
    pub fn hashes(&self) -> &'a [u64] {
        let Some((chain, blocks)) = self.chain() else { return &[] };
        chain.get(..blocks).unwrap_or(chain)
    }

    /// The chain, and how many of its hashes count.
    pub(super) fn chain(&self) -> Option<(&'a Arc<[u64]>, usize)> {
        let most = u32::MAX as usize;
        let count = usize::try_from(self.count).unwrap_or(most).min(most);
        self.chain.map(|chain| (chain, chain.len().min(count))).filter(|(_, blocks)| *blocks > 0)
    }

    /// How many have no hash.
    pub(super) fn rest(&self) -> u64 {
        self.count - self.hashes().len() as u64
    }
}

/// What a request adds to the row that it is booked on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charge<'a> {
    /// Prompt tokens to be computed; given back at the first token. At most [`MAX_CHARGE`].
    pub prefill_tokens: u64,
    /// How long that is expected to take, in milliseconds; none if that isn't known.
    pub prefill_ms: Option<f64>,
    /// KV blocks of its prompt, held until its end.
    pub prompt: PromptBlocks<'a>,
    /// How its blocks grow with its output; none if only the prompt's count.
    pub growth: Option<Growth>,
}
