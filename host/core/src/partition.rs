//! One partition: the workers of one model, group and role, with one policy.
//!
//! Owns the ledger, the pipeline and the way of a decision through them, under one lock: decisions
//! of a partition are serial, so that each sees what the one before it booked. It doesn't know
//! other partitions, queues or who asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::clock::{Moment, Stopwatch};
use crate::eligibility::Eligibility;
use crate::error::RouteError;
use crate::fleet::{DEFAULT_BLOCK_SIZE, Snapshot, WorkerSpec};
use crate::ids::{DecisionId, PartitionKey, WorkerTarget};
use crate::ledger::{Charge, Columns, Lease, Ledger};
use crate::policy::failure::{Cause, StageFailure};
use crate::policy::pipeline::{Pipeline, RunError, Selected};
use crate::policy::selection::OnFailure;
use crate::policy::settings::RouterSettings;
use crate::policy::view::RequestView;
use crate::policy::{Input, builtin};
use crate::receipt::{PolicyLabel, Receipt, RowReport};
use crate::request::RouteRequest;

/// How often a decision is made again because its worker left while it was made.
const MOST_ATTEMPTS: usize = 4;

/// A version before the present one is kept for so many good decisions of the present one.
const PROVEN_AFTER: u32 = 1_000;

/// What is wanted of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Choose and book.
    Book,
    /// Choose, book nothing, and report every row. A policy with state sees it as any decision.
    DryRun,
}

/// A chosen worker, with the booking that goes with it.
#[derive(Debug)]
pub struct Decision {
    /// The worker as registered.
    pub worker: Arc<WorkerSpec>,
    /// The record.
    pub receipt: Receipt,
    /// The booking; none for a dry run.
    pub lease: Option<Lease>,
}

/// What a partition has done, for display. Counts since the router's start.
#[derive(Debug, Default)]
pub struct Counters {
    decisions: AtomicU64,
    fallbacks: AtomicU64,
    all_filtered: AtomicU64,
    /// By the order of [`Cause::ALL`].
    failures: [AtomicU64; Cause::ALL.len()],
}

/// A reading of [`Counters`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Decisions made.
    pub decisions: u64,
    /// Of those, made by another policy than the configured one.
    pub fallbacks: u64,
    /// Requests whose every eligible row was filtered out.
    pub all_filtered: u64,
    /// Failed policies by cause, those without a decision included.
    pub failures: Vec<(Cause, u64)>,
}

impl Counters {
    fn failed(&self, cause: Cause) {
        self.failures[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            decisions: count(&self.decisions),
            fallbacks: count(&self.fallbacks),
            all_filtered: count(&self.all_filtered),
            failures: Cause::ALL.into_iter().zip(self.failures.iter().map(count)).collect(),
        }
    }
}

/// What is under the partition's lock.
#[derive(Debug)]
pub(crate) struct Slot {
    current: Pipeline,
    /// The version before, while the present one has not proven itself.
    previous: Option<Pipeline>,
    good_decisions: u32,
    /// The built-in default, for decisions that the configured policy fails.
    fallback: Pipeline,
    eligibility: Eligibility,
    /// The fleet that the instances know.
    told_generation: u64,
}

/// The workers of one model, group and role.
#[derive(Debug)]
pub struct Partition {
    key: PartitionKey,
    ledger: Arc<Ledger>,
    slot: Mutex<Slot>,
    counters: Counters,
}

impl Partition {
    /// A partition decided by `current`, or by `fallback` where that fails.
    #[must_use]
    pub fn new(key: PartitionKey, current: Pipeline, fallback: Pipeline) -> Self {
        Self {
            key,
            ledger: Arc::default(),
            slot: Mutex::new(Slot {
                current,
                previous: None,
                good_decisions: 0,
                fallback,
                eligibility: Eligibility::default(),
                told_generation: u64::MAX,
            }),
            counters: Counters::default(),
        }
    }

