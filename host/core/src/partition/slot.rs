//! What is under a partition's lock: the policies that decide there, and what their decisions are
//! made in.
//!
//! Owns how one set of policies takes the place of another, and for how long the one before is kept.
//! It doesn't know how a decision is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::cache::CacheView;
use crate::eligibility::{BusyThresholds, Eligibility, LoadReports, Overload};
use crate::fleet::Snapshot;
use crate::hosted::Hosting;
use crate::ledger::Ledger;
use crate::outcome::Outcomes;
use crate::policy::failure::StageFailure;
use crate::policy::pipeline::Pipeline;
use crate::recording::Shelf;
use crate::rollout::{Canary, Shadow};

/// A version before the present one is kept for so many good decisions in a row of the present one.
pub(super) const PROVEN_AFTER: u32 = 1_000;

/// What is under the partition's lock.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) current: Pipeline,
    /// The last good version before, while the present one has not proven itself.
    pub(super) previous: Option<Pipeline>,
    /// Good decisions of the present one in a row.
    pub(super) good_decisions: u32,
    /// The built-in default, for decisions that the configured policy fails.
    pub(super) fallback: Pipeline,
    /// Who decides in the present one's place without the lock; none if nobody can.
    pub(super) hosting: Option<Arc<Hosting>>,
    pub(super) ledger: Arc<Ledger>,
    /// What its engines say of their own load; here for who changes the thresholds.
    pub(super) reports: Arc<Mutex<LoadReports>>,
    /// An operator has turned the present one off.
    pub(super) disabled: Arc<AtomicBool>,
    /// The one that makes a share of the decisions.
    pub(super) canary: Option<Canary>,
    /// Those that are shown decisions afterwards.
    pub(super) shadows: Arc<[Arc<Shadow>]>,
    /// What they are shown, before and after.
    pub(super) shelf: Shelf,
    /// Whether the present one reads what a shared cache holds; read by those who don't wait here.
    pub(super) reads_shared_cache: Arc<AtomicBool>,
    /// What the policies that learn are to be told.
    pub(super) outcomes: Arc<Outcomes>,
    /// Beyond what a rank is busy: as the settings have it, and as an operator has set it since.
    pub(super) busy: BusyThresholds,
    pub(super) busy_here: Option<BusyThresholds>,
    /// Requests of some class may have to wait here.
    pub(super) queues: bool,
    pub(super) overload: Overload,
    /// The rows of the last decision; none while one is made.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) eligibility: Eligibility,
    pub(super) caches: CacheView,
}

/// The pipelines that are to be put in a partition's place.
#[derive(Debug)]
pub(crate) struct Next {
    /// The configured one.
    pub(crate) current: Pipeline,
    /// The built-in default.
    pub(crate) fallback: Pipeline,
    /// Who decides in the configured one's place without the lock; none if nobody can.
    pub(crate) hosting: Option<Arc<Hosting>>,
    /// Beyond what a rank is busy, unless an operator has set that for the model.
    pub(crate) busy: BusyThresholds,
    /// Those that are shown decisions afterwards.
    pub(crate) shadows: Vec<Arc<Shadow>>,
    /// The one that makes a share of the decisions.
    pub(crate) canary: Option<Canary>,
}

impl Slot {
    /// Hands the present policies' state to `next`, while decisions are held up. Who was the canary
    /// and is to decide all goes on with what he has learnt.
    pub(crate) fn hand_over(&mut self, next: &mut Next) -> Result<bool, StageFailure> {
        for then in &next.shadows {
            if let Some(now) = self.shadows.iter().find(|now| now.instance() == then.instance()) {
                then.take_over(now);
            }
        }
        if let (Some(now), Some(then)) = (&mut self.canary, &mut next.canary)
            && now.instance() == then.instance()
            && let Err(error) = then.pipeline.take_over(&mut now.pipeline)
        {
            tracing::warn!(%error, "a canary begins without its state");
        }
        match &mut self.canary {
            Some(canary) if canary.instance() == next.current.name() => {
                next.current.take_over(&mut canary.pipeline)
            }
            _ => next.current.take_over(&mut self.current),
        }
    }

    /// Has every choice be made from these estimates, until a decision looks its prompt up.
    pub(crate) fn give_caches(&mut self, effective: Vec<f64>) {
        self.caches = CacheView::given(effective);
    }

    /// Beyond what a rank is busy.
    pub(super) fn thresholds(&self) -> BusyThresholds {
        self.busy_here.unwrap_or(self.busy)
    }

    pub(super) fn follow(&mut self, shadows: Vec<Arc<Shadow>>, canary: Option<Canary>) {
        self.shadows = shadows.into();
        self.shelf.clear();
        self.canary = canary;
        self.heed();
    }

    /// Tells those who don't wait here what its policies want to know.
    pub(super) fn heed(&self) {
        let canary = self.canary.as_ref().map(|canary| &canary.pipeline);
        let reads = canary.is_some_and(Pipeline::reads_shared_cache);
        let reads = reads || self.current.reads_shared_cache();
        self.reads_shared_cache.store(reads, Ordering::Relaxed);
        let mut deciders = [Some(&self.current), self.previous.as_ref(), canary].into_iter();
        let wanted = deciders.any(|pipeline| pipeline.is_some_and(Pipeline::observes));
        self.outcomes.want(wanted || self.shadows.iter().any(|shadow| shadow.observes()));
        self.host();
    }

    /// Puts `next` in the present policy's place. If some owner wants the last good version to
    /// stand in, that is kept until `next` has proven itself. `queues` is as in
    /// [`super::Partition::set_queues`].
    pub(crate) fn replace(&mut self, next: Next, queues: bool) {
        let Next { current, fallback, hosting, busy, shadows, canary } = next;
        (self.busy, self.queues) = (busy, queues);
        // Whoever decided without the lock until now doesn't any more.
        self.hosting = None;
        self.follow(shadows, canary);
        let replaced = self.decide_by(current);
        if !self.current.wants_last_good() {
            self.previous = None;
        } else if self.previous.is_none() || self.good_decisions > 0 {
            self.previous = Some(replaced);
        }
        self.fallback = fallback;
        self.hosting = hosting;
        self.good_decisions = 0;
        self.heed();
    }

    /// Has another policy decide. Returns the one before.
    pub(super) fn decide_by(&mut self, next: Pipeline) -> Pipeline {
        let before = std::mem::replace(&mut self.current, next);
        self.heed();
        before
    }

    /// Takes note of how the present policy did.
    pub(super) fn note(&mut self, decided: bool, failed: bool) {
        if failed {
            self.good_decisions = 0;
        } else if decided && self.previous.is_some() {
            self.good_decisions += 1;
            if self.good_decisions >= PROVEN_AFTER {
                self.previous = None;
                self.heed();
            }
        }
    }
}
