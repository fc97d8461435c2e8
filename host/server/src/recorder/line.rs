//! One line of a file of decisions: JSON, by `kind`.
//!
//! Owns the form in which decisions and classifiers' logs are written and read. A line of `settings` goes before the first
//! decision that was made under them, in each file, so that each can be read by itself.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pointsman_core::classifier::{LogEntry, Logged};
use pointsman_core::ids::{DecisionId, PartitionKey, WorkerRank};
use pointsman_core::policy::{Digest, RouterSettings};
use pointsman_core::recording::Recording;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::telemetry::Record;

/// Writes a line of settings, without its end.
pub(super) fn settings(number: u64, router_seed: u64, settings: &RouterSettings) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        kind: &'static str,
        number: u64,
        router_seed: String,
        settings: &'a RouterSettings,
    }
    let line = Line { kind: "settings", number, router_seed: router_seed.to_string(), settings };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Writes a line of a decision.
pub(super) fn decision(
    settings: u64,
    now: SystemTime,
    record: &Record,
    recording: &Recording,
) -> serde_json::Result<Box<RawValue>> {
    #[derive(Serialize)]
    struct Line<'a> {
        kind: &'static str,
        settings: u64,
        at_unix_ms: u64,
        #[serde(flatten)]
        record: &'a Record,
        margin: Option<f64>,
        ties: usize,
        recording: &'a Recording,
    }
    serde_json::value::to_raw_value(&Line {
        kind: "decision",
        settings,
        at_unix_ms: unix_ms(now),
        record,
        margin: recording.margin(),
        ties: recording.ties(),
        recording,
    })
}

/// Writes a line of a request classifier's log.
pub(super) fn classifier(now: SystemTime, entry: &LogEntry) -> serde_json::Result<Box<RawValue>> {
    #[derive(Serialize)]
    struct Line<'a> {
        kind: &'static str,
        at_unix_ms: u64,
        #[serde(flatten)]
        entry: &'a LogEntry,
    }
    serde_json::value::to_raw_value(&Line { kind: "classifier", at_unix_ms: unix_ms(now), entry })
}

fn unix_ms(now: SystemTime) -> u64 {
    let at = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// The policy that made a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReadPolicy {
    /// The instance's name.
    pub name: Arc<str>,
    /// Its type.
    #[serde(rename = "type")]
    pub policy_type: Arc<str>,
    /// Its component's identity; none for a native policy.
    pub digest: Option<Digest>,
}

/// A decision that was read.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadDecision {
    /// The number of the settings under which it was made.
    pub settings: u64,
    /// Its id.
    pub decision_id: DecisionId,
    /// Where it was made.
    pub partition: PartitionKey,
    /// By whom.
    pub policy: ReadPolicy,
    /// Whether somebody else was to make it, and failed.
    #[serde(default)]
    pub fallback: Option<serde_json::Value>,
    /// The row that was chosen: its worker.
    pub worker_id: pointsman_core::ids::WorkerId,
    /// And its rank.
    pub dp_rank: pointsman_core::ids::DpRank,
    /// What it cost, in the digits in which it was written.
    pub cost: Box<RawValue>,
    /// What it was made from.
    pub recording: Recording,
}

impl ReadDecision {
    /// The row that was chosen.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        WorkerRank { worker_id: self.worker_id, dp_rank: self.dp_rank }
    }

    /// What it cost, to the last bit.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        self.cost.get().parse().ok()
    }
}

/// Settings that were read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSettings {
    /// What decisions call them.
    pub number: u64,
    /// What instances' own random numbers come from.
    pub router_seed: u64,
    /// They.
    pub settings: RouterSettings,
}

/// What a line was.
#[derive(Debug)]
pub enum Read {
    /// Settings, for decisions that follow.
    Settings(Box<ReadSettings>),
    /// A decision.
    Decision(Box<ReadDecision>),
    /// An entry of a request classifier's log.
    Classifier(Box<LogEntry>),
    /// Something that a later version writes.
    Other(String),
}

/// Why a line can't be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no line of a file of decisions: {reason}; it may be cut off, so take it out")]
pub struct BadLine {
    reason: String,
    /// It ends too early, and up to there nothing is wrong with it.
    pub is_cut: bool,
}

/// Reads a line.
pub fn read(line: &str) -> Result<Read, BadLine> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    #[derive(Deserialize)]
    struct Settings {
        number: u64,
        router_seed: String,
        settings: RouterSettings,
    }
    let bad = |error: &dyn std::fmt::Display| BadLine { reason: error.to_string(), is_cut: false };
    let Kind { kind } = serde_json::from_str(line)
        .map_err(|error| BadLine { is_cut: error.is_eof(), ..bad(&error) })?;
    match &*kind {
        "settings" => {
            // By a reader that takes every digit of a number.
            let read: Settings = serde_yaml::from_str(line).map_err(|error| bad(&error))?;
            let router_seed = read.router_seed.parse().map_err(|error| bad(&error))?;
            let Settings { number, settings, .. } = read;
            Ok(Read::Settings(Box::new(ReadSettings { number, router_seed, settings })))
        }
        "decision" => {
            let read: ReadDecision = serde_json::from_str(line).map_err(|error| bad(&error))?;
            read.recording.check().map_err(|error| bad(&error))?;
            Ok(Read::Decision(Box::new(read)))
        }
        "classifier" => {
            let mut entry: LogEntry = serde_json::from_str(line).map_err(|error| bad(&error))?;
            if let Logged::Began(beginning) = &mut entry.what {
                // By a reader that takes every digit of a number.
                let read: Beginnings = serde_yaml::from_str(line).map_err(|error| bad(&error))?;
                let Told { parameters, settings } = read.what.began;
                (beginning.parameters, beginning.settings) = (parameters.into(), settings.into());
            }
            Ok(Read::Classifier(Box::new(entry)))
        }
        _ => Ok(Read::Other(kind)),
    }
}

/// How an instance began, as far as numbers are in it that aren't whole.
#[derive(Deserialize)]
struct Beginnings {
    what: Began,
}

#[derive(Deserialize)]
struct Began {
    began: Told,
}

#[derive(Deserialize)]
struct Told {
    parameters: serde_json::Map<String, serde_json::Value>,
    settings: RouterSettings,
}
