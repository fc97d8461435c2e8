//! Where an instance's replacement is made and waits to be taken.
//!
//! Shared by the instance, which takes, and the engine's maker thread, which puts. Knows how an
//! instance is configured, and how long to wait after it failed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::fleet::Snapshot;
use pointsman_core::policy::{Cause, Declaration, PolicyEnvironment, StageError};

use super::Live;
use crate::component::Inner;
use crate::counters::Counters;
use crate::engine::maker::Remake;
use crate::text::quoted;

/// The first wait; each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Good decisions in a row that make up for all failures before.
const DECISIONS_TO_FORGET: u32 = 100;
/// Good decisions that make up for one failure: a policy that fails at every tenth decision is
/// replaced at once each time, and one that fails at every decision soon isn't asked any more.
const DECISIONS_TO_FORGIVE: u32 = 5;

/// The slot of one instance.
pub(crate) struct Slot {
    component: Arc<Inner>,
    environment: PolicyEnvironment,
    declaration: Declaration,
    me: Weak<Slot>,
    ready: Mutex<Option<Live>>,
    /// Whether the maker thread has been asked and hasn't put anything yet.
    asked: AtomicBool,
    backoff: Mutex<Backoff>,
    fleet: Mutex<Option<Arc<Snapshot>>>,
}

/// How often it failed of late.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    /// It failed again, after so many good decisions. How long to wait before the next one.
    fn failed(&mut self, good_decisions: u32) -> Duration {
        let forgiven = good_decisions / DECISIONS_TO_FORGIVE;
        let before = if good_decisions >= DECISIONS_TO_FORGET {
            0
        } else {
            self.failures.saturating_sub(forgiven)
        };
        self.failures = before.saturating_add(1);
        match before.checked_sub(1) {
            // A single failure costs no wait.
            None => Duration::ZERO,
            Some(doublings) => LONGEST_WAIT.min(FIRST_WAIT.saturating_mul(1 << doublings.min(20))),
        }
    }
}

