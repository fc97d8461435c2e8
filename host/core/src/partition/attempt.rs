//! One try at a decision, over one snapshot of the fleet.
//!
//! Owns the order of things: the host's rules, the columns, the policy, whoever stands in for it,
//! the booking, the receipt. It is made under the partition's lock; when the fleet changes under
//! its hands it gives up, and the partition tries again.

mod canary;
mod columns;
mod keep;
mod nobody;
mod receipts;

use std::sync::Arc;

use super::{Decision, Mode, Partition, Slot};
use crate::cache::{CacheView, RowOverlap};
use crate::clock::{Moment, Stopwatch};
use crate::eligibility::Eligibility;
use crate::error::RouteError;
use crate::fleet::{DEFAULT_BLOCK_SIZE, Snapshot};
use crate::ids::DecisionId;
use crate::ledger::{Charge, Lease};
use crate::policy::failure::{Cause, StageFailure, StageKind};
use crate::policy::pipeline::{Pipeline, RunError, Selected};
use crate::policy::selection::OnFailure;
use crate::policy::settings::RouterSettings;
use crate::policy::view::RequestView;
use crate::request::RouteRequest;

use keep::Keep;
use receipts::Made;

/// What a decision is made from.
pub(super) struct Attempt<'a> {
    pub(super) partition: &'a Partition,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) request: &'a RouteRequest,
    pub(super) settings: &'a Arc<RouterSettings>,
    pub(super) decision_id: DecisionId,
    pub(super) moment: Moment,
    pub(super) mode: Mode,
}

/// Why a pipeline chose nothing.
enum Halt {
    /// The fleet changed before it was asked.
    Moved,
    /// It filtered out every row.
    Filtered(RouteError),
    /// It failed.
    Failed(Box<StageFailure>, OnFailure),
}

