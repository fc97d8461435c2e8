//! Bookings in the order in which they may be over.
//!
//! Owns that whoever looks for those that are over sees no other: one that is spoken of stays where it is
//! in line, and goes to its new place when its turn has come. It knows of no lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::Reservation;

/// When a booking is to be looked at, and a number that no other has.
pub(super) type Filed = (u64, u64);

/// All bookings, and the line of their ends.
#[derive(Debug)]
pub(super) struct State<A> {
    pub(super) all: HashMap<Arc<str>, Reservation<A>>,
    pub(super) looked_ms: u64,
    /// All, by when they are to be looked at. A word about one leaves it where it is: it is put where it
    /// belongs when its turn has come.
    pub(super) line: BTreeMap<Filed, Arc<str>>,
    /// The next booking's number.
    next: u64,
}

impl<A> State<A> {
    /// Puts one in line, to be looked at then.
    pub(super) fn file(&mut self, id: Arc<str>, at_ms: u64) -> Filed {
        let filed = (at_ms, self.next);
        self.next = self.next.wrapping_add(1);
        self.line.insert(filed, id);
        filed
    }

    /// Looks at the next whose turn has come, and takes it out if it is over. None if there is none.
    pub(super) fn look_at_one(&mut self, now_ms: u64) -> Option<Option<Reservation<A>>> {
        let first = self.line.first_entry().filter(|first| first.key().0 <= now_ms)?;
        let id = first.remove();
        let Some(there) = self.all.get(&id) else { return Some(None) };
        let ends_ms = there.ends_ms();
        if ends_ms <= now_ms {
            return Some(self.all.remove(&id));
        }
        let filed = self.file(id.clone(), ends_ms);
        if let Some(there) = self.all.get_mut(&id) {
            there.filed = filed;
        }
        Some(None)
    }

    /// Takes one out, if it is the one that is meant.
    pub(super) fn take(
        &mut self,
        id: &str,
        is: impl FnOnce(&Reservation<A>) -> bool,
    ) -> Option<Reservation<A>> {
        let EntryRef::Occupied(there) = self.all.entry_ref(id) else { return None };
        if !is(there.get()) {
            return None;
        }
        let taken = there.remove();
        self.line.remove(&taken.filed);
        Some(taken)
    }
}

impl<A> Default for State<A> {
    fn default() -> Self {
        Self { all: HashMap::new(), looked_ms: 0, line: BTreeMap::new(), next: 0 }
    }
}
