//! One try at a decision, over one snapshot of the fleet.
//!
//! Owns the order of things: the host's rules, the columns, the policy, whoever stands in for it,
//! the booking, the receipt. It is made under the partition's lock; when the fleet changes under
//! its hands it gives up, and the partition tries again.

pub(super) mod booking;
mod canary;
mod columns;
mod failed;
mod keep;
mod nobody;
mod receipts;

use std::sync::Arc;

use super::{Decision, Mode, Partition, Slot};
use crate::cache::CacheView;
use crate::clock::{Moment, Stopwatch};
use crate::eligibility::Eligibility;
use crate::error::RouteError;
use crate::fleet::{DEFAULT_BLOCK_SIZE, Snapshot};
use crate::ids::DecisionId;
use crate::policy::failure::StageFailure;
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

/// What was chosen, not yet booked.
pub(super) struct Choice<'a> {
    view: RequestView<'a>,
    keep: Keep,
    pub(super) selected: Selected,
    by: By,
    /// The failure of who was asked first.
    failure: Option<StageFailure>,
}

/// Who chose.
#[derive(Clone, Copy)]
enum By {
    Current,
    Canary,
    LastGood,
    Fallback,
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

impl<'a> Attempt<'a> {
    /// None when the fleet changed meanwhile.
    pub(super) fn make(
        &self,
        slot: &mut Slot,
        watch: &Stopwatch,
    ) -> Result<Option<Decision>, RouteError> {
        slot.caches.forget();
        match self.choose(slot)? {
            Some(choice) => Ok(self.settle(slot, choice, watch)),
            None => Ok(None),
        }
    }

    /// Chooses a row, and books nothing. None when the fleet changed meanwhile.
    pub(super) fn choose(&self, slot: &mut Slot) -> Result<Option<Choice<'a>>, RouteError> {
        self.look_for_overload(slot);
        slot.eligibility.find(&self.snapshot, self.request, slot.overload.workers());
        if slot.eligibility.rows.is_empty() {
            return Err(self.nobody(slot));
        }
        let view = self.view(&slot.eligibility);
        self.partition.cache.heed(self.settings, self.moment.now_ms);
        let mut keep = self.keep(&slot.shadows, &slot.shelf);
        let mut canary_failed = None;
        match self.ask_canary(slot, &view, &mut keep) {
            None => {}
            Some(Ok(selected)) => {
                return Ok(Some(Choice { view, keep, selected, by: By::Canary, failure: None }));
            }
            Some(Err(Halt::Moved)) => return Ok(None),
            Some(Err(Halt::Failed(failure, _))) => canary_failed = Some(*failure),
            Some(Err(Halt::Filtered(error))) => {
                canary_failed = Some(self.filtered_all(slot, &error));
            }
        }
        let asked = if self.partition.is_disabled() {
            Err(self.turned_off(&slot.current))
        } else {
            let Slot { current, eligibility, caches, overload, .. } = slot;
            let target = self.target(current, eligibility, overload.workers())?;
            let view = RequestView { affinity_target: target, ..view };
            let asked = self.run(current, eligibility, caches, &view, &mut keep);
            slot.note(asked.is_ok(), matches!(asked, Err(Halt::Failed(..))));
            asked
        };
        let (selected, by, failure) = match asked {
            Ok(selected) => (selected, By::Current, canary_failed),
            Err(Halt::Moved) => return Ok(None),
            Err(Halt::Filtered(error)) => return Err(error),
            Err(Halt::Failed(failure, on_failure)) => {
                self.log(&failure, on_failure);
                if on_failure == OnFailure::Reject {
                    return Err(RouteError::Policy(failure));
                }
                match self.stand_in(slot, on_failure, &view, &mut keep) {
                    Ok((selected, by)) => (selected, by, Some(*failure)),
                    Err(Halt::Moved) => return Ok(None),
                    Err(Halt::Filtered(error)) => return Err(error),
                    Err(Halt::Failed(..)) => return Err(RouteError::Policy(failure)),
                }
            }
        };
        Ok(Some(Choice { view, keep, selected, by, failure }))
    }

