//! A decision's record: what a pipeline adds to one, and how it decides from one again.

use super::{Pipeline, Scratch, Selected};
use crate::fleet::Snapshot;
use crate::policy::input::{Input, InputSet};
use crate::recording::{RecordedColumns, Recording, ReplayError};

impl Pipeline {
    /// Records these columns of the rows that were loaded: those that no stage reads are filled in.
    /// What `same` knows to be the same in all rows isn't looked at. Those that some stage reads are to
    /// be handed over after the run, and copied only where the record has no place for that.
    pub(crate) fn keep_columns(
        &mut self,
        columns: &mut RecordedColumns,
        inputs: InputSet,
        neutral: InputSet,
        mut fill: impl FnMut(Input, &mut [f64]),
    ) {
        let Scratch { matrix, loaded, contribution: unread, awaited, .. } = &mut self.scratch;
        let loads = inputs.intersection(matrix.set());
        for input in inputs.without(loads).iter() {
            if neutral.contains(input) {
                columns.push_all(input, input.neutral(), *loaded);
            } else {
                unread.resize(*loaded, 0.0);
                fill(input, unread);
                columns.push_each(input, unread);
            }
        }
        if columns.has_place_for(matrix) {
            *awaited = loads;
            return;
        }
        for input in loads.iter() {
            if let Some(value) = matrix.uniform(input) {
                columns.push_all(input, value, *loaded);
            } else if let Some(column) = matrix.column(input) {
                columns.push_each(input, column);
            }
        }
    }

    /// Hands the columns over that wait for it, as they were loaded. The pipeline goes on with those that
    /// the record had before.
    pub(crate) fn hand_over(&mut self, columns: &mut RecordedColumns) {
        let Scratch { matrix, aside, is_aside, awaited, .. } = &mut self.scratch;
        if std::mem::take(is_aside) {
            std::mem::swap(matrix, aside);
        }
        columns.take(matrix, std::mem::take(awaited));
    }

    /// Makes a decision again that was recorded, for a policy that may be another one. `fleet` is
    /// told to those who follow it, if it is still known.
    pub fn replay(
        &mut self,
        recording: &Recording,
        fleet: Option<&Snapshot>,
        parts: bool,
    ) -> Result<Selected, ReplayError> {
        let missing = self.inputs().iter().find(|&&input| !recording.columns.has(input));
        if let Some(&missing) = missing {
            return Err(ReplayError::Missing(missing));
        }
        self.renew();
        if let Some(fleet) = fleet {
            self.tell_fleet(fleet);
        }
        self.scratch.ids.copy_from(&recording.rows);
        self.scratch
            .fill(InputSet::default(), |input, column| recording.columns.copy(input, column));
        let view = recording.facts.view(self.reads_caches());
        self.run(&view, parts).map_err(ReplayError::Run)
    }

    /// Begins or ends taking note of what each stage answers.
    pub fn note_answers(&mut self, note: bool) {
        self.scratch.answers = note.then(Vec::new);
    }

    /// Completes a record with what the stages of the last run answered, the rows that they kept,
    /// and what those cost: if the stages were asked one by one.
    pub fn record(&mut self, recording: &mut Recording) {
        let scratch = &mut self.scratch;
        recording.stages = scratch.answers.take().unwrap_or_default();
        recording.kept = scratch.narrowed.then(|| scratch.kept.clone());
        recording.costs.clone_from(&scratch.costs);
    }
}