impl Attempt<'_> {
    /// None when the fleet changed meanwhile.
    pub(super) fn make(
        &self,
        slot: &mut Slot,
        watch: &Stopwatch,
    ) -> Result<Option<Decision>, RouteError> {
        self.look_for_overload(slot);
        slot.eligibility.find(&self.snapshot, self.request, slot.overload.workers());
        if slot.eligibility.rows.is_empty() {
            return Err(self.nobody(slot));
        }
        let view = self.view(&slot.eligibility);
        slot.caches.forget();
        self.partition.cache.heed(self.settings, self.moment.now_ms);
        let mut keep = self.keep(&slot.shadows, &slot.shelf);
        let (by_canary, canary_failed) = match self.ask_canary(slot, &view, &mut keep) {
            None => (None, None),
            Some(Ok(selected)) => (Some(selected), None),
            Some(Err(Halt::Moved)) => return Ok(None),
            Some(Err(Halt::Failed(failure, _))) => (None, Some(*failure)),
            Some(Err(Halt::Filtered(error))) => (None, Some(self.filtered_all(slot, &error))),
        };
        let asked = match by_canary {
            Some(selected) => Ok(selected),
            None if self.partition.is_disabled() => Err(self.turned_off(&slot.current)),
            None => {
                let Slot { current, eligibility, caches, .. } = slot;
                let asked = self.run(current, eligibility, caches, &view, &mut keep);
                slot.note(asked.is_ok(), matches!(asked, Err(Halt::Failed(..))));
                asked
            }
        };
        let Slot {
            current,
            previous,
            fallback,
            canary,
            shadows,
            shelf,
            eligibility: eligible,
            caches,
            ..
        } = slot;
        let current = match (by_canary, canary) {
            (Some(_), Some(canary)) => &canary.pipeline,
            _ => &*current,
        };
        let (selected, failure, pipeline) = match asked {
            Ok(selected) => (selected, canary_failed, current),
            Err(Halt::Moved) => return Ok(None),
            Err(Halt::Filtered(error)) => return Err(error),
            Err(Halt::Failed(failure, on_failure)) => {
                self.log(&failure, on_failure);
                if on_failure == OnFailure::Reject {
                    return Err(RouteError::Policy(failure));
                }
                let last_good = previous.as_mut().filter(|_| on_failure == OnFailure::LastGood);
                match self.stand_in(last_good, fallback, eligible, caches, &view, &mut keep) {
                    Ok((selected, by)) => (selected, Some(*failure), by),
                    Err(Halt::Moved) => return Ok(None),
                    Err(Halt::Filtered(error)) => return Err(error),
                    Err(Halt::Failed(..)) => return Err(RouteError::Policy(failure)),
                }
            }
        };
        let Some(row) = eligible.rows.get(selected.row).map(|&row| row as usize) else {
            return Ok(None);
        };
        let (Some(&rank), Some(worker)) = (self.snapshot.rows.get(row), self.snapshot.worker(row))
        else {
            return Ok(None);
        };
        // For the receipt and the booking, whether or not the policy asked.
        if self.reports() {
            self.look_up(caches);
        }
        let overlap = match caches.row(row) {
            Some(overlap) => overlap,
            None => self.partition.cache.row(self.settings, rank, &self.request.chain),
        };
        let lease = match self.mode {
            Mode::DryRun => None,
            Mode::Book | Mode::Record => match self.book(row, &view, &overlap) {
                Some(mut lease) => {
                    let (chain, capacity) = (&self.request.chain, worker.spec.total_kv_blocks);
                    let (cache, now_ms) = (&self.partition.cache, self.moment.now_ms);
                    let at = (rank, worker.epoch);
                    lease.accompany(cache.record(self.settings, at, chain, capacity, now_ms));
                    Some(lease)
                }
                None => return Ok(None),
            },
        };
        self.partition.counters.decided(failure.is_some());
        let made =
            Made { pipeline, fallback: failure, selected, rank, epoch: worker.epoch, overlap };
        let receipt = self.receipt(&view, eligible, caches, made, watch);
        let reporter = lease.as_ref().and_then(|_| {
            self.partition.outcomes.report_on(self.decision_id, rank, self.moment.now_ms)
        });
        let Keep { shadows: chosen, contents, .. } = keep;
        let (fleet, settings) = (&self.snapshot, self.settings);
        let sample =
            contents.map(|contents| shelf.sample(contents, fleet, settings, shadows, chosen));
        Ok(Some(Decision { worker: worker.spec.clone(), receipt, lease, reporter, sample }))
    }

    fn view(&self, eligible: &Eligibility) -> RequestView<'_> {
        let block_size = self.block_size();
        let tracks = self.request.track_prefill_tokens;
        RequestView::new(
            self.request,
            self.decision_id,
            self.moment,
            block_size,
            tracks.unwrap_or(self.settings.router_track_prefill_tokens),
            eligible.pinned,
        )
    }

    /// Whether every row is to be reported.
    fn reports(&self) -> bool {
        self.mode == Mode::DryRun
    }

    /// Whether the stages are asked one by one: only they tell of every row.
    fn asks_parts(&self) -> bool {
        self.mode != Mode::Book
    }

    /// Whoever decides in place of a policy that failed: the last good version if there is one to
    /// ask, else the built-in default.
    fn stand_in<'s>(
        &self,
        last_good: Option<&'s mut Pipeline>,
        fallback: &'s mut Pipeline,
        eligible: &Eligibility,
        caches: &mut CacheView,
        view: &RequestView<'_>,
        keep: &mut Keep,
    ) -> Result<(Selected, &'s Pipeline), Halt> {
        if let Some(last_good) = last_good {
            match self.run(last_good, eligible, caches, view, keep) {
                Err(Halt::Failed(failure, _)) => self.log(&failure, OnFailure::Default),
                other => return other.map(|selected| (selected, &*last_good)),
            }
        }
        self.run(fallback, eligible, caches, view, keep).map(|selected| (selected, &*fallback))
    }

    /// Fills the columns that a pipeline wants, and asks it.
    fn run(
        &self,
        pipeline: &mut Pipeline,
        eligible: &Eligibility,
        caches: &mut CacheView,
        view: &RequestView<'_>,
        keep: &mut Keep,
    ) -> Result<Selected, Halt> {
        let mut view = *view;
        if pipeline.reads_caches() {
            self.look_up(caches);
            view.has_tier_matches = caches.any();
        }
        let hashes = keep.prefix_hash_blocks.max(pipeline.prefix_hash_blocks());
        let mut keeping = keep.recording();
        if let Some((recording, _)) = &mut keeping {
            self.look_up(caches);
            recording.begin(&view, hashes, caches.any());
        }
        let caches = &*caches;
        pipeline.renew();
        pipeline.tell_fleet(&self.snapshot);
        let rows = &eligible.rows;
        let additional = self.decode_blocks(&view) as f64;
        let same = self.partition.ledger.read(|books| {
            // The rows of another generation have moved, so their load is not ours.
            let same = books.snapshot.generation == self.snapshot.generation;
            if same {
                pipeline.load(&self.snapshot, rows, |input, column| {
                    self.fill(books, caches, input, rows, additional, column);
                });
                if let Some((recording, inputs)) = &mut keeping {
                    // Of the same moment as what is decided from.
                    pipeline.keep_columns(recording, inputs, |input, column| {
                        self.fill(books, caches, input, rows, additional, column);
                    });
                }
            }
            same
        });
        if !same {
            return Err(Halt::Moved);
        }
        if self.mode == Mode::Record {
            pipeline.note_answers(true);
        }
        let answer = pipeline.run(&view, self.asks_parts());
        if let Some((recording, _)) = keeping
            && self.mode == Mode::Record
        {
            pipeline.record(recording);
        }
        let counters = &self.partition.counters;
        pipeline.trace().iter().filter_map(|stage| stage.failed).for_each(|c| counters.failed(c));
        pipeline.trace().iter().filter(|stage| stage.bypassed).for_each(|_| counters.bypassed());
        answer.map_err(|error| match error {
            RunError::AllFiltered => {
                counters.all_filtered();
                Halt::Filtered(RouteError::AllEligibleWorkersFiltered {
                    partition: self.partition.key.clone(),
                    policy: pipeline.name().to_string(),
                    eligible: rows.len() as u32,
                })
            }
            RunError::Failed { failure, on_failure } => Halt::Failed(failure, on_failure),
        })
    }

    /// Whoever is turned off is not asked: the built-in decides, whatever his owner wants of failures.
    fn turned_off(&self, pipeline: &Pipeline) -> Halt {
        self.partition.counters.failed(Cause::Disabled);
        let failure = StageFailure {
            policy: pipeline.name().clone(),
            kind: StageKind::Fused,
            stage: "decide".to_owned(),
            cause: Cause::Disabled,
            detail: "an operator has turned it off".to_owned(),
        };
        Halt::Failed(Box::new(failure), OnFailure::Default)
    }

    /// Finds out what the rows hold of the prompt, unless that is known.
    fn look_up(&self, caches: &mut CacheView) {
        let Self { partition, settings, request, snapshot, .. } = self;
        caches.fill(&partition.cache, settings, &request.chain, snapshot);
    }

    /// Tokens in one block of the workers.
    fn block_size(&self) -> u32 {
        let first = self.snapshot.workers.first();
        first.map_or(DEFAULT_BLOCK_SIZE, |worker| worker.spec.block_size).get()
    }

    fn book(&self, row: usize, view: &RequestView<'_>, overlap: &RowOverlap) -> Option<Lease> {
        // What is cached isn't computed.
        let cached = (overlap.effective_blocks * f64::from(view.block_size)).round() as u64;
        let prefill = view.prompt_tokens.saturating_sub(cached);
        let charge = Charge {
            prefill_tokens: if view.tracks_prefill_tokens { prefill } else { 0 },
            decode_blocks: self.decode_blocks(view),
        };
        self.partition.ledger.book(&self.snapshot, row, charge)
    }

    fn decode_blocks(&self, view: &RequestView<'_>) -> u64 {
        if self.settings.router_track_active_blocks { view.request_blocks } else { 0 }
    }

    fn log(&self, failure: &StageFailure, on_failure: OnFailure) {
        let trial = self.partition.trial;
        if trial {
            let partition = self.partition.key.shown(true);
            tracing::warn!(partition, trial, %failure, "a policy failed to decide a made-up request");
            return;
        }
        // Who isn't asked has failed before, or was turned off, and the log has that.
        if matches!(failure.cause, Cause::Unavailable | Cause::Disabled) {
            tracing::debug!(partition = %self.partition.key, %failure, "a policy wasn't asked");
            return;
        }
        tracing::warn!(
            partition = %self.partition.key,
            decision_id = %self.decision_id,
            %failure,
            ?on_failure,
            "a policy failed to decide"
        );
    }
}
