//! The stages of one policy in one partition, run in order and checked.
//!
//! Owns the instances, the reused buffers of a decision, and the host's checks of every answer.
//! It is asked under its partition's lock: first [`Pipeline::load`] with the eligible rows, then
//! [`Pipeline::run`]. It doesn't know who is eligible, what becomes of a failure, or who books.

mod assembly;
mod fused;
mod handover;
mod hosting;
mod observers;
mod records;
mod source;
mod stages;
mod traces;

use std::sync::Arc;

use thiserror::Error;

use super::breaker::Turn;
use super::builtin::DIRECT;
use super::candidates::Matrix;
use super::failure::StageFailure;
use super::input::{Input, InputSet};
use super::instance::Outcome;
use super::normalisation::Normalisation;
use super::row_mask::RowMask;
use super::selection::{OnFailure, Safeguards, StageUse};
use super::view::RequestView;
use crate::fleet::Snapshot;
use crate::receipt::{PolicyLabel, StageTrace};
use crate::recording::{RecordedRows, StageAnswer};
use traces::Traces;

pub use observers::Told;
pub use source::Source;

/// One stage in use.
#[derive(Debug)]
struct StageRef {
    source: usize,
    stage: usize,
    name: Arc<str>,
    inputs: Vec<Input>,
    declared: InputSet,
    /// How many leading hashes its instance declared.
    prefix_hash_blocks: u32,
    part: Part,
    on_failure: OnFailure,
}

/// What a scorer's costs are to the sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) normalisation: Normalisation,
    pub(crate) weight: f64,
}

impl Default for Part {
    fn default() -> Self {
        Self { normalisation: Normalisation::None, weight: 1.0 }
    }
}

impl From<&StageUse> for Part {
    fn from(stage: &StageUse) -> Self {
        Self { normalisation: stage.normalisation, weight: stage.weight }
    }
}

/// The stages, in order.
#[derive(Debug)]
pub struct Pipeline {
    name: Arc<str>,
    discard_state: bool,
    safeguards: Safeguards,
    /// What the decision's stages may still use; none if there is no such limit.
    fuel_left: Option<u64>,
    sources: Vec<Source>,
    filters: Vec<StageRef>,
    scorers: Vec<StageRef>,
    picker: Option<StageRef>,
    /// The whole instance's inputs, when it can decide in one call.
    fused: Option<InputSet>,
    /// Whether some stage reads what caches hold.
    reads_caches: bool,
    whole_on_failure: OnFailure,
    /// The fleet that the instances know.
    told_generation: Option<u64>,
    scratch: Scratch,
}

/// What one decision needs of memory, kept for the next.
#[derive(Debug, Default)]
struct Scratch {
    matrix: Matrix,
    /// Columns that are to be handed over as they were loaded.
    awaited: InputSet,
    /// Where those stand if rows were rejected since, and before that the memory for the rows that are left.
    aside: Matrix,
    is_aside: bool,
    ids: RecordedRows,
    /// Where each row that is left stood when the rows were loaded, if some were rejected since.
    kept: Vec<u32>,
    narrowed: bool,
    loaded: usize,
    mask: RowMask,
    /// The same before the filter that is being asked.
    mask_before: RowMask,
    verdicts: RowMask,
    costs: Vec<f64>,
    contribution: Vec<f64>,
    /// For who ranks costs.
    order: Vec<u32>,
    outcome: Outcome,
    trace: Traces,
    /// What the stages of the last run answered, if somebody wanted to know.
    answers: Option<Vec<StageAnswer>>,
}

/// The chosen row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selected {
    /// An index into the rows that were loaded.
    pub row: usize,
    /// Its cost; 0 when nothing scored.
    pub cost: f64,
    /// How many rows the filters left.
    pub kept: usize,
}

/// Why nothing was chosen.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RunError {
    /// The filters left no row. Not a failure of theirs.
    #[error("its filters rejected every row")]
    AllFiltered,
    /// A stage failed.
    #[error("{failure}")]
    Failed {
        /// How.
        failure: Box<StageFailure>,
        /// What its owner wants done about it.
        on_failure: OnFailure,
    },
}

