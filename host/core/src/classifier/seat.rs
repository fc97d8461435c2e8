//! A partition's classifier and its replacement after a failure.
//!
//! Owns the instance, whether it may be asked, and when the next one is made. A panic ends a native
//! instance as a trap does a component's. It doesn't know requests.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::counts::ClassifierCounts;
use super::facts::{Capacity, ClassifyRequest, LifecycleEvent, Release, Verdict};
use super::log::{Beginning, Scribe};
use super::provider::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider, RequestClassifier,
};
use crate::policy::breaker::{Breaker, Turn};
use crate::policy::{
    BreakerSpec, BreakerState, Cause, Digest, InstantiateError, OnFailure, StageError, Usage,
};

/// Characters of what a native classifier said when it panicked.
const MOST_WORDS: usize = 200;

/// A classifier in place.
pub struct Seat {
    provider: Arc<dyn ClassifierProvider>,
    environment: ClassifierEnvironment,
    on_failure: OnFailure,
    instance: Option<Box<dyn RequestClassifier>>,
    declaration: ClassifierDeclaration,
    breaker: Breaker,
    /// It hasn't been told yet of what there was before it.
    is_new: bool,
    next_tick_ms: Option<u64>,
    /// Good answers in a row.
    good: u32,
    /// A version before is kept, and each failure makes the next wait longer until it isn't.
    on_probation: bool,
    /// The call that was made last.
    call: Kinds,
    /// The kinds of calls whose last one failed.
    failing: Kinds,
}

impl Seat {
    /// Makes the first instance.
    pub fn new(
        provider: Arc<dyn ClassifierProvider>,
        environment: ClassifierEnvironment,
        on_failure: OnFailure,
    ) -> Result<Self, InstantiateError> {
        let instance = made(&*provider, &environment)?;
        Ok(Self {
            declaration: instance.declaration(),
            instance: Some(instance),
            provider,
            environment,
            on_failure,
            breaker: Breaker::new(BreakerSpec::default()),
            is_new: true,
            next_tick_ms: None,
            good: 0,
            on_probation: false,
            call: MAKE,
            failing: 0,
        })
    }

    /// The type's name.
    #[must_use]
    pub fn classifier_type(&self) -> &str {
        self.provider.classifier_type()
    }

    /// What the classifier wants.
    #[must_use]
    pub fn declaration(&self) -> ClassifierDeclaration {
        self.declaration
    }

    pub(super) fn digest(&self) -> Option<&Digest> {
        self.provider.digest()
    }

