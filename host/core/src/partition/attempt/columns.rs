//! How a column is filled: of which book it is, and for which rows.

use super::Attempt;
use crate::cache::{CacheView, shared_beyond};
use crate::index::Tier;
use crate::lanes;
use crate::ledger::{Books, PromptBlocks};
use crate::policy::{Input, builtin};

impl Attempt<'_> {
    pub(super) fn fill(
        &self,
        books: &Books,
        caches: &CacheView,
        input: Input,
        rows: &[u32],
        prompt: &PromptBlocks<'_>,
        column: &mut [f64],
    ) {
        let copy = |from: &[f64], column: &mut [f64], plus: f64| {
            if from.len() == rows.len() && plus == 0.0 && column.len() == from.len() {
                // All rows, as they stand: one block. No column has a -0.
                column.copy_from_slice(from);
            } else if from.len() == rows.len() {
                lanes::copy_plus(column, from, plus);
            } else {
                let from = rows.iter().map(|&row| from.get(row as usize).copied().unwrap_or(0.0));
                column.iter_mut().zip(from).for_each(|(to, from)| *to = from + plus);
            }
        };
        let loads = &books.columns;
        match input {
            Input::ActiveRequests => {
                copy(&loads.active_requests, column, 0.0);
                books.seating.add_taken(rows, column);
            }
            Input::ActivePrefillTokens => books.fill_prefill(self.moment.now_ms, rows, column),
            Input::DecodeCostBlocks => {
                copy(&loads.active_decode_blocks, column, prompt.count() as f64);
                books.take_off_active(prompt, rows, column);
            }
            Input::PreferredTaintMultiplier => self.fill_taints(rows, column),
            Input::DeviceOverlapBlocks => copy(caches.device(), column, 0.0),
            Input::HostOverlapBlocks => copy(caches.lower(Tier::Host), column, 0.0),
            Input::DiskOverlapBlocks => {
                copy(caches.lower(Tier::Disk), column, 0.0);
                let external = caches.lower(Tier::External);
                for (to, &row) in column.iter_mut().zip(rows) {
                    *to += external.get(row as usize).copied().unwrap_or(0.0);
                }
            }
            Input::SharedBeyondDeviceBlocks => {
                copy(caches.device(), column, 0.0);
                let hits = &self.request.shared_hits;
                for to in column {
                    *to = shared_beyond(hits, to.round() as u32) as f64;
                }
            }
            Input::EffectiveOverlapBlocks => copy(caches.effective(), column, 0.0),
            Input::CachedTokens => {
                copy(caches.effective(), column, 0.0);
                lanes::multiply_rounded(column, f64::from(self.block_size()));
            }
            // Not a column.
            Input::Identity => column.fill(0.0),
        }
    }

    /// What a column is in every row, where that is known without looking at them.
    pub(super) fn same_in_all(&self, caches: &CacheView, input: Input) -> Option<f64> {
        match input {
            Input::PreferredTaintMultiplier => self.prefers_nothing().then_some(1.0),
            // It counts from where the device's end.
            Input::SharedBeyondDeviceBlocks => self.request.shared_hits.is_empty().then_some(0.0),
            Input::DeviceOverlapBlocks => (!caches.any()).then_some(0.0),
            Input::HostOverlapBlocks => caches.lower(Tier::Host).is_empty().then_some(0.0),
            Input::DiskOverlapBlocks => {
                let lower = [Tier::Disk, Tier::External].map(|tier| caches.lower(tier));
                lower.iter().all(|column| column.is_empty()).then_some(0.0)
            }
            Input::EffectiveOverlapBlocks | Input::CachedTokens => {
                (!caches.estimates()).then_some(0.0)
            }
            Input::Identity => Some(0.0),
            Input::ActiveRequests | Input::ActivePrefillTokens | Input::DecodeCostBlocks => None,
        }
    }

    /// Whether the request prefers no taint. A pin leaves nothing to prefer.
    fn prefers_nothing(&self) -> bool {
        let constraints = &self.request.constraints;
        constraints.preferred_taints.is_empty() || constraints.pinned.is_some()
    }

    fn fill_taints(&self, rows: &[u32], column: &mut [f64]) {
        if self.prefers_nothing() {
            column.fill(1.0);
            return;
        }
        let preferred = &self.request.constraints.preferred_taints;
        // A worker's rows stand together: what it has is looked at once.
        let mut last = (None, 1.0);
        for (to, &row) in column.iter_mut().zip(rows) {
            let worker = self.snapshot.worker_of_row.get(row as usize).copied();
            if last.0 != worker {
                // A worker has few taints, and a client may name any number.
                let taints = self.snapshot.worker(row as usize).into_iter();
                let taints = taints.flat_map(|worker| &worker.spec.taints);
                let weights = taints.filter_map(|taint| preferred.get(taint)).sum();
                last = (worker, builtin::preferred_taint_multiplier(weights));
            }
            *to = last.1;
        }
    }
}
