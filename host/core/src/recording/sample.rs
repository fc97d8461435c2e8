//! A decision's record on its way to those who watch.
//!
//! Owns the memory of records, used again and again: a record that is made for each decision is not to
//! cost the decision an allocation for each column. What one core has written and another has read
//! is slow to be written again, so a decision's record stays in memory of those who decide, and is
//! copied when it leaves them, after the decision: into memory that others have read, of which all
//! that came back is taken at once.

use std::ops::Deref;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Recording;
use crate::fleet::Snapshot;
use crate::policy::settings::RouterSettings;
use crate::rollout::Shadow;

/// Records that are kept for their memory. Few are on their way at a time, unless somebody is slow,
/// and then it is not for want of memory.
const MOST_SPARE: usize = 64;

/// Records that leave before those that came back are asked for.
const GOING_AROUND: usize = 16;

/// What a sample has while it is dropped.
static NOTHING: LazyLock<Contents> = LazyLock::new(Contents::default);

/// A decision's record, with who wants to see it. Its memory is used again when it is dropped.
#[derive(Debug)]
pub struct Sample {
    /// None only while it is dropped.
    contents: Option<Box<Contents>>,
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
    /// Where it goes when it is dropped.
    home: Weak<Mutex<Home>>,
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
        self.contents.as_deref().unwrap_or_else(|| &NOTHING)
    }
}

impl Contents {
    /// Becomes what another is, in the memory that it has. What is the same already costs no count.
    fn copy_from(&mut self, other: &mut Self) {
        self.recording.copy_from(&mut other.recording);
        let Self { fleet, settings, all, .. } = other;
        self.belong_to(fleet, settings, all.as_ref());
        self.chosen.clone_from(&other.chosen);
        self.generation = other.generation;
    }

    fn belong_to(
        &mut self,
        fleet: &Arc<Snapshot>,
        settings: &Arc<RouterSettings>,
        all: Option<&Arc<[Arc<Shadow>]>>,
    ) {
        if !Arc::ptr_eq(&self.fleet, fleet) {
            self.fleet = fleet.clone();
        }
        if !Arc::ptr_eq(&self.settings, settings) {
            self.settings = settings.clone();
        }
        if self.all.as_ref().map(Arc::as_ptr) != all.map(Arc::as_ptr) {
            self.all = all.cloned();
        }
    }
}

impl Sample {
    /// The same for another thread: a copy, so that the memory in which decisions are made stays with
    /// those who make them. To be called after the decision, by whoever made it.
    #[must_use]
    pub fn for_another_thread(mut self) -> Self {
        let Some(mut contents) = self.contents.take() else { return self };
        if let Some(home) = contents.home.upgrade() {
            let mut home = home.lock();
            if let Some(abroad) = &mut home.abroad {
                let mut copy = abroad.take();
                copy.copy_from(&mut contents);
                home.put(contents);
                return Self { contents: Some(copy) };
            }
        }
        // It is abroad already, or its partition is gone.
        Self { contents: Some(contents) }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let Some(contents) = self.contents.take() else { return };
        // Else the partition is gone.
        let Some(home) = contents.home.upgrade() else { return };
        let left = home.lock().put(contents);
        // Not under the lock.
        drop(left);
    }
}

/// Records that wait to be used.
#[derive(Debug, Default)]
struct Home {
    #[expect(clippy::vec_box, reason = "they go around in their boxes, which aren't made anew")]
    spare: Vec<Box<Contents>>,
    /// Grows with each change of who watches: what was for others isn't held on to.
    generation: u64,
    /// Those that leave; none if this is where those come back.
    abroad: Option<Abroad>,
}

/// Records that leave those who decide.
#[derive(Debug, Default)]
struct Abroad {
    /// Taken from where they come back.
    #[expect(clippy::vec_box, reason = "they go around in their boxes, which aren't made anew")]
    spare: Vec<Box<Contents>>,
    /// Records that were made since others watch.
    made: usize,
    back: Arc<Mutex<Home>>,
}

impl Home {
    /// Takes a record for its memory; gives it back if there is enough, or if it was for others.
    fn put(&mut self, contents: Box<Contents>) -> Option<Box<Contents>> {
        if contents.generation != self.generation || self.spare.len() >= MOST_SPARE {
            return Some(contents);
        }
        self.spare.push(contents);
        None
    }
}

impl Abroad {
    fn take(&mut self) -> Box<Contents> {
        if self.spare.is_empty() && self.made >= GOING_AROUND {
            std::mem::swap(&mut self.spare, &mut self.back.lock().spare);
        }
        self.spare.pop().unwrap_or_else(|| {
            self.made += 1;
            blank(&self.back)
        })
    }
}

