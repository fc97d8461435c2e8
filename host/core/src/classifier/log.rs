//! A classifier's log: how each instance began, and each call that it answered, so that another one
//! can be put in its place afterwards.
//!
//! Owns the forms in which those are kept, and the numbers by which a gap shows: a classifier has
//! state, so that a log from which something is missing can't be repeated. It holds no text of a
//! prompt. It doesn't know who keeps it, or where.

mod event;
mod scribe;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::{Capacity, Release, Verdict};
use super::provider::{ClassifierDeclaration, ClassifierEnvironment};
use crate::ids::{PartitionKey, as_decimal, from_decimal};
use crate::policy::{Cause, Digest, Limits, RouterSettings};

pub use event::{LoggedEvent, LoggedRequest};
pub(super) use scribe::Scribe;

/// Keeps a partition's log. It is told while the desk is at work, and must not wait.
pub trait ClassifierLog: Send + Sync + fmt::Debug {
    /// Takes an entry; they come in order.
    fn note(&self, entry: LogEntry);
}

/// One entry of a log. It is read from JSON text, which keeps every digit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Whose log.
    pub partition: PartitionKey,
    /// Which instance, counted from 1 since the partition began.
    pub instance: u64,
    /// Which of its entries: 0 is how it began, the others are counted from 1.
    pub call: u64,
    /// Milliseconds on the router's clock.
    pub now_ms: u64,
    /// What happened.
    pub what: Logged,
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logged {
    /// It began.
    Began(Box<Beginning>),
    /// It was asked about a request.
    Asked(Box<LoggedRequest>, Answer<Verdict>),
    /// It was told of an event.
    Told(Box<LoggedEvent>, Answer<Vec<Release>>),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T> {
    /// This.
    Gave(T),
    /// Nothing.
    Failed(Cause),
}

/// What an instance was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    /// The type's name.
    #[serde(rename = "type")]
    pub classifier_type: Arc<str>,
    /// Its component's identity; none for a native classifier.
    pub digest: Option<Digest>,
    /// What it wanted of the host.
    pub declaration: ClassifierDeclaration,
    /// Tokens in one block.
    pub block_size: u32,
    /// Its parameters; an object.
    pub parameters: Arc<serde_json::Map<String, serde_json::Value>>,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
    /// The classes that it could give, sorted.
    pub policy_classes: Arc<[Arc<str>]>,
    /// The workers at the time.
    pub workers: Arc<[Capacity]>,
    /// Fuel for one call; none where that was left to the component's size.
    pub fuel: Option<u64>,
    /// Bytes of memory; none where that was left to the component's size.
    pub memory: Option<u64>,
    /// Its seed; in JSON its decimal digits in a text, since it takes all 64 bits.
    #[serde(serialize_with = "as_decimal", deserialize_with = "from_decimal")]
    pub seed: u64,
}

impl Beginning {
    /// The environment in which another instance begins as this one did, with these parameters or
    /// its own.
    #[must_use]
    pub fn environment(
        &self,
        partition: PartitionKey,
        parameters: Option<&Arc<serde_json::Map<String, serde_json::Value>>>,
    ) -> ClassifierEnvironment {
        ClassifierEnvironment {
            partition,
            block_size: self.block_size,
            parameters: parameters.unwrap_or(&self.parameters).clone(),
            settings: self.settings.clone(),
            policy_classes: self.policy_classes.clone(),
            workers: self.workers.clone(),
            limits: Limits { fuel: self.fuel, memory: self.memory, ..Limits::default() },
            seed: self.seed,
            trial: false,
        }
    }
}
