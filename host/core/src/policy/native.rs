//! Policies written in Rust and linked in: the stage traits, and the instance made of them.
//!
//! The built-ins use these traits and nothing else, as anyone's would. One that declares `fused` has its
//! stages called in one go where nobody needs their answers one by one.

mod whole;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::candidates::Candidates;
use super::declaration::{Declaration, Properties, Stage};
use super::failure::{Cause, StageError};
use super::input::{Input, InputSet};
use super::instance::{Outcome, PolicyInstance};
use super::row_mask::RowMask;
use super::view::RequestView;
use crate::fleet::Snapshot;
use crate::hosted::{Guarded, HostedPicker};
use crate::outcome::DecisionOutcome;
use whole::Whole;

/// Keeps or rejects rows.
pub trait WorkerFilter: Send + fmt::Debug {
    /// What it reads; asked once.
    fn inputs(&self) -> &[Input];

    /// Whether it may reject any row for this request. One that says no isn't asked where all stages
    /// are called in one go.
    fn concerns(&self, _request: &RequestView<'_>) -> bool {
        true
    }

    /// Rejects rows in `verdicts`, which comes with every row kept.
    fn keep(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError>;
}

/// Gives rows a cost; lower is better.
pub trait WorkerScorer: Send + fmt::Debug {
    /// What it reads; asked once.
    fn inputs(&self) -> &[Input];

    /// Writes one finite cost per row.
    fn score(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError>;

    /// Promises that [`WorkerScorer::score`] writes each cost, or fails. Then `costs` are anything when it is
    /// called, instead of NaN, by which a row that was left out is found: one pass over them less.
    fn leaves_none_out(&self) -> bool {
        false
    }
}

/// Picks a row.
pub trait WorkerPicker: Send + fmt::Debug {
    /// What it reads; asked once.
    fn inputs(&self) -> &[Input];

    /// The index of one of the rows. `costs` has one value per row, 0 when nothing scored.
    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError>;

    /// The partition's rows are now these. Called before the first decision over them.
    fn fleet_changed(&mut self, _fleet: &Snapshot) {}
}

/// Learns from what became of decisions.
pub trait Observer: Send + fmt::Debug {
    /// Takes note of events, in order.
    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError>;
}

/// Native stages, each with what it declared.
#[derive(Debug, Default)]
struct Stages {
    filters: Vec<(InputSet, Box<dyn WorkerFilter>)>,
    scorers: Vec<(InputSet, Box<dyn WorkerScorer>)>,
    picker: Option<(InputSet, Box<dyn WorkerPicker>)>,
}

/// An instance made of native stages.
#[derive(Debug)]
pub struct NativePolicy {
    declaration: Declaration,
    stages: Stages,
    observer: Option<Box<dyn Observer>>,
    hosted: Option<Arc<dyn HostedPicker>>,
    whole: Whole,
    /// A stage has panicked, and left the others and itself who knows how.
    spoilt: bool,
}

impl NativePolicy {
    /// A policy with no stages yet, which promises `properties`.
    #[must_use]
    pub fn new(properties: Properties) -> Self {
        Self {
            declaration: Declaration { properties, ..Declaration::default() },
            stages: Stages::default(),
            observer: None,
            hosted: None,
            whole: Whole::default(),
            spoilt: false,
        }
    }

    /// Adds a filter.
    #[must_use]
    pub fn filter(mut self, name: &str, filter: impl WorkerFilter + 'static) -> Self {
        let stage = Stage::new(name, filter.inputs());
        self.stages.filters.push((stage.input_set(), Box::new(filter)));
        self.declaration.filters.push(stage);
        self
    }

    /// Adds a scorer.
    #[must_use]
    pub fn scorer(mut self, name: &str, scorer: impl WorkerScorer + 'static) -> Self {
        let stage = Stage::new(name, scorer.inputs());
        self.stages.scorers.push((stage.input_set(), Box::new(scorer)));
        self.declaration.scorers.push(stage);
        self
    }

    /// Sets who learns from outcomes, and declares that.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.declaration.properties.observes = true;
        self.observer = Some(Box::new(observer));
        self
    }

    /// Asks for so many leading sequence hashes of each prompt, for all stages.
    #[must_use]
    pub fn prefix_hashes(mut self, blocks: u32) -> Self {
        self.declaration.prefix_hash_blocks = blocks;
        self
    }

    /// Sets the picker.
    #[must_use]
    pub fn picker(mut self, name: &str, picker: impl WorkerPicker + 'static) -> Self {
        let stage = Stage::new(name, picker.inputs());
        self.stages.picker = Some((stage.input_set(), Box::new(picker)));
        self.declaration.picker = Some(stage);
        self
    }

    /// Sets who picks in the picker's place where that is all there is to decide, and nothing needs
    /// the partition's lock.
    #[must_use]
    pub fn hosted(self, picker: impl HostedPicker + 'static) -> Self {
        self.hosted_unguarded(Guarded(picker))
    }

    /// The same with one of the host's own, which never panics.
    pub(super) fn hosted_unguarded(mut self, picker: impl HostedPicker + 'static) -> Self {
        self.hosted = Some(Arc::new(picker));
        self
    }
}

fn no_such(stage: &str) -> StageError {
    StageError::bad_output(format!("asked for a {stage} that isn't declared"))
}

/// Calls a stage, and takes a panic for what it is to a component: a trap. Nothing is asked of a
/// policy that has panicked: the host makes another in its place before the next decision.
fn guarded<T>(
    spoilt: &mut bool,
    call: impl FnOnce() -> Result<T, StageError>,
) -> Result<T, StageError> {
    if *spoilt {
        return Err(StageError::new(Cause::Unavailable, "it has panicked, and is made anew"));
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        *spoilt = true;
        let said = payload.downcast_ref::<&str>().copied();
        let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let said: String = said.unwrap_or("no message").chars().take(200).collect();
        Err(StageError::new(Cause::Trap, format!("it panicked: {said:?}")))
    })
}

impl PolicyInstance for NativePolicy {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let filter = self.stages.filters.get_mut(filter).ok_or_else(|| no_such("filter"))?;
        guarded(&mut self.spoilt, || filter.1.keep(request, rows, verdicts))
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        let scorer = self.stages.scorers.get_mut(scorer).ok_or_else(|| no_such("scorer"))?;
        guarded(&mut self.spoilt, || scorer.1.score(request, rows, costs))
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        let picker = self.stages.picker.as_mut().ok_or_else(|| no_such("picker"))?;
        guarded(&mut self.spoilt, || picker.1.pick(request, rows, costs))
    }

    fn decide(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        let Self { declaration, stages, whole, spoilt, .. } = self;
        whole.decide(stages, declaration, spoilt, request, *rows, outcome)
    }

    fn replaces_costs(&self) -> bool {
        true
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        let Some((_, picker)) = &mut self.stages.picker else { return Ok(()) };
        guarded(&mut self.spoilt, || {
            picker.fleet_changed(fleet);
            Ok(())
        })
    }

    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        let Some(observer) = &mut self.observer else { return Ok(()) };
        guarded(&mut self.spoilt, || observer.observe(outcomes))
    }

    fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    fn hosted(&self) -> Option<Arc<dyn HostedPicker>> {
        self.hosted.clone()
    }
}