fn blank(home: &Arc<Mutex<Home>>) -> Box<Contents> {
    Box::new(Contents { home: Arc::downgrade(home), ..Contents::default() })
}

/// The spare records of one partition.
#[derive(Debug)]
pub(crate) struct Shelf {
    home: Arc<Mutex<Home>>,
    generation: u64,
}

impl Default for Shelf {
    fn default() -> Self {
        let home = Home { abroad: Some(Abroad::default()), ..Home::default() };
        Self { home: Arc::new(Mutex::new(home)), generation: 0 }
    }
}

impl Shelf {
    /// Other shadows watch from now on.
    pub(crate) fn clear(&mut self) {
        self.generation += 1;
        let mut home = self.home.lock();
        home.generation = self.generation;
        let mut of_before = std::mem::take(&mut home.spare);
        if let Some(abroad) = &mut home.abroad {
            abroad.made = 0;
            of_before.append(&mut abroad.spare);
            let mut back = abroad.back.lock();
            back.generation = self.generation;
            of_before.append(&mut back.spare);
        }
        // Not under the lock.
        drop(home);
        drop(of_before);
    }

    /// Memory for a record. What is in it is of no account.
    pub(crate) fn take(&self) -> Box<Contents> {
        let spare = self.home.lock().spare.pop();
        spare.unwrap_or_else(|| blank(&self.home))
    }

    /// A record that is whole.
    pub(crate) fn sample(
        &self,
        mut contents: Box<Contents>,
        fleet: &Arc<Snapshot>,
        settings: &Arc<RouterSettings>,
        all: &Arc<[Arc<Shadow>]>,
        chosen: SmallVec<[u16; 4]>,
    ) -> Sample {
        contents.belong_to(fleet, settings, Some(all));
        contents.chosen = chosen;
        contents.generation = self.generation;
        Sample { contents: Some(contents) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(shelf: &mut Shelf) -> Sample {
        let contents = shelf.take();
        let (fleet, settings) = (Arc::default(), Arc::default());
        shelf.sample(contents, &fleet, &settings, &Arc::default(), SmallVec::new())
    }

    #[test]
    fn memory_is_used_again_by_those_who_have_it() {
        let mut shelf = Shelf::default();
        let at = |sample: &Sample| std::ptr::from_ref(&**sample);
        let first = at(&record(&mut shelf));
        let leave = |shelf: &mut Shelf| {
            let record = record(shelf);
            assert_eq!(at(&record), first, "what leaves is a copy");
            at(&record.for_another_thread().for_another_thread())
        };
        let abroad: Vec<_> = (0..GOING_AROUND).map(|_| leave(&mut shelf)).collect();
        assert!(!abroad.contains(&first));
        assert!((0..GOING_AROUND).all(|_| abroad.contains(&leave(&mut shelf))));
    }

    #[test]
    fn memory_of_a_burst_is_given_back() {
        let mut shelf = Shelf::default();
        let spare = |shelf: &Shelf| {
            let home = shelf.home.lock();
            let abroad = home.abroad.as_ref().expect("records leave from here");
            [home.spare.len(), abroad.spare.len() + abroad.back.lock().spare.len()]
        };
        let burst: Vec<_> = (0..10 * MOST_SPARE).map(|_| record(&mut shelf)).collect();
        drop(burst);
        assert_eq!(spare(&shelf), [MOST_SPARE, 0]);
        let burst = (0..10 * MOST_SPARE).map(|_| record(&mut shelf).for_another_thread());
        drop(burst.collect::<Vec<_>>());
        assert_eq!(spare(&shelf), [MOST_SPARE; 2]);
        drop(record(&mut shelf).for_another_thread());
        assert_eq!(spare(&shelf), [MOST_SPARE; 2]);
    }

    #[test]
    fn a_record_of_before_is_kept_by_nobody_nor_one_whose_partition_is_gone() {
        let mut shelf = Shelf::default();
        let before = [record(&mut shelf), record(&mut shelf).for_another_thread()];
        let fleets = before.each_ref().map(|record| Arc::downgrade(&record.fleet));
        shelf.clear();
        drop(before);
        assert!(fleets.iter().all(|fleet| fleet.upgrade().is_none()));
        let last = [record(&mut shelf), record(&mut shelf).for_another_thread()];
        let fleets = last.each_ref().map(|record| Arc::downgrade(&record.fleet));
        drop(shelf);
        drop(last.map(Sample::for_another_thread));
        assert!(fleets.iter().all(|fleet| fleet.upgrade().is_none()));
    }
}
