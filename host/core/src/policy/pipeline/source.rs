//! An instance, with what it was made from, so that another can be made in its place.

use std::sync::Arc;

use crate::clock::Stopwatch;
use crate::outcome::DecisionOutcome;
use crate::policy::breaker::{Breaker, BreakerSpec, Turn};
use crate::policy::catalog::{Digest, PolicyEnvironment, PolicyProvider};
use crate::policy::failure::{Cause, StageError};
use crate::policy::instance::{PolicyInstance, Usage};

/// An instance, with what it was made from.
#[derive(Debug)]
pub struct Source {
    pub(super) instance: Box<dyn PolicyInstance>,
    policy_type: Arc<str>,
    digest: Option<Digest>,
    origin: Option<(Arc<dyn PolicyProvider>, PolicyEnvironment)>,
    breaker: Breaker,
    /// The same for being told of outcomes.
    observing: Breaker,
    /// How the decision went that is being made; none if it wasn't asked.
    failed: Option<bool>,
    /// How it failed last.
    last_error: Option<StageError>,
    spent: Spent,
}

/// What a call of an instance cost; nothing is known where calls aren't metered, or nobody was called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) fuel: Option<u64>,
    pub(super) micros: Option<f64>,
}

impl Source {
    /// An instance of `policy_type`, which can't be made anew.
    #[must_use]
    pub fn new(
        instance: Box<dyn PolicyInstance>,
        policy_type: Arc<str>,
        digest: Option<Digest>,
    ) -> Self {
        let breaker = Breaker::new(BreakerSpec::off());
        Self {
            instance,
            policy_type,
            digest,
            origin: None,
            breaker,
            observing: breaker,
            failed: None,
            last_error: None,
            spent: Spent::default(),
        }
    }

    /// Remembers who made it, and what it was told.
    #[must_use]
    pub fn made_by(
        self,
        provider: Arc<dyn PolicyProvider>,
        environment: PolicyEnvironment,
    ) -> Self {
        Self { origin: Some((provider, environment)), ..self }
    }

    /// Its type.
    #[must_use]
    pub fn policy_type(&self) -> &Arc<str> {
        &self.policy_type
    }

    /// Its component's identity; none for a native policy.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same with a breaker.
    pub(super) fn guarded(self, spec: BreakerSpec) -> Self {
        Self { breaker: Breaker::new(spec), observing: Breaker::new(spec), ..self }
    }

    /// What its instance has used; none if nobody keeps count of that.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.instance.usage()
    }

    /// How it failed last; none if it never did. Not to be asked is no failure of its.
    #[must_use]
    pub fn last_error(&self) -> Option<&StageError> {
        self.last_error.as_ref()
    }

    /// Its breaker.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Calls the instance, unless its breaker is open or the decision's stages have used up what
    /// they may. What its answer is worth is the caller's to say, with [`Source::note`].
    pub(super) fn call<T>(
        &mut self,
        now_ms: u64,
        fuel_left: &mut Option<u64>,
        call: impl FnOnce(&mut dyn PolicyInstance) -> Result<T, StageError>,
    ) -> Result<T, StageError> {
        self.spent = Spent::default();
        if let Some(wait) = self.breaker.open_for_ms(now_ms) {
            let text = format!("it failed again and again, and isn't asked for {wait} ms");
            return Err(StageError::new(Cause::Unavailable, text));
        }
        if *fuel_left == Some(0) {
            let text = "the stages before it used up the fuel of the decision";
            return Err(StageError::new(Cause::Fuel, text));
        }
        self.instance.allow(*fuel_left);
        // Two looks at a clock are much beside a native stage, and nothing beside a metered one.
        let watch = self.instance.last_fuel().map(|_| Stopwatch::start());
        let answer = call(&mut *self.instance);
        let micros = watch.map(|watch| watch.micros());
        self.spent = Spent { fuel: self.instance.last_fuel(), micros };
        if let (Some(left), Some(used)) = (fuel_left.as_mut(), self.spent.fuel) {
            *left = left.saturating_sub(used);
        }
        answer
    }

    /// Whether it learns from outcomes.
    pub(super) fn observes(&self) -> bool {
        self.instance.declaration().properties.observes
    }

    /// Tells the instance what became of decisions. One that fails that again and again isn't told
    /// for a while, so that what it loses by failing is there for decisions.
    pub(super) fn observe(
        &mut self,
        outcomes: &[DecisionOutcome],
        now_ms: u64,
    ) -> (Result<(), StageError>, Option<Turn>) {
        if let Some(wait) = self.observing.open_for_ms(now_ms) {
            self.spent = Spent::default();
            let text = format!("it failed again and again, and isn't told for {wait} ms");
            return (Err(StageError::new(Cause::Unavailable, text)), None);
        }
        let answer = self.call(now_ms, &mut None, |instance| instance.observe(outcomes));
        let turn = match &answer {
            // Who couldn't be told hasn't failed.
            Err(error) if error.cause == Cause::Unavailable => None,
            answer => self.observing.note(answer.is_err(), now_ms),
        };
        self.keep_error(answer.as_ref().err());
        (answer, turn)
    }

    /// What the last call cost.
    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Takes note of what an answer was worth.
    pub(super) fn note(&mut self, failure: Option<&StageError>) {
        // Who couldn't be asked hasn't failed.
        if failure.is_none_or(|error| error.cause != Cause::Unavailable) {
            self.failed = Some(self.failed == Some(true) || failure.is_some());
        }
        self.keep_error(failure);
    }

    fn keep_error(&mut self, failure: Option<&StageError>) {
        if let Some(error) = failure.filter(|error| error.cause != Cause::Unavailable) {
            self.last_error = Some(error.clone());
        }
    }

    /// The decision is over.
    pub(super) fn end_decision(&mut self, now_ms: u64) -> Option<Turn> {
        let failed = self.failed.take()?;
        self.breaker.note(failed, now_ms)
    }

    pub(super) fn is_spoilt(&self) -> bool {
        self.instance.is_spoilt()
    }

    /// Makes another instance in place of this one, told the same and with no state.
    pub(super) fn renew(&mut self) -> Result<(), StageError> {
        let unavailable = |text: String| StageError::new(Cause::Unavailable, text);
        let Some((provider, environment)) = &self.origin else {
            return Err(unavailable("it is not known how it was made".to_owned()));
        };
        let made = provider
            .instantiate(environment)
            .map_err(|error| unavailable(format!("no new instance could be made: {error}")))?;
        // Stages are known by their place in the declaration.
        if made.declaration() != self.instance.declaration() {
            let text = "it declares other stages than it did before with the same configuration";
            return Err(unavailable(text.to_owned()));
        }
        self.instance = made;
        Ok(())
    }
}
