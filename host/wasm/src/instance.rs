//! One configured instance of a component, as the core calls it.
//!
//! Owns the live store and, when that was lost, the waiting for its replacement, which the engine's
//! maker thread puts into the instance's [`Slot`]. No call waits for it: until it is there, calls
//! answer `unavailable`.

mod classifier;
mod live;
mod slot;

use std::sync::Arc;

use pointsman_core::fleet::Snapshot;
use pointsman_core::ids::DecisionId;
use pointsman_core::outcome::DecisionOutcome;
use pointsman_core::policy::{
    Candidates, Cause, Declaration, Input, Outcome, PolicyInstance, RequestView, RowMask,
    StageError, Usage,
};

use crate::convert::{self, Details, Lists};
use crate::text::quoted;
pub(crate) use classifier::ComponentClassifier;
pub(crate) use live::{Live, LiveError};
pub(crate) use slot::Slot;

/// The most bytes of state that are handed over.
pub(crate) const MOST_STATE_BYTES: usize = 16 << 20;

/// An instance.
pub(crate) struct ComponentInstance {
    body: Body,
    /// The union of all stages' inputs: what a fused call gets.
    union: Vec<Input>,
    lists: Lists,
}

/// The live store, or the place where its replacement will be.
struct Body {
    slot: Arc<Slot>,
    live: Option<Live>,
    last_fuel: u64,
    /// What the next call may burn at most; none is what the instance's limits say.
    allowed: Option<u64>,
    /// The decision that the last call belonged to.
    decision: Option<DecisionId>,
    /// Decisions that went well from end to end since the live store was made.
    good_decisions: u32,
    usage: Usage,
}

impl ComponentInstance {
    pub(crate) fn new(slot: Arc<Slot>, live: Live) -> Self {
        let union = slot.declaration().union();
        let live = Some(live);
        let body = Body {
            slot,
            live,
            last_fuel: 0,
            allowed: None,
            decision: None,
            good_decisions: 0,
            usage: Usage::default(),
        };
        Self { body, union, lists: Lists::default() }
    }
}

impl Body {
    /// Runs a stage's call.
    fn stage<R>(
        &mut self,
        decision: DecisionId,
        call: impl FnOnce(&mut Live, &Declaration) -> Result<Result<R, String>, StageError>,
    ) -> Result<R, StageError> {
        if let Some(before) = self.decision.replace(decision)
            && before != decision
        {
            self.good_decisions = self.good_decisions.saturating_add(1);
            self.recycle();
        }
        if let Some(live) = &mut self.live {
            live.allow(self.allowed);
        }
        let answer = self.call(call);
        if let Some(live) = &mut self.live {
            live.allow(None);
        }
        answer
    }

    /// Between two decisions: has one that has too much memory replaced, and puts the replacement in
    /// its place once that is there.
    fn recycle(&mut self) {
        let Self { slot, live, usage, .. } = self;
        let Some(old) = live.as_mut().filter(|live| live.is_bloated()) else { return };
        slot.bloated(old.memory_bytes());
        if let Some(next) = slot.replacement(old) {
            *live = Some(next);
            usage.recycled += 1;
        }
    }

    /// Runs a call on the live store. The guest's refusal becomes an error; a failure of the store
    /// is the end of it.
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Live, &Declaration) -> Result<Result<R, String>, StageError>,
    ) -> Result<R, StageError> {
        let Self { slot, live, last_fuel, decision, good_decisions, usage, .. } = self;
        *last_fuel = 0;
        let running = match live {
            Some(running) => running,
            None => {
                *decision = None;
                *good_decisions = 0;
                live.insert(slot.take()?)
            }
        };
        let answer = call(running, slot.declaration());
        *last_fuel = running.fuel_used();
        usage.memory_bytes = running.memory_bytes();
        usage.most_memory_bytes = usage.most_memory_bytes.max(usage.memory_bytes);
        match answer {
            Ok(answer) => answer.map_err(|words| StageError::refused(quoted(&words))),
            // The core asked for what there isn't; the guest had no part in it.
            Err(error) if error.cause == Cause::Unavailable => Err(error),
            Err(error) => {
                *live = None;
                usage.memory_bytes = 0;
                usage.lost += 1;
                slot.lost(*good_decisions, &error);
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
        self.body.slot.declaration()
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let Self { body, lists, .. } = self;
        let words = body.stage(request.decision_id, |live, declared| {
            let stage = declared.filters.get(filter).ok_or_else(no_such_stage)?;
            let mut details = Details::new();
            let known = &mut live.known;
            let candidates = lists.given(request, rows, &stage.inputs, known, &mut details);
            live.call(request.moment, |store, guest| {
                let request = convert::request(request, &details);
                guest.keep(store, filter as u32, request, candidates)
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
        let Self { body, lists, .. } = self;
        let answer = body.stage(request.decision_id, |live, declared| {
            let stage = declared.scorers.get(scorer).ok_or_else(no_such_stage)?;
            let mut details = Details::new();
            let known = &mut live.known;
            let candidates = lists.given(request, rows, &stage.inputs, known, &mut details);
            live.call(request.moment, |store, guest| {
                let request = convert::request(request, &details);
                guest.score(store, scorer as u32, request, candidates)
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
        let Self { body, lists, .. } = self;
        let row = body.stage(request.decision_id, |live, declared| {
            let stage = declared.picker.as_ref().ok_or_else(no_such_stage)?;
            let mut details = Details::new();
            let known = &mut live.known;
            let candidates = lists.given(request, rows, &stage.inputs, known, &mut details);
            live.call(request.moment, |store, guest| {
                guest.pick(store, convert::request(request, &details), candidates, costs)
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
        let Self { body, lists, union } = self;
        let answer = body.stage(request.decision_id, |live, _| {
            let mut details = Details::new();
            let candidates = lists.given(request, rows, union, &mut live.known, &mut details);
            live.call(request.moment, |store, guest| {
                guest.decide(store, convert::request(request, &details), candidates)
            })
        })?;
        outcome.verdicts.keep_all(rows.rows());
        match &answer.verdicts {
            None => {}
            Some(_) if self.body.slot.declaration().filters.is_empty() => {
                return Err(StageError::bad_output("verdicts without a filter"));
            }
            Some(verdicts) => take_mask(&mut outcome.verdicts, verdicts, rows.rows())?,
        }
        outcome.costs = answer.costs;
        outcome.row = answer.row as usize;
        Ok(())
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        if !self.body.slot.declaration().properties.follows_fleet {
            return Ok(());
        }
        let fleet = self.body.slot.note_fleet(fleet);
        if self.body.live.is_none() {
            // Its replacement is told before it is asked anything.
            return Ok(());
        }
        self.body.call(|live, _| live.fleet_changed(&fleet).map(Ok))
    }

    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        if !self.body.slot.declaration().properties.observes {
            return Ok(());
        }
        self.body.recycle();
        self.body.call(|live, _| live.observe(outcomes).map(Ok))
    }

    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        if !self.body.slot.declaration().properties.hands_over {
            return None;
        }
        let saved = self.body.call(|live, _| live.save());
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
        if !self.body.slot.declaration().properties.hands_over {
            return Ok(());
        }
        self.body.call(|live, _| live.restore(state))
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.body.usage)
    }

    fn allow(&mut self, fuel: Option<u64>) {
        self.body.allowed = fuel;
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(self.body.last_fuel)
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
            .field("slot", &self.body.slot)
            .field("live", &self.body.live.is_some())
            .field("last_fuel", &self.body.last_fuel)
            .finish_non_exhaustive()
    }
}