impl Pipeline {
    /// The instance's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its instances' types and digests.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Which policy it is: by its first instance, if it has several.
    #[must_use]
    pub fn label(&self) -> PolicyLabel {
        let first = self.sources.first();
        PolicyLabel {
            name: self.name.clone(),
            policy_type: first.map_or(&self.name, Source::policy_type).clone(),
            digest: first.and_then(Source::digest).cloned(),
        }
    }

    /// What each stage of the last run cost.
    #[must_use]
    pub fn trace(&self) -> &[StageTrace] {
        self.scratch.trace.get()
    }

    /// Whether some stage's owner wants the version before this one to decide what it fails.
    #[must_use]
    pub fn wants_last_good(&self) -> bool {
        let stages = self.filters.iter().chain(&self.scorers).chain(&self.picker);
        stages.map(|stage| stage.on_failure).any(|on_failure| on_failure == OnFailure::LastGood)
    }

    /// Whether it goes where a request says and nowhere else: its picker is the built-in `direct`, and
    /// nobody may pick in its place.
    #[must_use]
    pub fn needs_target(&self) -> bool {
        let picker = self.picker.as_ref().filter(|it| it.on_failure == OnFailure::Reject);
        let source = picker.and_then(|picker| self.sources.get(picker.source));
        // A component can't take a built-in's name.
        source.is_some_and(|source| **source.policy_type() == *DIRECT)
    }

    /// Whether some stage reads what caches hold.
    #[must_use]
    pub fn reads_caches(&self) -> bool {
        self.reads_caches
    }

    /// Whether some stage reads what a cache that all workers share holds.
    #[must_use]
    pub fn reads_shared_cache(&self) -> bool {
        self.inputs().contains(&Input::SharedBeyondDeviceBlocks)
    }

    /// Takes in the rows of a decision, ascending rows of `snapshot`: their identity, and each
    /// column that some stage declared. What is known to be neutral in all rows isn't filled.
    pub fn load(
        &mut self,
        snapshot: &Arc<Snapshot>,
        rows: &[u32],
        neutral: InputSet,
        fill: impl FnMut(Input, &mut [f64]),
    ) {
        let ids = &mut self.scratch.ids;
        ids.take(snapshot, rows);
        if ids.len() != rows.len() {
            // Rows of another snapshot can't be decided over; none is left then.
            ids.clear();
        }
        self.scratch.fill(neutral, fill);
    }

