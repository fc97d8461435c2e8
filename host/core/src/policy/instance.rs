//! The seam between the host and a policy, whatever it is made of.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::candidates::Candidates;
use super::declaration::Declaration;
use super::failure::StageError;
use super::pipeline::Selected;
use super::row_mask::RowMask;
use super::view::RequestView;
use crate::fleet::Snapshot;
use crate::hosted::HostedPicker;
use crate::outcome::DecisionOutcome;

/// What a fused call answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Kept rows, all filters together; meaningless when the instance has no filter.
    pub verdicts: RowMask,
    /// One summed cost per kept row; empty when the instance has no scorer.
    pub costs: Vec<f64>,
    /// The chosen row among those given.
    pub row: usize,
    /// The same, if it is the host's own code that filled this in, and has held it to all that follows.
    pub(crate) checked: Option<Selected>,
}

/// What an instance has used and gone through since it was configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes of memory that it has now.
    pub memory_bytes: u64,
    /// The most that it ever had.
    pub most_memory_bytes: u64,
    /// Times that it was replaced for having too much memory.
    pub recycled: u64,
    /// Times that it was lost by a failure.
    pub lost: u64,
}

/// One configured instance of a policy, serving one partition for all of its life.
///
/// The host calls it serially, from any thread, with at least one row. It checks every answer, so
/// an implementation need not. A call must not block: it is bounded by fuel in a component, and by
/// its author's care natively.
pub trait PolicyInstance: Send + fmt::Debug {
    /// Its stages. The same for all of its life.
    fn declaration(&self) -> &Declaration;

    /// Rejects rows in `verdicts`, which comes with every row kept.
    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError>;

    /// Writes one cost per row. `costs` comes as NaN, so that a row left out is found.
    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError>;

    /// Picks a row. `costs` has one value per row.
    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError>;

    /// All stages in one call. Asked only of instances that declare `fused`. The outcome comes without
    /// costs.
    fn decide(
        &mut self,
        _request: &RequestView<'_>,
        _rows: &Candidates<'_>,
        _outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        Err(StageError::bad_output("declared fused, but has no fused call"))
    }

    /// Promises that [`PolicyInstance::decide`] leaves no cost of an earlier decision in the outcome, which
    /// may then come with them: one pass over them less.
    fn replaces_costs(&self) -> bool {
        false
    }

    /// The partition's rows are now these. Asked only of instances that declare `follows-fleet`,
    /// once per fleet, before the first decision over it; a failure is logged and nothing more.
    fn fleet_changed(&mut self, _fleet: &Snapshot) -> Result<(), StageError> {
        Ok(())
    }

    /// What became of decisions of the partition, its own and others', in order. Asked only of
    /// instances that declare `observes`, between two decisions; a failure is logged and counted.
    fn observe(&mut self, _outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        Ok(())
    }

    /// The state, for the next version. None when it has none to hand over.
    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        None
    }

    /// Takes the state of the version before.
    fn restore(&mut self, _state: &[u8]) -> Result<(), StageError> {
        Ok(())
    }

    /// Whether its state can't be trusted any more. Asked before each decision: another instance is
    /// made in its place then, with a state of its own.
    fn is_spoilt(&self) -> bool {
        false
    }

    /// The next call may use this much fuel and no more, whatever it could else; none lifts that.
    /// Nothing to those whose calls aren't metered.
    fn allow(&mut self, _fuel: Option<u64>) {}

    /// Who decides in its place without the partition's lock, where it is a picker alone and reads
    /// nothing but identity and active requests. None if only it can.
    fn hosted(&self) -> Option<Arc<dyn HostedPicker>> {
        None
    }

    /// What it has used; none if nobody keeps count of that.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// The fuel that the last call used; none where calls aren't metered.
    fn last_fuel(&self) -> Option<u64> {
        None
    }
}