impl Slot {
    pub(crate) fn new(
        component: Arc<Inner>,
        environment: PolicyEnvironment,
        declaration: Declaration,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            component,
            environment,
            declaration,
            me: me.clone(),
            ready: Mutex::default(),
            asked: AtomicBool::new(false),
            backoff: Mutex::default(),
            fleet: Mutex::default(),
        })
    }

    pub(crate) fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Keeps what the fleet is now, for instances made later.
    pub(super) fn note_fleet(&self, fleet: &Snapshot) -> Arc<Snapshot> {
        let fleet = Arc::new(fleet.clone());
        *self.fleet.lock() = Some(fleet.clone());
        fleet
    }

    /// The live store is gone. Asks for another.
    pub(super) fn lost(&self, good_decisions: u32, error: &StageError) {
        if self.environment.trial {
            tracing::warn!(
                policy = &*self.environment.instance,
                policy_type = &*self.component.policy_type,
                partition = self.environment.place(),
                trial = true,
                %error,
                "a policy's instance failed in a trial"
            );
            return;
        }
        let counts = self.component.engine.counts();
        Counters::add(&counts.instances_lost);
        let state_lost = !self.declaration.properties.stateless;
        if state_lost {
            Counters::add(&counts.state_lost);
        }
        let wait = self.backoff.lock().failed(good_decisions);
        let PolicyEnvironment { instance, partition, .. } = &self.environment;
        tracing::warn!(
            policy = &**instance,
            policy_type = &*self.component.policy_type,
            %partition,
            %error,
            state_lost,
            wait_ms = wait.as_millis() as u64,
            "a policy's instance failed and is made anew"
        );
        self.ask(wait);
    }

    /// The live store has too much memory. Asks for another, while it goes on.
    pub(super) fn bloated(&self, memory_bytes: u64) {
        if self.environment.trial || self.asked.load(Ordering::Acquire) {
            return;
        }
        let PolicyEnvironment { instance, partition, .. } = &self.environment;
        tracing::info!(
            policy = &**instance,
            policy_type = &*self.component.policy_type,
            %partition,
            memory_bytes,
            "a policy's instance has grown too large, and is to be replaced"
        );
        self.ask(Duration::ZERO);
    }

    /// Its replacement, if it is there: told of the fleet, and with the state of the one that it
    /// replaces, if they hand over. Without one, the old goes on.
    pub(super) fn replacement(&self, old: &mut Live) -> Option<Live> {
        let mut live = self.ready.try_lock().and_then(|mut ready| ready.take())?;
        let counts = self.component.engine.counts();
        let PolicyEnvironment { instance, partition, .. } = &self.environment;
        let policy_type = &*self.component.policy_type;
        let properties = &self.declaration.properties;
        let handed = match properties.hands_over {
            true => hand_over(old, &mut live),
            false => Ok(properties.stateless),
        };
        let handed = self.catch_up(&mut live).and(handed);
        match handed {
            Ok(kept) => {
                if !kept {
                    Counters::add(&counts.state_lost);
                }
                Counters::add(&counts.instances_recycled);
                tracing::info!(
                    policy = &**instance,
                    policy_type,
                    %partition,
                    state_lost = !kept,
                    "a policy's instance was replaced between two calls"
                );
                Some(live)
            }
            Err(error) => {
                tracing::warn!(
                    policy = &**instance,
                    policy_type,
                    %partition,
                    %error,
                    "a policy's state could not be handed over to its replacement; it goes on"
                );
                None
            }
        }
    }

    fn ask(&self, wait: Duration) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            let me: Weak<dyn Remake> = self.me.clone();
            if !self.component.engine.maker().ask(me, wait) {
                self.asked.store(false, Ordering::Release);
            }
        }
    }

    /// The replacement, if it is there. In a trial nobody is kept waiting, and each decision is to
    /// be asked of a whole instance: one is made here and now.
    pub(super) fn take(&self) -> Result<Live, StageError> {
        if self.environment.trial {
            let mut live = self.make()?;
            self.catch_up(&mut live)?;
            return Ok(live);
        }
        let ready = self.ready.try_lock().and_then(|mut ready| ready.take());
        let Some(mut live) = ready else {
            // Nobody may be at it: the maker's queue was full. Asked in this order, since it is put
            // before the asking is over: one that has just been put is no reason for another, which
            // would be there before its time.
            if !self.asked.load(Ordering::Acquire) && self.ready.lock().is_none() {
                self.ask(FIRST_WAIT);
            }
            return Err(StageError::new(Cause::Unavailable, "its instance is being made anew"));
        };
        self.catch_up(&mut live).inspect_err(|error| self.lost(0, error))?;
        Ok(live)
    }

    /// One that is put aside: told of the fleet, so that nobody waits for that later. One that may get
    /// the state of another is told after that.
    fn spare(&self) -> Result<Live, StageError> {
        let mut live = self.make()?;
        if !self.declaration.properties.hands_over {
            self.catch_up(&mut live)?;
        }
        Ok(live)
    }

    /// Tells it of the fleet, unless it knows.
    fn catch_up(&self, live: &mut Live) -> Result<(), StageError> {
        let fleet = self.fleet.lock().clone();
        match fleet {
            Some(fleet) if live.generation != Some(fleet.generation) => live.fleet_changed(&fleet),
            _ => Ok(()),
        }
    }

    /// Makes another, which is told nothing yet.
    fn make(&self) -> Result<Live, StageError> {
        let (live, declaration) = self
            .component
            .configured(&self.environment)
            .map_err(|error| StageError::new(Cause::Unavailable, error.to_string()))?;
        if declaration != self.declaration {
            let text = "it declares other stages than it did before with the same configuration";
            return Err(StageError::bad_output(text));
        }
        Ok(live)
    }
}

/// Hands the state of one over to the next.
fn hand_over(old: &mut Live, next: &mut Live) -> Result<bool, StageError> {
    let refused = |words: String| StageError::refused(quoted(&words));
    let state = old.save()?.map_err(refused)?;
    next.restore(&state)?.map_err(refused)?;
    Ok(true)
}

impl Remake for Slot {
    fn remake(&self) -> Option<Duration> {
        let counts = self.component.engine.counts();
        match self.spare() {
            Ok(live) => {
                Counters::add(&counts.replacements);
                *self.ready.lock() = Some(live);
                self.asked.store(false, Ordering::Release);
                None
            }
            Err(error) => {
                Counters::add(&counts.replacement_failures);
                let wait = self.backoff.lock().failed(0).max(FIRST_WAIT);
                let PolicyEnvironment { instance, partition, .. } = &self.environment;
                tracing::warn!(
                    policy = &**instance,
                    policy_type = &*self.component.policy_type,
                    %partition,
                    %error,
                    wait_ms = wait.as_millis() as u64,
                    "a policy's instance could not be made anew"
                );
                Some(wait)
            }
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("policy_type", &self.component.policy_type)
            .field("instance", &self.environment.instance)
            .field("partition", &self.environment.partition)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_fails_now_and_then_never_waits() {
        let mut backoff = Backoff::default();
        for _ in 0..50 {
            assert_eq!(backoff.failed(9), Duration::ZERO);
        }
    }

    #[test]
    fn a_policy_that_keeps_failing_is_asked_ever_less() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..14).map(|_| backoff.failed(0).as_millis()).collect();
        assert_eq!(waits.get(..5), Some(&[0, 10, 20, 40, 80][..]));
        assert_eq!(waits.last(), Some(&10_000));
        for _ in 0..100 {
            backoff.failed(0);
        }
        assert_eq!(backoff.failed(DECISIONS_TO_FORGET), Duration::ZERO, "and then it is forgotten");
    }
}
