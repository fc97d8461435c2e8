//! One configured instance of a component, as the core calls it.
//!
//! Owns the live store and, when that was lost, the waiting for its replacement, which the engine's
//! maker thread puts into the instance's [`Slot`]. No call waits for it: until it is there, calls
//! answer `unavailable`.

mod live;
mod slot;

use std::sync::Arc;

use pointsman_core::fleet::Snapshot;
use pointsman_core::policy::{
    Candidates, Cause, Declaration, Input, Outcome, PolicyInstance, RequestView, RowMask,
    StageError,
};

use crate::bindings::pointsman::policy::types;
use crate::convert::{self, Lists};
pub(crate) use live::{Live, LiveError};
pub(crate) use slot::Slot;

/// The most bytes of state that are handed over.
pub(crate) const MOST_STATE_BYTES: usize = 16 << 20;

/// An instance.
pub(crate) struct ComponentInstance {
    slot: Arc<Slot>,
    live: Option<Live>,
    /// The union of all stages' inputs: what a fused call gets.
    union: Vec<Input>,
    lists: Lists,
    last_fuel: u64,
    /// Calls that went well since the live store was made.
    good_calls: u32,
}

impl ComponentInstance {
    pub(crate) fn new(slot: Arc<Slot>, live: Live) -> Self {
        let union = slot.declaration().union();
        let lists = Lists::default();
        Self { slot, live: Some(live), union, lists, last_fuel: 0, good_calls: 0 }
    }

    /// Runs a call on the live store. The guest's refusal becomes an error; a failure of the store
    /// is the end of it.
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Live, &mut Lists) -> Result<Result<R, String>, StageError>,
    ) -> Result<R, StageError> {
        self.last_fuel = 0;
        let live = match &mut self.live {
            Some(live) => live,
            None => {
                let replacement = self.slot.take()?;
                self.good_calls = 0;
                self.live.insert(replacement)
            }
        };
        let answer = call(live, &mut self.lists);
        self.last_fuel = live.fuel_used();
        match answer {
            Ok(Ok(answer)) => {
                self.good_calls = self.good_calls.saturating_add(1);
                Ok(answer)
            }
            Ok(Err(words)) => Err(StageError::refused(crate::text::quoted(&words))),
            Err(error) => {
                self.live = None;
                self.slot.lost(self.good_calls, &error);
                Err(error)
            }
        }
    }
}

/// A stage that was never declared: the core doesn't ask for one.
fn no_such_stage() -> StageError {
    StageError::new(Cause::Unavailable, "there is no such stage")
}

impl PolicyInstance for ComponentInstance {
    fn declaration(&self) -> &Declaration {
        self.slot.declaration()
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let slot = self.slot.clone();
        let stage = slot.declaration().filters.get(filter).ok_or_else(no_such_stage)?;
        let words = self.call(|live, lists| {
            let candidates = lists.candidates(rows, &stage.inputs);
            live.call(request.moment, |store, guest| {
                let request = convert::request(request);
                guest.selection.call_keep(store, filter as u32, request, candidates)
            })
        })?;
        take_mask(verdicts, &words, rows.rows())
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        let slot = self.slot.clone();
        let stage = slot.declaration().scorers.get(scorer).ok_or_else(no_such_stage)?;
        let answer = self.call(|live, lists| {
            let candidates = lists.candidates(rows, &stage.inputs);
            live.call(request.moment, |store, guest| {
                let request = convert::request(request);
                guest.selection.call_score(store, scorer as u32, request, candidates)
            })
        })?;
        if answer.len() != costs.len() {
            let (got, wanted) = (answer.len(), costs.len());
            return Err(StageError::bad_output(format!("{got} costs for {wanted} rows")));
        }
        costs.copy_from_slice(&answer);
        Ok(())
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        let slot = self.slot.clone();
        let stage = slot.declaration().picker.as_ref().ok_or_else(no_such_stage)?;
        let row = self.call(|live, lists| {
            let candidates = lists.candidates(rows, &stage.inputs);
            live.call(request.moment, |store, guest| {
                guest.selection.call_pick(store, convert::request(request), candidates, costs)
            })
        })?;
        Ok(row as usize)
    }

    fn decide(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        let union = std::mem::take(&mut self.union);
        let answer = self.call(|live, lists| {
            let candidates: types::Candidates<'_> = lists.candidates(rows, &union);
            live.call(request.moment, |store, guest| match &guest.fused {
                Some(fused) => fused.call_decide(store, convert::request(request), candidates),
                None => Ok(Err("the interface `fused` is not exported".to_owned())),
            })
        });
        self.union = union;
        let answer = answer?;
        let filters = !self.slot.declaration().filters.is_empty();
        outcome.verdicts.keep_all(rows.rows());
        if filters {
            take_mask(&mut outcome.verdicts, &answer.verdicts, rows.rows())?;
        } else if !answer.verdicts.is_empty() {
            return Err(StageError::bad_output("verdicts without a filter"));
        }
        outcome.costs = answer.costs;
        outcome.row = answer.row as usize;
        Ok(())
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        if !self.slot.declaration().properties.follows_fleet {
            return Ok(());
        }
        let fleet = self.slot.note_fleet(fleet);
        if self.live.is_none() {
            // Its replacement is told before it is asked anything.
            return Ok(());
        }
        self.call(|live, _| live.fleet_changed(&fleet).map(Ok))
    }

    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        if !self.slot.declaration().properties.hands_over {
            return None;
        }
        let saved = self.call(|live, _| live.save());
        Some(saved.and_then(|state| {
            let size = state.len();
            if size <= MOST_STATE_BYTES {
                return Ok(state);
            }
            let text = format!("{size} bytes of state, at most {MOST_STATE_BYTES} are handed over");
            Err(StageError::bad_output(text))
        }))
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StageError> {
        if !self.slot.declaration().properties.hands_over {
            return Ok(());
        }
        self.call(|live, _| live.restore(state))
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(self.last_fuel)
    }
}

/// Takes a guest's mask over `rows` rows into `verdicts`, which keep all of them.
fn take_mask(verdicts: &mut RowMask, words: &[u64], rows: usize) -> Result<(), StageError> {
    if verdicts.and(words) {
        return Ok(());
    }
    let (got, wanted) = (words.len(), rows.div_ceil(64));
    Err(StageError::bad_output(if got == wanted {
        format!("verdicts on rows past the last of {rows}")
    } else {
        format!("{got} words of verdicts for {rows} rows, wanted {wanted}")
    }))
}

impl std::fmt::Debug for ComponentInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentInstance")
            .field("slot", &self.slot)
            .field("live", &self.live.is_some())
            .field("last_fuel", &self.last_fuel)
            .finish_non_exhaustive()
    }
}
