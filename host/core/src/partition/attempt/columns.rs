//! How a column is filled: of which book it is, and for which rows.

use std::collections::BTreeMap;

use super::Attempt;
use crate::cache::{CacheView, shared_beyond};
use crate::index::Tier;
use crate::lanes;
use crate::ledger::{Books, PromptBlocks};
use crate::policy::{Input, InputSet, builtin};

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
                let (effective, block_size) = (caches.effective(), f64::from(self.block_size()));
                if effective.len() == rows.len() {
                    lanes::copy_times_rounded(column, effective, block_size);
                } else {
                    copy(effective, column, 0.0);
                    column.iter_mut().for_each(|value| *value = (*value * block_size).round());
                }
            }
            // Not a column.
            Input::Identity => column.fill(0.0),
        }
    }

    /// Which columns are neutral in every row, as far as that is known without looking at them.
    pub(super) fn neutral(&self, caches: &CacheView) -> InputSet {
        let mut neutral = InputSet::default();
        let mut note = |input: Input, is_neutral: bool| {
            if is_neutral {
                neutral.insert(input);
            }
        };
        note(Input::PreferredTaintMultiplier, self.prefers_nothing());
        // It counts from where the device's end.
        note(Input::SharedBeyondDeviceBlocks, self.request.shared_hits.is_empty());
        note(Input::DeviceOverlapBlocks, !caches.any());
        let lacks = |tier| caches.lower(tier).is_empty();
        note(Input::HostOverlapBlocks, lacks(Tier::Host));
        note(Input::DiskOverlapBlocks, lacks(Tier::Disk) && lacks(Tier::External));
        note(Input::EffectiveOverlapBlocks, !caches.estimates());
        note(Input::CachedTokens, !caches.estimates());
        neutral
    }

    /// Whether the request prefers no taint. A pin leaves nothing to prefer.
    fn prefers_nothing(&self) -> bool {
        let constraints = &self.request.constraints;
        constraints.preferred_taints.is_empty() || constraints.pinned.is_some()
    }

    fn fill_taints(&self, rows: &[u32], column: &mut [f64]) {
        if self.prefers_nothing() {
            column.fill(Input::PreferredTaintMultiplier.neutral());
            return;
        }
        let preferred = &self.request.constraints.preferred_taints;
        // A worker's rows stand together: what it has is looked at once.
        let mut last = (None, 1.0);
        for (to, &row) in column.iter_mut().zip(rows) {
            let worker = self.snapshot.worker_of_row.get(row as usize).copied();
            if last.0 != worker {
                let taints = self.snapshot.worker(row as usize).into_iter();
                let weights = weights(taints.flat_map(|worker| &worker.spec.taints), preferred);
                last = (worker, builtin::preferred_taint_multiplier(weights));
            }
            *to = last.1;
        }
    }
}

/// What a worker's own taints weigh, together. A worker has few, and a client may prefer any number: so
/// it is the worker's that are looked up.
fn weights<'t, T: Ord + 't>(own: impl Iterator<Item = &'t T>, preferred: &BTreeMap<T, f64>) -> f64 {
    own.filter_map(|taint| preferred.get(taint)).sum()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    thread_local! {
        /// How often two names were compared on this thread.
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    #[derive(PartialEq, Eq)]
    struct Name(u64);

    impl Ord for Name {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Name {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn what_a_worker_weighs_costs_by_its_own_taints_however_many_a_client_prefers() {
        // A tenth of the worker's are preferred; a tree of so many is no more than seven nodes high, of
        // eleven names each.
        let own: Vec<Name> = (0..40).map(|nth| Name(nth * 1_000_000)).collect();
        for preferred in [10, 1_000, 100_000] {
            let wanted: BTreeMap<Name, f64> =
                (0..preferred).map(|nth| (Name(nth * 10_000_000), 0.5)).collect();
            COMPARED.set(0);
            assert_eq!(weights(own.iter(), &wanted), 2.0);
            let most = own.len() as u64 * 7 * 11;
            assert!(COMPARED.get() <= most, "{} names compared", COMPARED.get());
        }
    }
}