    /// The columns that some stage reads.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        self.scratch.matrix.inputs()
    }

    /// How many leading hashes some stage reads.
    #[must_use]
    pub fn prefix_hash_blocks(&self) -> u32 {
        let stages = self.filters.iter().chain(&self.scorers).chain(&self.picker);
        stages.map(|stage| stage.prefix_hash_blocks).max().unwrap_or(0)
    }

    /// Whether each instance's answers depend on the call alone.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        self.sources.iter().all(|source| source.instance.declaration().properties.stateless)
    }

    /// Runs the stages over the rows that were loaded; none are all filtered. With `parts`, every stage is
    /// called by itself, so that [`Pipeline::rows`] can tell verdicts and costs.
    pub fn run(&mut self, request: &RequestView<'_>, parts: bool) -> Result<Selected, RunError> {
        self.scratch.trace.clear();
        self.scratch.answers.iter_mut().for_each(Vec::clear);
        if self.scratch.ids.is_empty() {
            return Err(RunError::AllFiltered);
        }
        self.fuel_left = self.safeguards.decision_fuel;
        let answer = match self.fused {
            Some(declared) if !parts => self.run_fused(request, declared),
            _ => self.run_parts(request),
        };
        let now_ms = request.moment.now_ms;
        for source in &mut self.sources {
            if let Some(turn) = source.end_decision(now_ms) {
                tell_of_breaker(&self.name, source.policy_type(), turn);
            }
        }
        answer
    }

    fn run_parts(&mut self, request: &RequestView<'_>) -> Result<Selected, RunError> {
        self.run_filters(request)?;
        self.run_scorers(request)?;
        self.run_picker(request)
    }

    /// The rows that were loaded, as the last run left them: (index, cost if kept).
    pub fn rows(&self) -> impl Iterator<Item = (usize, Option<f64>)> + '_ {
        let scratch = &self.scratch;
        let kept = (0..scratch.left()).filter_map(|at| scratch.loaded_place(at));
        let mut kept = kept.zip(&scratch.costs).peekable();
        (0..scratch.loaded).map(move |row| {
            let cost = kept.next_if(|(at, _)| *at == row).map(|(_, &cost)| cost);
            (row, cost)
        })
    }

    /// The rows that the last run kept, by their places among those that were loaded.
    pub(crate) fn kept(&self) -> &[u32] {
        &self.scratch.kept
    }

    /// Tells the instances that asked for it of the fleet, unless they know it. A failure is
    /// logged, and doesn't stop the others: nothing is decided by it.
    pub fn tell_fleet(&mut self, fleet: &Snapshot) {
        if self.told_generation == Some(fleet.generation) {
            return;
        }
        self.told_generation = Some(fleet.generation);
        for source in &mut self.sources {
            if source.instance.declaration().properties.follows_fleet
                && let Err(error) = source.instance.fleet_changed(fleet)
            {
                tracing::warn!(
                    policy = &*self.name,
                    policy_type = &**source.policy_type(),
                    %error,
                    "a policy failed when told of the fleet"
                );
            }
        }
    }

    /// Makes anew what can't be trusted any more. To be called before each decision.
    pub fn renew(&mut self) {
        for source in &mut self.sources {
            if source.is_spoilt() {
                match source.renew() {
                    Ok(()) => {
                        tracing::warn!(
                            policy = &*self.name,
                            policy_type = &**source.policy_type(),
                            "a policy that panicked was made anew; its state is lost"
                        );
                        self.told_generation = None;
                    }
                    Err(error) => tracing::error!(
                        policy = &*self.name,
                        policy_type = &**source.policy_type(),
                        %error,
                        "a policy that panicked can't be made anew"
                    ),
                }
            }
        }
    }
}

impl Scratch {
    /// Takes in the columns of the rows in `ids`.
    fn fill(&mut self, neutral: InputSet, fill: impl FnMut(Input, &mut [f64])) {
        self.loaded = self.ids.len();
        self.narrowed = false;
        (self.awaited, self.is_aside) = (InputSet::default(), false);
        self.matrix.fill_but(self.loaded, neutral, fill);
    }

    /// Leaves only the rows in `kept` of the columns; somebody may wait for all of them.
    fn compact(&mut self) {
        if self.awaited.is_empty() {
            self.matrix.compact(&self.kept);
            return;
        }
        self.aside.become_rows_of(&self.matrix, &self.kept);
        std::mem::swap(&mut self.matrix, &mut self.aside);
        self.is_aside = true;
    }

    /// How many rows are left.
    fn left(&self) -> usize {
        if self.narrowed { self.kept.len() } else { self.loaded }
    }

    /// Where the row that is at this place now stood when the rows were loaded.
    fn loaded_place(&self, at: usize) -> Option<usize> {
        if self.narrowed { self.kept.get(at).map(|&row| row as usize) } else { Some(at) }
    }
}

fn tell_of_breaker(policy: &str, policy_type: &str, turn: Turn) {
    match turn {
        Turn::Opened(wait_ms) => tracing::warn!(
            policy,
            policy_type,
            wait_ms,
            "a policy failed again and again, and isn't asked for a while"
        ),
        Turn::Closed => {
            tracing::info!(policy, policy_type, "a policy decides again, and is asked as before");
        }
    }
}

#[cfg(test)]
mod tests;
