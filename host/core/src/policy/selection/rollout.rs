//! What comes after an instance: those that are watched beside it, and the one that is tried with a
//! share of its decisions.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Shares of a whole: of decisions, or of a processor's time.
pub type Share = f64;

/// An instance that decides too, and is only watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowSpec {
    /// Which.
    pub instance: Arc<str>,
    /// The share of decisions that it is shown.
    pub sample: Share,
    /// The share of one processor's time that it may take.
    pub budget: Share,
}

impl ShadowSpec {
    /// One that is shown every decision, within a tenth of one processor's time.
    #[must_use]
    pub fn of(instance: Arc<str>) -> Self {
        Self { instance, sample: 1.0, budget: 0.1 }
    }
}

/// What a canary's share goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryBy {
    /// Each request by itself.
    #[default]
    Request,
    /// All requests of a session alike; those without one each by itself.
    Session,
}

/// An instance that makes a share of the decisions, until it does worse than it may.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanarySpec {
    /// Which.
    pub instance: Arc<str>,
    /// The share of decisions that it makes.
    pub share: Share,
    /// What that goes by.
    pub by: CanaryBy,
    /// The share of its decisions that it may fail.
    pub max_failures: Share,
    /// What 99 of 100 of its decisions must not take longer than; none is any time.
    #[serde(serialize_with = "as_micros")]
    pub max_p99: Option<Duration>,
    /// Decisions that it is judged by at least.
    pub judged_by: u32,
}

impl CanarySpec {
    /// One that makes this share of the decisions, and may fail one of a hundred.
    #[must_use]
    pub fn of(instance: Arc<str>, share: Share) -> Self {
        let by = CanaryBy::Request;
        Self { instance, share, by, max_failures: 0.01, max_p99: None, judged_by: 100 }
    }
}

fn as_micros<S: Serializer>(longest: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match longest {
        Some(longest) => to.collect_str(&format_args!("{}us", longest.as_micros())),
        None => to.serialize_none(),
    }
}

/// What comes after an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rollout {
    /// Those that are watched.
    pub shadows: Vec<ShadowSpec>,
    /// The one that is tried.
    pub canary: Option<CanarySpec>,
}

impl Rollout {
    /// The instances that it names.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<str>> {
        let shadows = self.shadows.iter().map(|shadow| &shadow.instance);
        shadows.chain(self.canary.iter().map(|canary| &canary.instance))
    }
}
