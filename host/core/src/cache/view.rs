//! The caches as one decision sees them.
//!
//! Owns the columns of one look-up, filled once for all stages that ask, and reused by the next
//! decision. It doesn't know which columns a policy reads.

use super::row::{RowOverlap, lower_weights};
use super::{PartitionCache, RouterSettings};
use crate::fleet::Snapshot;
use crate::index::{Overlap, Tier};

/// The caches as one decision sees them: columns by row, filled once for all that ask.
#[derive(Debug, Default)]
pub struct CacheView {
    told: Overlap,
    predicted: Overlap,
    /// The device's column: the larger of what is told and what is predicted.
    device: Vec<f64>,
    effective: Vec<f64>,
    filled: bool,
    /// Whether anything else is estimated, without anything being known of it.
    given: bool,
}

impl CacheView {
    /// Caches of which nothing but these estimates are known, one for each row.
    pub(crate) fn given(effective: Vec<f64>) -> Self {
        let mut view = Self { effective, filled: true, given: true, ..Self::default() };
        view.told.clear(view.effective.len());
        view.predicted.clear(view.effective.len());
        view.device.resize(view.effective.len(), 0.0);
        view
    }

    /// Nothing is known of the next decision.
    pub(crate) fn forget(&mut self) {
        (self.filled, self.given) = (false, false);
    }

    /// Looks a prompt up, unless that was done for this decision.
    pub(crate) fn fill(
        &mut self,
        cache: &PartitionCache,
        settings: &RouterSettings,
        chain: &[u64],
        snapshot: &Snapshot,
    ) {
        if std::mem::replace(&mut self.filled, true) {
            return;
        }
        if self.look(cache, settings, chain, snapshot) {
            cache.activity.asked(self.told.any());
        }
    }

    /// Looks a prompt up that isn't decided yet. It isn't counted: it will be, when it is decided.
    pub(crate) fn look_ahead(
        &mut self,
        cache: &PartitionCache,
        settings: &RouterSettings,
        chain: &[u64],
        snapshot: &Snapshot,
    ) {
        self.filled = true;
        self.look(cache, settings, chain, snapshot);
    }

    /// Returns whether what engines told was asked.
    fn look(
        &mut self,
        cache: &PartitionCache,
        settings: &RouterSettings,
        chain: &[u64],
        snapshot: &Snapshot,
    ) -> bool {
        let rows = snapshot.rows.len();
        let asked = !chain.is_empty() && settings.use_kv_events;
        if asked {
            cache.index.look_up(chain, snapshot, &mut self.told);
        } else {
            self.told.clear(rows);
        }
        self.device.clear();
        self.device.extend_from_slice(self.told.blocks(Tier::Device));
        if chain.is_empty() || cache.predictions.is_empty() {
            self.predicted.clear(rows);
        } else {
            cache.predictions.look_up(chain, snapshot, &mut self.predicted);
            let predicted = self.predicted.blocks(Tier::Device);
            self.device.iter_mut().zip(predicted).for_each(|(to, &blocks)| *to = to.max(blocks));
        }
        self.effective.clear();
        self.effective.extend_from_slice(&self.device);
        for (tier, weight) in lower_weights(settings) {
            if weight != 0.0 {
                let blocks = self.told.blocks(tier);
                self.effective.iter_mut().zip(blocks).for_each(|(to, &b)| *to += b * weight);
            }
        }
        asked
    }

    /// Whether any row holds anything of the prompt.
    #[must_use]
    pub fn any(&self) -> bool {
        self.told.any() || self.predicted.any()
    }

    /// Whether any row's estimate may be other than 0.
    #[must_use]
    pub fn estimates(&self) -> bool {
        self.given || self.any()
    }

    /// Leading blocks in each row's device memory.
    #[must_use]
    pub fn device(&self) -> &[f64] {
        &self.device
    }

    /// Blocks of a tier below the device's that follow; empty where no such tier holds anything.
    #[must_use]
    pub fn lower(&self, tier: Tier) -> &[f64] {
        self.told.blocks(tier)
    }

    /// The weighted estimate over all tiers, in blocks.
    #[must_use]
    pub fn effective(&self) -> &[f64] {
        &self.effective
    }

    /// The most blocks that one of `rows` holds, over all tiers, none weighted; none if nobody asked
    /// what the rows hold.
    #[must_use]
    pub fn most_raw_blocks(&self, rows: impl Iterator<Item = u32>) -> Option<u64> {
        if !(self.filled && self.any()) {
            return self.filled.then_some(0);
        }
        let lower = [Tier::Host, Tier::Disk, Tier::External].map(|tier| self.lower(tier));
        let of = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(0.0);
        let most = rows.fold(0.0_f64, |most, row| {
            let row = row as usize;
            let below: f64 = lower.iter().map(|column| of(column, row)).sum();
            most.max(of(&self.device, row) + below)
        });
        Some(most as u64)
    }

    /// What one row holds; none if nobody asked what the rows hold.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<RowOverlap> {
        let of = |column: &[f64]| column.get(row).copied().unwrap_or(0.0);
        self.filled.then(|| RowOverlap {
            device_blocks: of(&self.device) as u64,
            host_blocks: of(self.lower(Tier::Host)) as u64,
            disk_blocks: of(self.lower(Tier::Disk)) as u64,
            external_blocks: of(self.lower(Tier::External)) as u64,
            effective_blocks: of(&self.effective),
        })
    }
}
