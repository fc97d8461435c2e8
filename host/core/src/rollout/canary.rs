//! A policy that makes a share of the decisions.
//!
//! Owns which decisions those are, how they went, and the rule by which it is given up. The policy
//! that it is tried for decides whatever it fails, so that it costs no request.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::clock::{Chance, Moment};
use crate::policy::catalog::Digest;
use crate::policy::pipeline::Pipeline;
use crate::policy::selection::{CanaryBy, CanarySpec, as_percent, percent};
use crate::receipt::PolicyLabel;
use crate::request::RouteRequest;

/// The rule looks back on so many decisions, and up to twice as many.
const WINDOW: u64 = 10_000;

/// 99 of 100 are not to be slower than they may.
const SLOW_SHARE: f64 = 0.01;

/// So that a canary's share is not that of a shadow's sample.
const SALT: u64 = 0x6361_6e61_7279;

/// Whether a canary decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryState {
    /// It makes its share of the decisions.
    Active,
    /// It did worse than it may, and makes none until the policies are changed or it is turned on.
    RolledBack,
    /// An operator has turned it off.
    Disabled,
}

impl CanaryState {
    /// All of them, for metrics.
    pub const ALL: [Self; 3] = [Self::Active, Self::RolledBack, Self::Disabled];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::RolledBack => "rolled-back",
            Self::Disabled => "disabled",
        }
    }
}

/// How a canary does in one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanaryReport {
    /// Which instance.
    pub instance: Arc<str>,
    /// Its type; the first one's, if it has stages of several.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its component's identity; none for a native policy.
    pub digest: Option<Digest>,
    /// The share of decisions that it makes while it is active.
    #[serde(rename = "percent", serialize_with = "as_percent")]
    pub share: f64,
    /// Whether it does.
    pub state: CanaryState,
    /// Decisions that it was asked for.
    pub decisions: u64,
    /// Of those, that it failed, or for which it rejected every row: the other one made them.
    pub failures: u64,
    /// Of those, that took longer than they may.
    pub slow: u64,
    /// Why it was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, in milliseconds on the router's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back_at_ms: Option<u64>,
}

/// What the rule looks at.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    decisions: u64,
    failures: u64,
    slow: u64,
}

impl Tally {
    fn add(&mut self, failed: bool, slow: bool) {
        self.decisions += 1;
        self.failures += u64::from(failed);
        self.slow += u64::from(slow);
    }

    fn halve(&mut self) {
        self.decisions /= 2;
        self.failures /= 2;
        self.slow /= 2;
    }
}

/// Why and when it was given up.
#[derive(Clone, Debug)]
struct GivenUp {
    reason: String,
    at_ms: u64,
}

/// The canary of one partition.
#[derive(Debug)]
pub(crate) struct Canary {
    spec: CanarySpec,
    pub(crate) pipeline: Pipeline,
    ever: Tally,
    lately: Tally,
    given_up: Option<GivenUp>,
    disabled: bool,
}

impl Canary {
    pub(crate) fn new(spec: CanarySpec, pipeline: Pipeline) -> Self {
        let (ever, lately) = (Tally::default(), Tally::default());
        Self { spec, pipeline, ever, lately, given_up: None, disabled: false }
    }

    /// Which instance.
    pub(crate) fn instance(&self) -> &Arc<str> {
        &self.spec.instance
    }

    /// Whether it makes its share of the decisions.
    pub(crate) fn is_active(&self) -> bool {
        !self.disabled && self.given_up.is_none()
    }

    /// Whether a decision is its.
    pub(crate) fn takes(&self, request: &RouteRequest, moment: Moment) -> bool {
        if !self.is_active() {
            return false;
        }
        let by_session = match self.spec.by {
            CanaryBy::Request => None,
            CanaryBy::Session => request.session.as_ref().map(|session| of_text(&session.id)),
        };
        Chance::new(by_session.unwrap_or(moment.seed) ^ SALT).unit() < self.spec.share
    }

    /// Takes note of how it did, and gives it up if that is worse than it may be.
    pub(crate) fn note(&mut self, failed: bool, took: Duration, now_ms: u64) {
        let slow = self.spec.max_p99.is_some_and(|longest| took > longest);
        self.ever.add(failed, slow);
        self.lately.add(failed, slow);
        if self.given_up.is_none()
            && let Some(reason) = self.reason()
        {
            tracing::error!(
                policy = &*self.spec.instance,
                reason,
                "a canary is rolled back: the policy that it was tried for makes its decisions"
            );
            self.given_up = Some(GivenUp { reason, at_ms: now_ms });
        }
        if self.lately.decisions >= 2 * WINDOW {
            self.lately.halve();
        }
    }

    /// Why it is to be given up.
    fn reason(&self) -> Option<String> {
        let Tally { decisions, failures, slow } = self.lately;
        let judged = decisions.max(u64::from(self.spec.judged_by)) as f64;
        let (most, longest) = (self.spec.max_failures, self.spec.max_p99);
        if failures as f64 > most * judged {
            return Some(format!(
                "it failed {failures} of its latest {decisions} decisions; `max_failures_percent` is {}",
                percent(most)
            ));
        }
        let longest = longest.filter(|_| slow as f64 > SLOW_SHARE * judged)?;
        Some(format!(
            "{slow} of its latest {decisions} decisions took longer than {longest:?}; `max_p99_us` allows one of a hundred"
        ))
    }

    /// Turns it off, or on: then it begins anew.
    pub(crate) fn set_disabled(&mut self, disabled: bool) {
        self.disabled = disabled;
    }

    /// Lets it try again after it was given up.
    pub(crate) fn resume(&mut self) {
        if self.given_up.take().is_some() {
            self.lately = Tally::default();
        }
    }

    pub(crate) fn report(&self) -> CanaryReport {
        let PolicyLabel { name, policy_type, digest } = self.pipeline.label();
        let state = match (&self.given_up, self.disabled) {
            (_, true) => CanaryState::Disabled,
            (Some(_), false) => CanaryState::RolledBack,
            (None, false) => CanaryState::Active,
        };
        CanaryReport {
            instance: name,
            policy_type,
            digest,
            share: self.spec.share,
            state,
            decisions: self.ever.decisions,
            failures: self.ever.failures,
            slow: self.ever.slow,
            reason: self.given_up.as_ref().map(|given_up| given_up.reason.clone()),
            rolled_back_at_ms: self.given_up.as_ref().map(|given_up| given_up.at_ms),
        }
    }
}

/// A number that is the same for the same text in every life of every router.
fn of_text(text: &str) -> u64 {
    text.bytes().fold(0, |number, byte| Chance::new(number ^ u64::from(byte)).bits())
}
