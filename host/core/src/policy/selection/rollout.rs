//! What comes after an instance: those that are watched beside it, and the one that is tried with a
//! share of its decisions. They are shown by the names and in the units of the YAML.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Shares of a whole: of decisions, or of a processor's time.
pub type Share = f64;

/// A share as a percentage: the number that was written, though no share is exactly that of every
/// percentage.
#[must_use]
pub fn percent(share: Share) -> f64 {
    const DIGITS: f64 = 1e9;
    let percent = share * 100.0;
    let rounded = (percent * DIGITS).round() / DIGITS;
    // Of a share that is smaller than that there would be nothing left.
    if rounded == 0.0 { percent } else { rounded }
}

/// Shows a share as a percentage.
pub(crate) fn as_percent<S: Serializer>(share: &Share, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(percent(*share))
}

/// An instance that decides too, and is only watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowSpec {
    /// Which.
    pub instance: Arc<str>,
    /// The share of decisions that it is shown.
    #[serde(rename = "percent", serialize_with = "as_percent")]
    pub sample: Share,
    /// The share of one processor's time that it may take.
    #[serde(rename = "budget_percent", serialize_with = "as_percent")]
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
    #[serde(rename = "percent", serialize_with = "as_percent")]
    pub share: Share,
    /// What that goes by.
    pub by: CanaryBy,
    /// The share of its decisions that it may fail.
    #[serde(rename = "max_failures_percent", serialize_with = "as_percent")]
    pub max_failures: Share,
    /// What 99 of 100 of its decisions must not take longer than; none is any time.
    #[serde(rename = "max_p99_us", serialize_with = "as_micros")]
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
        Some(longest) => to.serialize_u64(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)),
        None => to.serialize_none(),
    }
}

/// What comes after an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rollout {
    /// Those that are watched.
    #[serde(rename = "shadow")]
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;

    #[test]
    fn they_are_shown_as_the_yaml_writes_them() {
        let shadow = ShadowSpec { sample: 0.07, ..ShadowSpec::of("a".into()) };
        let mut canary = CanarySpec::of("b".into(), 0.05);
        canary.max_p99 = Some(Duration::from_micros(1_500));
        let rollout = Rollout { shadows: vec![shadow], canary: Some(canary) };
        let shown = serde_json::to_value(&rollout).unwrap();
        let expected = serde_json::json!({
            "shadow": [{ "instance": "a", "percent": 7.0, "budget_percent": 10.0 }],
            "canary": {
                "instance": "b", "percent": 5.0, "by": "request", "max_failures_percent": 1.0,
                "max_p99_us": 1_500, "judged_by": 100,
            },
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_percentage_comes_back_as_it_was_written() {
        for written in [0.0, 0.001, 0.07, 1.1, 5.0, 7.0, 14.3, 33.333, 56.0, 99.99, 100.0] {
            assert_eq!(percent(written / 100.0), written);
        }
    }
}
