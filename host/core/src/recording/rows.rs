//! Recorded rows.
//!
//! Owns which rows a decision was made over: all of a fleet's, which are the fleet's own list, or
//! some of them. In JSON they are a list either way.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fleet::Snapshot;
use crate::ids::WorkerRank;

/// The rows of a record, ascending.
#[derive(Clone, Debug, Default)]
pub struct RecordedRows {
    /// Whose rows they were; kept also while they are only some of them, for the record after.
    fleet: Option<Arc<Snapshot>>,
    /// Whether they are all of the fleet's.
    all: bool,
    /// The rows, if they aren't.
    some: Vec<WorkerRank>,
}

impl RecordedRows {
    /// No rows, in the memory that there is.
    pub(crate) fn clear(&mut self) {
        self.all = false;
        self.some.clear();
    }

    /// Becomes these ascending rows of a fleet; if they are all, none is copied.
    pub(crate) fn take(&mut self, fleet: &Arc<Snapshot>, rows: &[u32]) {
        self.clear();
        if rows.len() != fleet.rows.len() {
            self.some.extend(rows.iter().filter_map(|&row| fleet.rows.get(row as usize)));
            return;
        }
        self.are_all_of(fleet);
    }

    /// The fleet whose rows they all are; none if they are only some, or it isn't known.
    #[must_use]
    pub fn fleet(&self) -> Option<&Arc<Snapshot>> {
        self.fleet.as_ref().filter(|_| self.all)
    }

    /// Leaves only the rows at these ascending places.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        match &self.fleet {
            Some(fleet) if self.all => {
                self.some.clear();
                self.some.extend(kept.iter().filter_map(|&row| fleet.rows.get(row as usize)));
                self.all = false;
            }
            _ => {
                let mut left = 0;
                for &row in kept {
                    if let Some(&row) = self.some.get(row as usize)
                        && let Some(place) = self.some.get_mut(left)
                    {
                        *place = row;
                        left += 1;
                    }
                }
                self.some.truncate(left);
            }
        }
    }

    /// Become what others are, in the memory that these have.
    pub(crate) fn copy_from(&mut self, others: &Self) {
        self.some.clone_from(&others.some);
        match &others.fleet {
            Some(fleet) if others.all => self.are_all_of(fleet),
            _ => self.all = false,
        }
    }

    fn are_all_of(&mut self, fleet: &Arc<Snapshot>) {
        self.all = true;
        // What is the same already costs no count.
        if !self.fleet.as_ref().is_some_and(|its| Arc::ptr_eq(its, fleet)) {
            self.fleet = Some(fleet.clone());
        }
    }
}

impl Deref for RecordedRows {
    type Target = [WorkerRank];

    fn deref(&self) -> &[WorkerRank] {
        match &self.fleet {
            Some(fleet) if self.all => &fleet.rows,
            _ => &self.some,
        }
    }
}

impl From<Vec<WorkerRank>> for RecordedRows {
    fn from(some: Vec<WorkerRank>) -> Self {
        Self { fleet: None, all: false, some }
    }
}

impl PartialEq for RecordedRows {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for RecordedRows {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for RecordedRows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}