    /// Which partition it is.
    #[must_use]
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }

    /// Its ledger.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Tokens in one block of its workers.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        let snapshot = self.ledger.snapshot();
        snapshot.workers.first().map_or(DEFAULT_BLOCK_SIZE, |w| w.spec.block_size).get()
    }

    /// The policy that decides now: (instance, (type, digest) of each source). Waits for a decision
    /// that is being made.
    #[must_use]
    pub fn policy(&self) -> PolicyLabel {
        label(&self.slot.lock().current)
    }

    /// Decides. Waits for a decision that is being made, so call it where waiting is allowed.
    pub fn decide(
        &self,
        request: &RouteRequest,
        settings: &RouterSettings,
        decision_id: DecisionId,
        moment: Moment,
        mode: Mode,
    ) -> Result<Decision, RouteError> {
        let watch = Stopwatch::start();
        let mut slot = self.slot.lock();
        for _ in 0..MOST_ATTEMPTS {
            let attempt = Attempt {
                partition: self,
                snapshot: self.ledger.snapshot(),
                request,
                settings,
                decision_id,
                moment,
            };
            if let Some(decision) = attempt.make(&mut slot, mode, &watch)? {
                return Ok(decision);
            }
        }
        // The fleet changes faster than we decide; as good as no fleet.
        Err(RouteError::NoEndpoints {
            partition: self.key.clone(),
            excluded: slot.eligibility.excluded,
        })
    }

    /// Holds decisions up until the guard is dropped: to put a new policy in place.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock()
    }
}

impl Slot {
    /// Hands the present policy's state to `next`, while decisions are held up.
    pub(crate) fn hand_over(&mut self, next: &mut Pipeline) -> Result<bool, StageFailure> {
        let discard = next.discards_state();
        match next.take_over(&mut self.current) {
            Err(failure) if discard => {
                tracing::warn!(%failure, "state was discarded, as the instance's owner wants");
                Ok(false)
            }
            handed => handed,
        }
    }

    /// Puts `next` in the present policy's place, and keeps that until `next` has proven itself.
    pub(crate) fn replace(&mut self, next: Pipeline, fallback: Pipeline) {
        self.previous = Some(std::mem::replace(&mut self.current, next));
        self.fallback = fallback;
        self.good_decisions = 0;
        self.told_generation = u64::MAX;
    }

    fn tell_fleet(&mut self, snapshot: &Snapshot) {
        if self.told_generation == snapshot.generation {
            return;
        }
        self.told_generation = snapshot.generation;
        for (policy_type, error) in self.current.fleet_changed(snapshot) {
            tracing::warn!(%policy_type, %error, "a policy failed when told of the fleet");
        }
    }

    fn proved(&mut self) {
        if self.previous.is_some() {
            self.good_decisions += 1;
            if self.good_decisions >= PROVEN_AFTER {
                self.previous = None;
            }
        }
    }
}

fn label(pipeline: &Pipeline) -> PolicyLabel {
    let first = pipeline.sources().first();
    PolicyLabel {
        name: pipeline.name().clone(),
        policy_type: first.map_or_else(|| pipeline.name().clone(), |s| s.policy_type().clone()),
        digest: first.and_then(|source| source.digest().cloned()),
    }
}

/// One try at a decision, over one snapshot.
struct Attempt<'a> {
    partition: &'a Partition,
    snapshot: Arc<Snapshot>,
    request: &'a RouteRequest,
    settings: &'a RouterSettings,
    decision_id: DecisionId,
    moment: Moment,
}