    pub(super) fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.instance.as_ref().and_then(|instance| instance.usage())
    }

    /// The classes that it may give.
    pub(super) fn policy_classes(&self) -> &[Arc<str>] {
        &self.environment.policy_classes
    }

    pub(super) fn is_settled(&self) -> bool {
        self.instance.is_some() && !self.is_new
    }

    pub(super) fn is_there(&self) -> bool {
        self.instance.is_some()
    }

    /// Makes another instance if the last one is lost and its time has come, or if it is worn.
    /// Returns whether there is one.
    pub(super) fn revive(&mut self, now_ms: u64, counts: &mut ClassifierCounts) -> bool {
        match &self.instance {
            Some(instance) if instance.is_worn() => counts.recycled += 1,
            Some(_) => return true,
            None => {}
        }
        if self.breaker.state(now_ms) == BreakerState::Open {
            return false;
        }
        self.call = MAKE;
        match made(&*self.provider, &self.environment) {
            Ok(instance) => {
                self.failing &= !MAKE;
                self.declaration = instance.declaration();
                self.instance = Some(instance);
                self.is_new = true;
                self.next_tick_ms = None;
            }
            Err(error) => {
                let error = StageError::new(Cause::Unavailable, error.to_string());
                self.judge(Some(&error), now_ms, counts);
            }
        }
        self.instance.is_some()
    }

    /// Whether it is still to be told what there was before it. Asked once for each instance.
    pub(super) fn begins(&mut self, now_ms: u64) -> bool {
        if self.is_new && self.declaration.tick_ms > 0 {
            self.next_tick_ms = Some(now_ms.saturating_add(u64::from(self.declaration.tick_ms)));
        }
        std::mem::take(&mut self.is_new)
    }

    /// Takes up changed workers. Returns whether they are news.
    pub(super) fn take_fleet(&mut self, fleet: &Arc<[Capacity]>) -> bool {
        let news = self.environment.workers != *fleet;
        self.environment.workers = fleet.clone();
        news
    }

    /// Asks the instance about a request. What comes of the answer is said to [`Seat::judge`].
    pub(super) fn classify(
        &mut self,
        request: &ClassifyRequest<'_>,
        scribe: &mut Scribe,
    ) -> Result<Verdict, StageError> {
        let Some(instance) = &mut self.instance else { return Err(unavailable()) };
        self.call = CLASSIFY;
        let answer = guarded(|| instance.classify(request));
        scribe.asked(request, &answer);
        answer
    }

    /// Tells the instance of an event; the same holds of its answer.
    pub(super) fn on_event(
        &mut self,
        event: &LifecycleEvent<'_>,
        now_ms: u64,
        scribe: &mut Scribe,
    ) -> Result<Vec<Release>, StageError> {
        let Some(instance) = &mut self.instance else { return Err(unavailable()) };
        self.call = kind(event);
        let answer = guarded(|| instance.on_event(event, now_ms));
        scribe.told(event, now_ms, &answer);
        answer
    }

    /// Has the scribe write down that the instance begins, and from what.
    pub(super) fn introduce(&self, now_ms: u64, scribe: &mut Scribe) {
        let of = &self.environment;
        scribe.begins(&of.partition, now_ms, || Beginning {
            classifier_type: self.classifier_type().into(),
            digest: self.digest().cloned(),
            declaration: self.declaration,
            block_size: of.block_size,
            parameters: of.parameters.clone(),
            settings: of.settings.clone(),
            policy_classes: of.policy_classes.clone(),
            workers: of.workers.clone(),
            fuel: of.limits.fuel,
            memory: of.limits.memory,
            seed: of.seed,
        });
    }

    /// Takes note of how a call went. Returns whether the instance is lost by that.
    pub(super) fn judge(
        &mut self,
        failure: Option<&StageError>,
        now_ms: u64,
        counts: &mut ClassifierCounts,
    ) -> bool {
        let Some(error) = failure else {
            self.good = self.good.saturating_add(1);
            self.failing &= !self.call;
            // To be told what there is, and to take it well, proves nothing yet; nor does any call
            // mend what another kind of call fails at.
            if !self.on_probation && self.failing == 0 {
                self.breaker.note(false, now_ms);
            }
            return false;
        };
        self.failing |= self.call;
        let turn = self.breaker.note(true, now_ms);
        self.good = 0;
        counts.failed(error.cause);
        let ended = error.cause.ends_a_classifier();
        // One that isn't asked for a while doesn't know any more what there is.
        let opened = matches!(turn, Some(Turn::Opened(_)));
        let lost = (ended || opened) && self.instance.take().is_some();
        counts.lost += u64::from(lost);
        tracing::warn!(
            classifier_type = self.provider.classifier_type(),
            partition = %self.environment.partition,
            %error,
            lost,
            failures_in_a_row = self.breaker.failures_in_a_row(),
            "a request classifier failed"
        );
        lost
    }

    /// Good answers in a row.
    pub(super) fn good(&self) -> u32 {
        self.good
    }

    /// Goes by such a breaker from now on, which is shut; on probation it isn't shut again by a good
    /// answer.
    pub(super) fn breaks(&mut self, spec: BreakerSpec, on_probation: bool) {
        (self.breaker, self.on_probation, self.failing) = (Breaker::new(spec), on_probation, 0);
    }

    /// Gives up the instance: another one is made when it is in place again.
    pub(super) fn rest(&mut self) {
        self.instance = None;
    }

    /// Takes the place of another one, whose owner says what becomes of what it fails on.
    pub(super) fn stand_in_for(&mut self, other: &Self) {
        self.on_failure = other.on_failure;
        self.environment.workers = other.environment.workers.clone();
        self.environment.policy_classes = other.environment.policy_classes.clone();
    }

    /// Whether a tick is due now; then the next one is a period from now.
    pub(super) fn ticks(&mut self, now_ms: u64) -> bool {
        let due = self.next_tick_ms.is_some_and(|at| at <= now_ms) && self.instance.is_some();
        if due {
            let period = u64::from(self.declaration.tick_ms);
            self.next_tick_ms = Some(now_ms.saturating_add(period));
        }
        due
    }

    /// When there is something to be done about it; none is never.
    pub(super) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        match &self.instance {
            Some(_) if self.is_new => Some(now_ms),
            Some(_) => self.next_tick_ms,
            None => Some(now_ms.saturating_add(self.breaker.open_for_ms(now_ms).unwrap_or(0))),
        }
    }
}

/// A set of kinds of calls, a bit for each.
type Kinds = u16;

const MAKE: Kinds = 1;
const CLASSIFY: Kinds = 1 << 1;

fn kind(event: &LifecycleEvent<'_>) -> Kinds {
    let bit = match event {
        LifecycleEvent::Inherited(_) => 2,
        LifecycleEvent::Admitted(_) => 3,
        LifecycleEvent::Sent(..) => 4,
        LifecycleEvent::Responding(_) => 5,
        LifecycleEvent::Completed(..) => 6,
        LifecycleEvent::Aborted(..) => 7,
        LifecycleEvent::FleetChanged(_) => 8,
        LifecycleEvent::Tick => 9,
    };
    1 << bit
}

fn unavailable() -> StageError {
    StageError::new(Cause::Unavailable, "its instance is being made anew")
}

fn made(
    provider: &dyn ClassifierProvider,
    environment: &ClassifierEnvironment,
) -> Result<Box<dyn RequestClassifier>, InstantiateError> {
    catch_unwind(AssertUnwindSafe(|| provider.instantiate(environment))).unwrap_or_else(|payload| {
        Err(InstantiateError::Failed {
            policy_type: provider.classifier_type().to_owned(),
            call: "configure-classifier",
            cause: Cause::Trap,
            detail: panicked(&*payload),
        })
    })
}

fn guarded<R>(call: impl FnOnce() -> Result<R, StageError>) -> Result<R, StageError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|payload| Err(StageError::new(Cause::Trap, panicked(&*payload))))
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> String {
    let said = payload.downcast_ref::<&str>().copied();
    let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let said: String = said.unwrap_or("no message").chars().take(MOST_WORDS).collect();
    format!("it panicked: {said:?}")
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("classifier_type", &self.provider.classifier_type())
            .field("partition", &self.environment.partition)
            .field("is_there", &self.instance.is_some())
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
