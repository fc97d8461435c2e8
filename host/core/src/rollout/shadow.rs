//! A policy that is watched: it decides what another has decided, and nobody goes by it.
//!
//! Owns its pipeline, which decisions it is shown, and how its choices compare with those that were
//! made. It doesn't know when: whoever shows it a decision does so on time of his own.

mod purse;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::clock::{Chance, Moment, Stopwatch};
use crate::ids::WorkerRank;
use crate::outcome::DecisionOutcome;
use crate::policy::catalog::Digest;
use crate::policy::input::InputSet;
use crate::policy::pipeline::{Pipeline, Told};
use crate::policy::selection::{ShadowSpec, as_percent};
use crate::receipt::{PolicyLabel, Receipt};
use crate::recording::{ReplayError, Sample};
use purse::Purse;

/// How much it may owe before that is taken out of what it has saved up.
const SETTLED: Duration = Duration::from_micros(100);

/// How balanced it is is seen over so many decisions, and up to twice as many.
const WINDOW: u64 = 10_000;

/// So that no two shadows are shown the same decisions for want of chance.
const SALT: u64 = 0x0073_6861_646f_7700;

/// What a shadow made of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The same choice.
    Agreed,
    /// Another.
    Differed,
    /// It failed, or rejected every row.
    Failed,
}

/// How a shadow compares with what is decided in one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowReport {
    /// Which instance.
    pub instance: Arc<str>,
    /// Its type; the first one's, if it has stages of several.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its component's identity; none for a native policy.
    pub digest: Option<Digest>,
    /// The share of decisions that it is to be shown.
    #[serde(rename = "percent", serialize_with = "as_percent")]
    pub sample: f64,
    /// Whether an operator has turned it off.
    pub disabled: bool,
    /// Decisions that it has been shown.
    pub decisions: u64,
    /// Of those, in which it chose the same row.
    pub agreed: u64,
    /// Of those, that it failed, or for which it rejected every row.
    pub failed: u64,
    /// Decisions that it would have been shown, but for its budget.
    pub over_budget: u64,
    /// Decisions that it would have been shown, but that too many were waiting.
    pub dropped: u64,
    /// Prompt tokens that were predicted to be cached where it would have sent them, beyond those
    /// where they went.
    pub cached_tokens_gained: u64,
    /// The same the other way round.
    pub cached_tokens_lost: u64,
    /// Of lately, as decided: tokens to be computed on the busiest row, by the mean of all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imbalance_of_decisions: Option<f64>,
    /// The same as it would have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imbalance: Option<f64>,
    /// Units of fuel for a decision, on average; none where nothing is metered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<f64>,
    /// Microseconds for a decision, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micros: Option<f64>,
    /// How it failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

#[derive(Debug, Default)]
struct Tally {
    decisions: u64,
    agreed: u64,
    failed: u64,
    gained: u64,
    lost: u64,
    fuel: Option<u64>,
    micros: f64,
    last_error: Option<String>,
    /// Tokens to be computed by row, of lately: as decided, and as it would have been.
    computed: BTreeMap<WorkerRank, [f64; 2]>,
    /// Decisions of which those are.
    lately: u64,
    rows: usize,
    /// Time that was used, and not taken out of the purse yet.
    owed: Duration,
}

/// A shadow in one partition.
#[derive(Debug)]
pub struct Shadow {
    spec: ShadowSpec,
    salt: u64,
    inputs: InputSet,
    prefix_hash_blocks: u32,
    observes: bool,
    purse: Purse,
    over_budget: AtomicU64,
    dropped: AtomicU64,
    disabled: AtomicBool,
    watching: Watching,
}

/// What changes with each decision that it is shown: on cache lines of its own, since those who
/// decide read the rest.
#[derive(Debug)]
#[repr(align(128))]
struct Watching {
    pipeline: Mutex<Pipeline>,
    tally: Mutex<Tally>,
    /// Whose state it takes over.
    before: Mutex<Option<Arc<Shadow>>>,
}

impl Shadow {
    pub(crate) fn new(spec: ShadowSpec, nth: usize, pipeline: Pipeline) -> Self {
        Self {
            spec,
            salt: SALT ^ nth as u64,
            inputs: pipeline.inputs().iter().copied().collect(),
            prefix_hash_blocks: pipeline.prefix_hash_blocks(),
            observes: pipeline.observes(),
            purse: Purse::default(),
            over_budget: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            disabled: AtomicBool::new(false),
            watching: Watching {
                pipeline: Mutex::new(pipeline),
                tally: Mutex::default(),
                before: Mutex::default(),
            },
        }
    }

    /// Which instance.
    #[must_use]
    pub fn instance(&self) -> &Arc<str> {
        &self.spec.instance
    }

    /// The columns that it reads.
    pub(crate) fn inputs(&self) -> InputSet {
        self.inputs
    }

    /// How many leading hashes it reads.
    pub(crate) fn prefix_hash_blocks(&self) -> u32 {
        self.prefix_hash_blocks
    }

    /// Whether it is to be shown a decision.
    pub(crate) fn wants(&self, moment: Moment) -> bool {
        if self.is_disabled() {
            return false;
        }
        if self.spec.sample < 1.0 && Chance::new(moment.seed ^ self.salt).unit() >= self.spec.sample
        {
            return false;
        }
        let affordable = self.purse.earn(self.spec.budget, moment.now_ms);
        if !affordable {
            self.over_budget.fetch_add(1, Ordering::Relaxed);
        }
        affordable
    }

