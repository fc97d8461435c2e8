//! What came of logs that were repeated, counted.

use std::collections::BTreeMap;
use std::fmt;

use pointsman_core::classifier::LogEntry;
use pointsman_core::ids::PartitionKey;
use serde::Serialize;

use super::Hold;

/// Gaps that are told; further ones are counted.
const MOST_GAPS: usize = 100;

/// All calls, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// Instances whose log was repeated.
    pub instances: u64,
    /// Calls that were.
    pub calls: u64,
    /// With the same answer.
    pub same: u64,
    /// With another one.
    pub differ: u64,
    /// Those of them that failed now, and didn't, or otherwise.
    pub failed: u64,
    /// Calls of an instance that was lost before: they can't be repeated.
    pub impossible: u64,
    /// Calls of logs that lack one before: they can't be repeated.
    pub left_out: u64,
    /// What the classifier held whose log it is.
    pub held_was: Holds,
    /// What this one held.
    pub held_now: Holds,
    /// Requests that were sent while this one held them: it was told that the host admitted them.
    pub overtaken: u64,
    /// Where a log can't be repeated any further.
    pub gaps: Vec<Gap>,
    #[serde(skip)]
    known: BTreeMap<PartitionKey, u64>,
}

/// What was held, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// Requests.
    pub requests: u64,
    /// Milliseconds, added up.
    pub ms: u64,
}

impl Holds {
    pub(super) fn add(&mut self, hold: Option<Hold>) {
        if let Some(hold) = hold {
            self.requests += 1;
            self.ms = self.ms.saturating_add(hold.ms);
        }
    }
}

/// A place from which a log can't be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Whose log.
    pub partition: PartitionKey,
    /// Of which instance.
    pub instance: u64,
    /// The first entry that is missing; 0 is the beginning.
    pub missing: u64,
    /// The one that is there in its place.
    pub found: u64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, instance, missing, found } = self;
        let whose = format!("the log of classifier instance {instance} in {partition}");
        if *missing == 0 {
            return write!(
                f,
                "{whose} begins with call {found}, so that what the classifier knew by then isn't \
                 known, and it can't be repeated; name the older files first, or have \
                 `recording.files` keep more of them"
            );
        }
        write!(
            f,
            "{whose} has call {found} where call {missing} should be, so that what the classifier \
             knew by then isn't known, and the rest can't be repeated; name all files, oldest first"
        )
    }
}

impl CallSummary {
    /// Whether all calls of the log have the same answers.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.differ == 0 && self.impossible == 0 && self.left_out == 0
    }

    pub(super) fn begins(&mut self, partition: &PartitionKey) {
        self.instances += 1;
        self.known.remove(partition);
    }

    /// An entry is there that isn't the one that should be.
    pub(super) fn lacks(&mut self, entry: &LogEntry, missing: u64) {
        self.left_out += 1;
        let told = self.known.insert(entry.partition.clone(), entry.instance);
        if told != Some(entry.instance) && self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap {
                partition: entry.partition.clone(),
                instance: entry.instance,
                missing,
                found: entry.call,
            });
        }
    }
}
