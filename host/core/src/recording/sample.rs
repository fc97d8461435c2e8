//! A decision's record on its way to those who watch.
//!
//! Owns the memory of records that were looked at, for those that follow: one that is made for each
//! decision is not to cost the decision an allocation for each column, or a count that two threads
//! fight over.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Recording;
use crate::fleet::Snapshot;
use crate::policy::settings::RouterSettings;
use crate::rollout::Shadow;

/// Records that are kept for their memory. Few are on their way at a time, unless somebody is slow,
/// and then it is not for want of memory.
const MOST_SPARE: usize = 32;

/// A decision's record, with who wants to see it. Its memory is used again when it is dropped.
#[derive(Debug)]
pub struct Sample {
    /// None only while it is dropped.
    contents: Option<Box<Contents>>,
    shelf: Arc<Shelf>,
}

/// What is in a record on its way.
#[derive(Debug, Default)]
pub struct Contents {
    /// The record.
    pub recording: Recording,
    /// The fleet as it was.
    pub fleet: Arc<Snapshot>,
    /// The router's settings at the time.
    pub settings: Arc<RouterSettings>,
    /// All that watch the partition.
    all: Option<Arc<[Arc<Shadow>]>>,
    /// Those of them that want to see it, by their places.
    chosen: SmallVec<[u16; 4]>,
    /// Of which set of shadows it was.
    generation: u64,
}

impl Contents {
    /// Those who want to see it.
    pub fn shadows(&self) -> impl Iterator<Item = &Arc<Shadow>> {
        let all = self.all.as_deref().unwrap_or_default();
        self.chosen.iter().filter_map(|&at| all.get(usize::from(at)))
    }
}

impl Deref for Sample {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        // It is there until it is dropped.
        self.contents.as_deref().unwrap_or(&self.shelf.nothing)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if let Some(contents) = self.contents.take() {
            self.shelf.put(contents);
        }
    }
}

/// The records of one partition that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    #[expect(clippy::vec_box, reason = "they go around in their boxes, which aren't made anew")]
    spare: Mutex<Vec<Box<Contents>>>,
    /// Grows with each change of who watches: what was for others isn't held on to.
    generation: AtomicU64,
    nothing: Contents,
}

impl Shelf {
    /// Other shadows watch from now on.
    pub(crate) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let spare = std::mem::take(&mut *self.spare.lock());
        drop(spare);
    }

    /// Memory for a record. What is in it is of no account.
    pub(crate) fn take(&self) -> Box<Contents> {
        self.spare.lock().pop().unwrap_or_default()
    }

    fn put(&self, contents: Box<Contents>) {
        if contents.generation != self.generation.load(Ordering::Relaxed) {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < MOST_SPARE {
            spare.push(contents);
        } else {
            drop(spare);
            drop(contents);
        }
    }

    /// A record that is whole.
    pub(crate) fn sample(
        self: &Arc<Self>,
        mut contents: Box<Contents>,
        fleet: &Arc<Snapshot>,
        settings: &Arc<RouterSettings>,
        all: &Arc<[Arc<Shadow>]>,
        chosen: SmallVec<[u16; 4]>,
    ) -> Sample {
        // What is the same already costs no count.
        if !Arc::ptr_eq(&contents.fleet, fleet) {
            contents.fleet = fleet.clone();
        }
        if !Arc::ptr_eq(&contents.settings, settings) {
            contents.settings = settings.clone();
        }
        if !contents.all.as_ref().is_some_and(|its| Arc::ptr_eq(its, all)) {
            contents.all = Some(all.clone());
        }
        contents.chosen = chosen;
        contents.generation = self.generation.load(Ordering::Relaxed);
        Sample { contents: Some(contents), shelf: self.clone() }
    }
}
