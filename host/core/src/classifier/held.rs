//! The requests that are held: in the order in which they came, and by when each is due.

use std::collections::BTreeSet;

/// A held request's place: its number in the order of arrival, then its lifecycle.
pub(super) type Place = (u64, u64);

/// The requests that are held.
#[derive(Debug, Default)]
pub(super) struct Held {
    places: BTreeSet<Place>,
    due: BTreeSet<(u64, Place)>,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn insert(&mut self, place: Place, due_at_ms: Option<u64>) {
        self.places.insert(place);
        self.due.extend(due_at_ms.map(|due| (due, place)));
    }

    /// Takes one out. False if it isn't held.
    pub(super) fn remove(&mut self, place: Place, due_at_ms: Option<u64>) -> bool {
        if let Some(due) = due_at_ms {
            self.due.remove(&(due, place));
        }
        self.places.remove(&place)
    }

    /// All lifecycles, in the order in which they came.
    pub(super) fn in_order(&self) -> Vec<u64> {
        self.places.iter().map(|(_, generation)| *generation).collect()
    }

    /// One that is due.
    pub(super) fn next_due(&self, now_ms: u64) -> Option<u64> {
        let (due, (_, generation)) = self.due.first()?;
        (*due <= now_ms).then_some(*generation)
    }

    /// When the next one is due.
    pub(super) fn due_at_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }
}
