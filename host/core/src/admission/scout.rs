//! What has to be known of a request before it is decided or waits.
//!
//! Owns the look at the load of the ranks that a request may have, and at what they hold of its
//! prompt; its buffers are used again. It doesn't know who waits.

use super::{Site, terms};
use crate::cache::CacheView;
use crate::eligibility::{Eligibility, Overload};
use crate::fleet::{DEFAULT_BLOCK_SIZE, Snapshot};
use crate::queue::{ClassSpec, Terms};
use crate::request::RouteRequest;

/// How often ranks are looked at anew because the fleet changed meanwhile.
const MOST_LOOKS: usize = 4;

/// Finds out what has to be known of requests.
#[derive(Debug, Default)]
pub struct Scout {
    eligibility: Eligibility,
    overload: Overload,
    caches: CacheView,
}

/// What was found out of a request that comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The place of its class in the profile.
    pub(super) class: usize,
    /// Whether so many of its ranks are busy that it waits.
    pub(super) busy: bool,
    /// The terms on which it would wait; none if it needn't.
    pub(super) terms: Option<Terms>,
}

impl Scout {
    /// Finds out what has to be known of a request that comes to a line in which somebody else
    /// waits, or nobody.
    pub fn find(&mut self, site: &Site<'_>, request: &RouteRequest, others_wait: bool) -> Found {
        let named = request.admission.policy_class.as_deref();
        let mut cached = None;
        let class = site.profile.choose(named, || {
            let tokens = self.cached_tokens(site, request);
            cached = Some(tokens);
            request.prompt_tokens.saturating_sub(tokens)
        });
        let Some(spec) = site.profile.class(class).filter(|spec| spec.queues()) else {
            return Found { class, busy: false, terms: None };
        };
        let busy = self.is_busy(site, spec, request);
        if !busy && !others_wait {
            return Found { class, busy, terms: None };
        }
        let cached = cached.unwrap_or_else(|| self.cached_tokens(site, request));
        Found { class, busy, terms: Some(terms(request, cached, site.now_ms)) }
    }

    /// Whether a request of a class has to wait for its ranks: enough of those that it may have are
    /// busy. A pinned one has only that.
    pub fn is_busy(&mut self, site: &Site<'_>, class: &ClassSpec, request: &RouteRequest) -> bool {
        if !class.queues() {
            return false;
        }
        let partition = site.partition;
        for _ in 0..MOST_LOOKS {
            let snapshot = partition.ledger().snapshot();
            self.find_eligible(site, &snapshot, request);
            let rows = &self.eligibility.rows;
            // Who waits may be the only one to look: what is left of prefills goes by that.
            let looked = partition.ledger().read_at(site.now_ms, |books| {
                let busy = |&&row: &&u32| {
                    let worker = snapshot.worker(row as usize);
                    let batched = worker.and_then(|worker| worker.spec.max_num_batched_tokens);
                    let load = books.prefill_left(row as usize, site.now_ms);
                    class.finds_busy(load, batched)
                };
                let same = books.snapshot.generation == snapshot.generation;
                same.then(|| class.waits_with(rows.iter().filter(busy).count(), rows.len()))
            });
            if let Some(waits) = looked {
                return waits;
            }
        }
        // The fleet changes faster than we look; each change rings.
        true
    }

    fn find_eligible(&mut self, site: &Site<'_>, snapshot: &Snapshot, request: &RouteRequest) {
        site.partition.look_for_overload(&mut self.overload, snapshot, site.now_ms);
        self.eligibility.find(snapshot, request, self.overload.workers());
    }

    /// Tokens of its prompt that the best of its ranks has cached, weighted by tier.
    fn cached_tokens(&mut self, site: &Site<'_>, request: &RouteRequest) -> u64 {
        if request.chain.is_empty() {
            return 0;
        }
        let snapshot = site.partition.ledger().snapshot();
        self.find_eligible(site, &snapshot, request);
        let (cache, settings) = (site.partition.cache(), site.settings);
        self.caches.look_ahead(cache, settings, &request.chain, &snapshot);
        let effective = self.caches.effective();
        let rows = self.eligibility.rows.iter();
        let blocks =
            rows.filter_map(|&row| effective.get(row as usize)).fold(0.0, |a: f64, &b| a.max(b));
        let block_size = snapshot.workers.first().map_or(DEFAULT_BLOCK_SIZE, |w| w.spec.block_size);
        (blocks * f64::from(block_size.get())).round() as u64
    }
}