    /// It was not shown a decision that it wanted.
    pub fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Shows it a decision. Takes as long as it takes to decide.
    pub fn watch(&self, sample: &Sample, decided: &Receipt) -> Seen {
        let watch = Stopwatch::start();
        let mut pipeline = self.pipeline();
        let answer = pipeline.replay(&sample.recording, Some(&sample.fleet), false);
        let fuel = pipeline.trace().iter().filter_map(|stage| stage.fuel);
        let fuel = fuel.reduce(u64::saturating_add);
        drop(pipeline);
        let took = watch.elapsed();
        let mut tally = self.watching.tally.lock();
        tally.owed += took;
        if tally.owed >= SETTLED {
            // Not each time: those who decide look into the purse.
            let owed = std::mem::take(&mut tally.owed);
            self.purse.pay(owed);
        }
        tally.decisions += 1;
        tally.micros += took.as_nanos() as f64 / 1_000.0;
        if let Some(fuel) = fuel {
            tally.fuel = Some(tally.fuel.unwrap_or(0).saturating_add(fuel));
        }
        match answer {
            Ok(selected) => tally.compare(sample, decided, selected.row),
            Err(error) => {
                tally.failed += 1;
                tally.last_error = Some(told(&error));
                Seen::Failed
            }
        }
    }

    /// Whether it learns from outcomes: one that is shown nothing doesn't.
    pub(crate) fn observes(&self) -> bool {
        self.observes && self.spec.sample > 0.0
    }

    /// Tells it what became of decisions, on its own time: if it has none left, it isn't told.
    pub(crate) fn observe(&self, outcomes: &[DecisionOutcome], now_ms: u64, told: &mut Vec<Told>) {
        if self.is_disabled() || !self.purse.earn(self.spec.budget, now_ms) {
            return;
        }
        let watch = Stopwatch::start();
        self.pipeline().observe(outcomes, now_ms, told);
        self.purse.pay(watch.elapsed());
    }

    /// It is to go on with what the one before has learnt, from the first time that it is asked:
    /// then, on time of its own, that one may be waited for.
    pub(crate) fn take_over(&self, before: &Arc<Self>) {
        if std::ptr::eq(&**before, self) || self.spec.sample <= 0.0 {
            return;
        }
        // One that was never asked has learnt nothing but what it was to take over itself.
        let its = before.watching.before.lock().take();
        *self.watching.before.lock() = Some(its.unwrap_or_else(|| before.clone()));
    }

    /// Its pipeline, with the state of the one before.
    fn pipeline(&self) -> MutexGuard<'_, Pipeline> {
        let mut pipeline = self.watching.pipeline.lock();
        let before = self.watching.before.lock().take();
        if let Some(before) = before {
            // It may never have been asked itself.
            if let Err(error) = pipeline.take_over(&mut before.pipeline()) {
                tracing::warn!(%error, "a policy that is only watched begins without its state");
            }
        }
        pipeline
    }

    /// Turns it off, or on: off, it is shown nothing and told nothing.
    pub(crate) fn set_disabled(&self, disabled: bool) {
        self.disabled.store(disabled, Ordering::Relaxed);
    }

    fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    /// How it compares.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        // Not while it decides: one lock after the other.
        let PolicyLabel { name, policy_type, digest } = self.watching.pipeline.lock().label();
        let tally = self.watching.tally.lock();
        let mean = |sum: f64| (tally.decisions > 0).then(|| sum / tally.decisions as f64);
        ShadowReport {
            instance: name,
            policy_type,
            digest,
            sample: self.spec.sample,
            disabled: self.is_disabled(),
            decisions: tally.decisions,
            agreed: tally.agreed,
            failed: tally.failed,
            over_budget: self.over_budget.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            cached_tokens_gained: tally.gained,
            cached_tokens_lost: tally.lost,
            imbalance_of_decisions: tally.imbalance(0),
            imbalance: tally.imbalance(1),
            fuel: tally.fuel.and_then(|fuel| mean(fuel as f64)),
            micros: mean(tally.micros),
            last_error: tally.last_error.clone(),
        }
    }
}

impl Tally {
    fn compare(&mut self, sample: &Sample, decided: &Receipt, row: usize) -> Seen {
        let recording = &sample.recording;
        let Some(&chosen) = recording.rows.get(row) else {
            self.failed += 1;
            return Seen::Failed;
        };
        let cached_at = |row| recording.cached_tokens(row);
        let there = recording.rows.binary_search(&decided.worker).map_or(0, cached_at);
        let here = cached_at(row);
        self.gained += here.saturating_sub(there);
        self.lost += there.saturating_sub(here);
        let tokens = recording.facts.prompt_tokens;
        for (nth, rank, cached) in [(0, decided.worker, there), (1, chosen, here)] {
            self.computed.entry(rank).or_default()[nth] += tokens.saturating_sub(cached) as f64;
        }
        self.rows = sample.fleet.rows.len();
        if self.computed.len() > self.rows {
            let rows = &sample.fleet.rows;
            self.computed.retain(|rank, _| rows.binary_search(rank).is_ok());
        }
        self.lately += 1;
        if self.lately >= 2 * WINDOW {
            self.lately /= 2;
            self.computed.values_mut().flatten().for_each(|tokens| *tokens /= 2.0);
        }
        if chosen == decided.worker {
            self.agreed += 1;
            Seen::Agreed
        } else {
            Seen::Differed
        }
    }

    /// The busiest row's tokens by the mean of all rows; none as long as there are none.
    fn imbalance(&self, nth: usize) -> Option<f64> {
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for tokens in self.computed.values() {
            sum += tokens[nth];
            most = most.max(tokens[nth]);
        }
        (sum > 0.0 && self.rows > 0).then(|| most * self.rows as f64 / sum)
    }
}

fn told(error: &ReplayError) -> String {
    error.to_string().chars().take(400).collect()
}
