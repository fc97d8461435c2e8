//! A store with a guest in it: every entry armed with fuel and a deadline, every failure sorted.

use pointsman_core::classifier::ClassifierEnvironment;
use pointsman_core::clock::Moment;
use pointsman_core::fleet::Snapshot;
use pointsman_core::outcome::DecisionOutcome;
use pointsman_core::policy::{Cause, PolicyEnvironment, StageError};
use wasmtime::{PoolConcurrencyLimitError, Store};

use super::MOST_STATE_BYTES;
use crate::bindings::exports::pointsman::policy::{about, request_classifier, worker_selection};
use crate::component::{Guest, Linked};
use crate::convert::{self, ClassifierText, EnvironmentText, Known};
use crate::deadline::Deadline;
use crate::imports::{LogSink, State};
use crate::limits::{self, Bounds, Limiter};
use crate::text::{bounded, quoted};

/// Handles to host resources, all of WASI's, that a guest may hold at once.
const MOST_HANDLES: usize = 1024;

/// A started guest. After an error of any call it is of no further use.
pub(crate) struct Live {
    store: Store<State>,
    guest: Box<dyn Guest>,
    fuel: u64,
    /// What the next call may burn of that.
    allowed: u64,
    fuel_used: u64,
    recycle_at: u64,
    /// Bytes that an answer may bring into the host's memory.
    reply_bytes: usize,
    /// The fleet that it was last told of.
    pub(super) generation: Option<u64>,
    /// What calls needn't tell it.
    pub(super) known: Known,
}

/// Why a guest could not be started.
#[derive(Debug)]
pub(crate) enum LiveError {
    /// No slot of the pool is free; outside the pool it may go.
    PoolFull,
    /// A function isn't as the contract has it.
    Signature { interface: String, reason: String },
    /// It failed.
    Failed(StageError),
}

impl LiveError {
    pub(crate) fn trap(detail: impl Into<String>) -> Self {
        Self::Failed(StageError::new(Cause::Trap, detail))
    }
}

impl From<LiveError> for StageError {
    fn from(error: LiveError) -> Self {
        match error {
            LiveError::Failed(error) => error,
            LiveError::PoolFull => Self::new(Cause::Unavailable, "no room for another instance"),
            LiveError::Signature { interface, reason } => Self::new(
                Cause::Trap,
                format!("{interface} isn't as the contract has it: {reason}"),
            ),
        }
    }
}

impl Live {
    /// Starts a guest, and runs what it runs before any call, within the limits of one call.
    pub(crate) fn start(
        linked: &Linked,
        bounds: &Bounds,
        log: LogSink,
        seed: u64,
    ) -> Result<Self, LiveError> {
        let deadline = Deadline::of(bounds.deadline);
        let state = State::new(Limiter::new(bounds), log, deadline);
        let mut store = Store::new(linked.engine(), state);
        store.limiter(|state| &mut state.limiter);
        let reply_bytes = limits::clamped(bounds.reply_bytes);
        store.set_hostcall_fuel(reply_bytes);
        store.set_max_component_handles(MOST_HANDLES);
        store.epoch_deadline_callback(|mut store| store.data_mut().deadline.overdue());
        let fuel = bounds.fuel;
        arm(&mut store, fuel, Moment { now_ms: 0, seed }).map_err(LiveError::Failed)?;
        let started = linked.instantiate(&mut store);
        store.data_mut().end();
        match started {
            Ok(Ok(guest)) => Ok(Self {
                store,
                guest,
                fuel,
                allowed: fuel,
                fuel_used: 0,
                recycle_at: bounds.recycle_at,
                reply_bytes,
                generation: None,
                known: Known::default(),
            }),
            Ok(Err(mismatch)) => {
                Err(LiveError::Signature { interface: mismatch.interface, reason: mismatch.reason })
            }
            Err(error) if error.is::<PoolConcurrencyLimitError>() => Err(LiveError::PoolFull),
            Err(error) => Err(LiveError::Failed(failure(&error, store.data()))),
        }
    }

    /// Calls into the guest with fresh fuel and a fresh deadline. An error means that the guest is
    /// gone.
    pub(crate) fn call<R>(
        &mut self,
        moment: Moment,
        call: impl FnOnce(&mut Store<State>, &dyn Guest) -> wasmtime::Result<R>,
    ) -> Result<R, StageError> {
        let Self { store, guest, allowed, fuel_used, .. } = self;
        arm(store, *allowed, moment)?;
        let answer = call(store, &**guest);
        store.data_mut().end();
        let left = store.get_fuel().unwrap_or(0);
        *fuel_used = allowed.saturating_sub(left);
        answer.map_err(|error| failure(&error, store.data()))
    }