    /// Books what was chosen, and writes it down. None when the fleet changed meanwhile.
    fn settle(&self, slot: &mut Slot, choice: Choice<'_>, watch: &Stopwatch) -> Option<Decision> {
        let Choice { view, keep, selected, by, failure } = choice;
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
        let pipeline = match by {
            By::Current => &*current,
            By::Canary => &canary.as_ref()?.pipeline,
            By::LastGood => previous.as_ref()?,
            By::Fallback => &*fallback,
        };
        let row = *eligible.rows.get(selected.row)? as usize;
        let (&rank, worker) = (self.snapshot.rows.get(row)?, self.snapshot.worker(row)?);
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
            Mode::Book | Mode::Record => {
                let mut lease = self.book(row, &view, &overlap)?;
                let (chain, capacity) = (&self.request.chain, worker.spec.total_kv_blocks);
                let (cache, now_ms) = (&self.partition.cache, self.moment.now_ms);
                let at = (rank, worker.epoch);
                lease.accompany(cache.record(self.settings, at, chain, capacity, now_ms));
                Some(lease)
            }
        };
        self.partition.counters.decided(failure.is_some());
        let potential_decode_blocks = self.potential_decode_blocks(row, &view, lease.as_ref());
        let made = Made {
            pipeline,
            fallback: failure,
            selected,
            rank,
            epoch: worker.epoch,
            overlap,
            potential_decode_blocks,
        };
        let receipt = self.receipt(&view, eligible, caches, made, watch);
        let reporter = lease.as_ref().and_then(|_| {
            self.partition.outcomes.report_on(self.decision_id, rank, self.moment.now_ms)
        });
        let Keep { shadows: chosen, contents, .. } = keep;
        let (fleet, settings) = (&self.snapshot, self.settings);
        let sample =
            contents.map(|contents| shelf.sample(contents, fleet, settings, shadows, chosen));
        Some(Decision { worker: worker.spec.clone(), receipt, lease, reporter, sample })
    }

    fn view(&self, eligible: &Eligibility) -> RequestView<'a> {
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
        let hashes = keep.prefix_hash_blocks;
        let mut keeping = keep.recording();
        if let Some((recording, _)) = &mut keeping {
            let hashes = hashes.max(pipeline.prefix_hash_blocks());
            self.look_up(caches);
            recording.begin(&view, hashes, caches.any());
            recording.rows.take(&self.snapshot, &eligible.rows);
        }
        let caches = &*caches;
        pipeline.renew();
        pipeline.tell_fleet(&self.snapshot);
        let rows = &eligible.rows;
        let prompt = self.prompt_blocks(&view);
        let same = self.partition.ledger.read_at(self.moment.now_ms, |books| {
            // The rows of another generation have moved, so their load is not ours.
            let same = books.snapshot.generation == self.snapshot.generation;
            if same {
                let neutral = self.neutral(caches);
                pipeline.load(&self.snapshot, rows, neutral, |input, column| {
                    self.fill(books, caches, input, rows, &prompt, column);
                });
                if let Some((recording, inputs)) = &mut keeping {
                    // Of the same moment as what is decided from.
                    pipeline.keep_columns(
                        &mut recording.columns,
                        *inputs,
                        neutral,
                        |input, column| {
                            self.fill(books, caches, input, rows, &prompt, column);
                        },
                    );
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
        if let Some((recording, _)) = keeping {
            pipeline.hand_over(&mut recording.columns);
            if self.mode == Mode::Record {
                pipeline.record(recording);
            }
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
}

impl Partition {
    /// A try over the rows as they are now, which it takes out of the slot and whoever makes it puts back.
    pub(super) fn attempt<'a>(
        &'a self,
        slot: &mut Slot,
        request: &'a RouteRequest,
        settings: &'a Arc<RouterSettings>,
        decision_id: DecisionId,
        moment: Moment,
        mode: Mode,
    ) -> Attempt<'a> {
        let snapshot = self.ledger.snapshot_unless(slot.snapshot.take());
        Attempt { partition: self, snapshot, request, settings, decision_id, moment, mode }
    }

    /// Chooses from the caches as they are in view, and books nothing. None when the fleet changed
    /// meanwhile.
    pub(crate) fn choose(
        &self,
        request: &RouteRequest,
        settings: &Arc<RouterSettings>,
        decision_id: DecisionId,
        moment: Moment,
    ) -> Result<Option<Selected>, RouteError> {
        let mut slot = self.slot.lock();
        let attempt = self.attempt(&mut slot, request, settings, decision_id, moment, Mode::Book);
        let chosen = attempt.choose(&mut slot);
        slot.snapshot = Some(attempt.snapshot);
        Ok(chosen?.map(|choice| choice.selected))
    }
}
