//! What one row holds of a prompt, and what that is worth.

use std::ops::Range;

use crate::index::Tier;
use crate::policy::settings::RouterSettings;

/// What a row holds of a prompt, in blocks: the leading ones on the device, then those that follow
/// in each slower tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct RowOverlap {
    /// In the device's memory, or predicted to be.
    pub device_blocks: u64,
    /// In the host's.
    pub host_blocks: u64,
    /// On its disk.
    pub disk_blocks: u64,
    /// In an external store.
    pub external_blocks: u64,
    /// All of them, weighted by tier.
    pub effective_blocks: f64,
}

impl RowOverlap {
    /// So many blocks on the device, and so many in each slower tier.
    pub(super) fn of_blocks(
        settings: &RouterSettings,
        device_blocks: u64,
        lower: [u64; Tier::COUNT - 1],
    ) -> Self {
        let [host_blocks, disk_blocks, external_blocks] = lower;
        let mut effective_blocks = device_blocks as f64;
        for ((_, weight), blocks) in lower_weights(settings).into_iter().zip(lower) {
            effective_blocks += blocks as f64 * weight;
        }
        Self { device_blocks, host_blocks, disk_blocks, external_blocks, effective_blocks }
    }

    /// Prompt tokens that the engine needn't compute, as far as is known: whole blocks of the
    /// device and the host's tiers, and never the last token, which an engine computes always.
    #[must_use]
    pub fn usable_tokens(&self, prompt_tokens: u64, block_size: u32) -> u64 {
        let size = u64::from(block_size.max(1));
        let usable = prompt_tokens.saturating_sub(1) / size;
        self.raw_blocks().min(usable) * size
    }

    /// Prompt tokens that the row is expected to compute, blocks counted by what they are worth: what a
    /// booking charges as prefill.
    #[must_use]
    pub fn uncached_tokens(&self, prompt_tokens: u64, block_size: u32) -> u64 {
        let cached = (self.effective_blocks * f64::from(block_size)).round() as u64;
        prompt_tokens.saturating_sub(cached)
    }

    /// Blocks of all tiers, none weighted.
    #[must_use]
    pub fn raw_blocks(&self) -> u64 {
        self.device_blocks + self.host_blocks + self.disk_blocks + self.external_blocks
    }
}

/// What a block of each tier below the device's weighs.
pub(super) fn lower_weights(settings: &RouterSettings) -> [(Tier, f64); Tier::COUNT - 1] {
    let (host, disk) = (settings.host_cache_hit_weight, settings.disk_cache_hit_weight);
    [(Tier::Host, host), (Tier::Disk, disk), (Tier::External, disk)]
}

/// How many blocks of sorted, half-open ranges of positions stand at `position` or behind it.
#[must_use]
pub fn shared_beyond(hits: &[Range<u32>], position: u32) -> u64 {
    let beyond = |hit: &Range<u32>| u64::from(hit.end.saturating_sub(hit.start.max(position)));
    hits.iter().map(beyond).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_blocks_count_from_where_the_device_ends() {
        let hits = [2..5, 8..10];
        let counts = [0, 2, 3, 5, 9, 10, 11].map(|position| shared_beyond(&hits, position));
        assert_eq!(counts, [5, 5, 4, 2, 1, 0, 0]);
        assert_eq!(shared_beyond(&[], 0), 0);
    }

    #[test]
    fn the_last_token_is_never_taken_from_a_cache() {
        let overlap = RowOverlap { device_blocks: 3, host_blocks: 1, ..RowOverlap::default() };
        let tokens = [0, 1, 16, 17, 64, 65, 1000].map(|tokens| overlap.usable_tokens(tokens, 16));
        assert_eq!(tokens, [0, 0, 0, 16, 48, 64, 64]);
    }
}