    /// Calls may burn so much from now on, and never more than the instance's limits say, which is
    /// what they may with none.
    pub(crate) fn allow(&mut self, fuel: Option<u64>) {
        self.allowed = fuel.map_or(self.fuel, |fuel| fuel.min(self.fuel));
    }

    /// Bytes of its memories.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.store.data().limiter.bytes()
    }

    /// Whether it has more memory than it should go on with.
    pub(crate) fn is_bloated(&self) -> bool {
        self.memory_bytes() > self.recycle_at
    }

    /// The fuel that the last call used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.fuel_used
    }

    pub(crate) fn configure(
        &mut self,
        text: &EnvironmentText,
        environment: &PolicyEnvironment,
    ) -> Result<Result<worker_selection::Declaration, String>, StageError> {
        let configured = self.call(before(environment.seed), |store, guest| {
            guest.configure(store, text.environment(environment))
        });
        self.has_begun();
        if let Ok(Ok(declared)) = &configured {
            self.known.compact = declared.properties.iter().any(|name| name == "compact");
        }
        configured
    }

    pub(crate) fn configure_classifier(
        &mut self,
        text: &ClassifierText<'_>,
        environment: &ClassifierEnvironment,
    ) -> Result<Result<request_classifier::ClassifierDeclaration, String>, StageError> {
        let configured = self.call(before(environment.seed), |store, guest| {
            guest.configure_classifier(store, text.environment(environment))
        });
        self.has_begun();
        configured
    }

    /// One that begins with much has at least half of what is left to grow into, so that it isn't
    /// replaced over and over.
    fn has_begun(&mut self) {
        self.recycle_at = self.recycle_at.max(self.store.data().limiter.half_way());
    }

    pub(crate) fn describe(&mut self) -> Result<about::Description, StageError> {
        self.call(before(0), |store, guest| guest.describe(store))
    }

    pub(crate) fn fleet_changed(&mut self, fleet: &Snapshot) -> Result<(), StageError> {
        self.call(before(fleet.generation), |store, guest| {
            convert::with_members(fleet, |members| guest.changed(store, fleet.generation, members))
        })?;
        self.generation = Some(fleet.generation);
        Ok(())
    }

    pub(crate) fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        // The moment of the last event, and a seed that no other batch has.
        let last = outcomes.last();
        let moment = last.map_or(before(0), |last| Moment {
            now_ms: last.at_ms,
            seed: last.decision_id.0.rotate_left(32) ^ last.at_ms,
        });
        self.call(moment, |store, guest| {
            let outcomes: Vec<_> = outcomes.iter().map(convert::outcome).collect();
            guest.observe(store, &outcomes)
        })
    }

    pub(crate) fn save(&mut self) -> Result<Result<Vec<u8>, String>, StageError> {
        // One byte more than is taken, so that too much is told apart from a failure.
        self.store.set_hostcall_fuel(self.reply_bytes.saturating_add(MOST_STATE_BYTES));
        let saved = self.call(before(0), |store, guest| guest.save(store));
        self.store.set_hostcall_fuel(self.reply_bytes);
        saved
    }

    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<Result<(), String>, StageError> {
        self.call(before(0), |store, guest| guest.restore(store, state))
    }
}

/// What an error of a call means, with what the guest said of it: a trap by itself tells little of a
/// panic.
fn failure(error: &wasmtime::Error, state: &State) -> StageError {
    let mut failure = limits::failure(error, &state.limiter);
    let said = state.log.said();
    if failure.cause == Cause::Trap && !said.is_empty() {
        failure.detail = format!("{}; it said: {}", failure.detail, quoted(said));
    }
    failure
}

/// The moment of calls that belong to no decision.
fn before(seed: u64) -> Moment {
    Moment { now_ms: 0, seed }
}

fn arm(store: &mut Store<State>, fuel: u64, moment: Moment) -> Result<(), StageError> {
    // The engine meters fuel, so that setting it doesn't fail.
    store
        .set_fuel(fuel)
        .map_err(|error| StageError::new(Cause::Trap, bounded(&format!("{error:#}"), 200)))?;
    let ticks = store.data_mut().begin(moment);
    store.set_epoch_deadline(ticks);
    Ok(())
}