impl Attempt<'_> {
    /// None when the chosen worker left meanwhile.
    fn make(
        &self,
        slot: &mut Slot,
        mode: Mode,
        watch: &Stopwatch,
    ) -> Result<Option<Decision>, RouteError> {
        slot.eligibility.find(&self.snapshot, self.request);
        if slot.eligibility.rows.is_empty() {
            return Err(self.nobody(slot));
        }
        slot.tell_fleet(&self.snapshot);
        let first = self.snapshot.workers.first();
        let block_size = first.map_or(DEFAULT_BLOCK_SIZE, |worker| worker.spec.block_size).get();
        let tracks = self
            .request
            .track_prefill_tokens
            .unwrap_or(self.settings.router_track_prefill_tokens);
        let view = RequestView::new(
            self.request,
            self.decision_id,
            self.moment,
            block_size,
            tracks,
            slot.eligibility.pinned,
        );
        let parts = mode == Mode::DryRun;
        let counters = &self.partition.counters;
        let (selected, fallback, decided_by) = match self.run(&mut slot.current, &slot.eligibility, &view, parts) {
            Ok(selected) => {
                slot.proved();
                (selected, None, &slot.current)
            }
            Err(RunError::AllFiltered) => return Err(self.all_filtered(slot)),
            Err(RunError::Failed { failure, on_failure }) => {
                counters.failed(failure.cause);
                self.log_failure(&failure, on_failure);
                if on_failure == OnFailure::Reject {
                    return Err(RouteError::Policy(failure));
                }
                let Slot { previous, fallback, eligibility, .. } = slot;
                let last_good = previous.as_mut().filter(|_| on_failure == OnFailure::LastGood);
                let by_last_good = last_good.and_then(|previous| {
                    let selected = self.run(previous, eligibility, &view, parts).ok()?;
                    Some((selected, &*previous))
                });
                counters.fallbacks.fetch_add(1, Ordering::Relaxed);
                match by_last_good {
                    Some((selected, previous)) => (selected, Some(failure), previous),
                    None => match self.run(fallback, eligibility, &view, parts) {
                        Ok(selected) => (selected, Some(failure), &*fallback),
                        Err(_) => return Err(RouteError::Policy(failure)),
                    },
                }
            }
        };
        let eligible = &slot.eligibility;
        let row = eligible.rows[selected.row] as usize;
        let (Some(&rank), Some(worker)) = (self.snapshot.rows.get(row), self.snapshot.worker(row))
        else {
            return Ok(None);
        };
        let lease = match mode {
            Mode::DryRun => None,
            Mode::Book => {
                let charge = Charge {
                    prefill_tokens: if tracks { view.prompt_tokens } else { 0 },
                    decode_blocks: self.decode_blocks(&view),
                };
                match self.partition.ledger.book(&self.snapshot, row, charge) {
                    Some(lease) => Some(lease),
                    None => return Ok(None),
                }
            }
        };
        counters.decisions.fetch_add(1, Ordering::Relaxed);
        let receipt = Receipt {
            decision_id: self.decision_id,
            request_id: self.request.request_id.clone(),
            partition: self.partition.key.clone(),
            policy: label(decided_by),
            fallback,
            worker: rank,
            epoch: worker.epoch,
            cost: selected.cost,
            prompt_tokens: self.request.prompt_tokens,
            prompt_tokens_exact: self.request.prompt_tokens_exact,
            eligible: eligible.rows.len() as u32,
            kept: selected.kept as u32,
            excluded: eligible.excluded,
            stages: decided_by.trace().iter().cloned().collect(),
            micros: watch.elapsed().as_nanos() as f64 / 1_000.0,
            now_ms: self.moment.now_ms,
            seed: self.moment.seed,
            fleet_generation: self.snapshot.generation,
            rows: parts.then(|| self.row_reports(decided_by, &eligible.rows)),
        };
        Ok(Some(Decision { worker: worker.spec.clone(), receipt, lease }))
    }

    fn run(
        &self,
        pipeline: &mut Pipeline,
        eligible: &Eligibility,
        view: &RequestView<'_>,
        parts: bool,
    ) -> Result<Selected, RunError> {
        let rows = &eligible.rows;
        let additional = self.decode_blocks(view) as f64;
        self.partition.ledger.read(|books| {
            // Rows of another generation have moved; the booking will find out.
            let same = books.snapshot.generation == self.snapshot.generation;
            let columns = same.then_some(&books.columns);
            pipeline.load(&self.snapshot, rows, |input, column| {
                self.fill(columns, input, rows, additional, column);
            });
        });
        pipeline.run(view, parts)
    }

    fn fill(
        &self,
        loads: Option<&Columns>,
        input: Input,
        rows: &[u32],
        additional: f64,
        column: &mut [f64],
    ) {
        let copy = |from: Option<&Vec<f64>>, column: &mut [f64], plus: f64| match from {
            None => column.fill(plus),
            // All rows: one block.
            Some(from) if from.len() == rows.len() => {
                column.iter_mut().zip(from).for_each(|(to, from)| *to = from + plus);
            }
            Some(from) => {
                let from = rows.iter().map(|&row| from.get(row as usize).copied().unwrap_or(0.0));
                column.iter_mut().zip(from).for_each(|(to, from)| *to = from + plus);
            }
        };
        match input {
            Input::ActiveRequests => copy(loads.map(|l| &l.active_requests), column, 0.0),
            Input::ActivePrefillTokens => copy(loads.map(|l| &l.active_prefill_tokens), column, 0.0),
            Input::DecodeCostBlocks => copy(loads.map(|l| &l.active_decode_blocks), column, additional),
            Input::PreferredTaintMultiplier => self.fill_taints(rows, column),
            // No index feeds these yet.
            Input::Identity
            | Input::DeviceOverlapBlocks
            | Input::HostOverlapBlocks
            | Input::DiskOverlapBlocks
            | Input::SharedBeyondDeviceBlocks
            | Input::EffectiveOverlapBlocks
            | Input::CachedTokens => column.fill(0.0),
        }
    }

    fn fill_taints(&self, rows: &[u32], column: &mut [f64]) {
        let preferred = &self.request.constraints.preferred_taints;
        if preferred.is_empty() {
            column.fill(1.0);
            return;
        }
        for (to, &row) in column.iter_mut().zip(rows) {
            let taints = self.snapshot.worker(row as usize).map(|worker| &worker.spec.taints);
            let weights = preferred.iter().filter(|(taint, _)| {
                taints.is_some_and(|taints| taints.contains(*taint))
            });
            *to = builtin::preferred_taint_multiplier(weights.map(|(_, weight)| weight).sum());
        }
    }

    fn decode_blocks(&self, view: &RequestView<'_>) -> u64 {
        if self.settings.router_track_active_blocks { view.request_blocks } else { 0 }
    }

    fn row_reports(&self, pipeline: &Pipeline, eligible: &[u32]) -> Vec<RowReport> {
        let reports = pipeline.rows().filter_map(|(at, cost)| {
            let worker = *self.snapshot.rows.get(*eligible.get(at)? as usize)?;
            Some(RowReport { worker, kept: cost.is_some(), cost })
        });
        reports.collect()
    }

    fn log_failure(&self, failure: &StageFailure, on_failure: OnFailure) {
        tracing::warn!(
            partition = %self.partition.key,
            decision_id = %self.decision_id,
            %failure,
            ?on_failure,
            "a policy failed to decide"
        );
    }

    fn all_filtered(&self, slot: &Slot) -> RouteError {
        self.partition.counters.all_filtered.fetch_add(1, Ordering::Relaxed);
        RouteError::AllEligibleWorkersFiltered {
            partition: self.partition.key.clone(),
            policy: slot.current.name().to_string(),
            eligible: slot.eligibility.rows.len() as u32,
        }
    }

    /// Why the rules left no row.
    fn nobody(&self, slot: &Slot) -> RouteError {
        let excluded = slot.eligibility.excluded;
        if let Some(target) = self.request.constraints.pinned
            && let Some(problem) = Eligibility::pin_problem(&self.snapshot, self.request)
        {
            return RouteError::PinnedWorker { target: target as WorkerTarget, problem };
        }
        if excluded.overloaded > 0 {
            return RouteError::AllEligibleWorkersOverloaded(self.partition.key.clone());
        }
        RouteError::NoEndpoints { partition: self.partition.key.clone(), excluded }
    }
}

#[cfg(test)]
mod tests;
