//! A bounded table by text, which knows which entry was used longest ago: for policies that remember
//! sessions.
//!
//! Every operation takes a number of steps that grows with the table's logarithm, so that no decision over a
//! full table costs much more fuel than one over an empty one.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Result, handover};

/// Values by text, in the order of their last use. Time never runs backwards in it.
///
/// ```
/// use pointsman_sdk::recent::Recent;
///
/// let mut seen = Recent::new(2);
/// assert!(seen.insert("a", 1, 0) && seen.insert("b", 2, 10));
/// assert!(!seen.insert("c", 3, 20), "it is full");
/// assert_eq!(seen.touch("a", 30), Some(&mut 1));
/// assert_eq!(seen.forget_idle(100, 75, 10), 1); // "b" was last used 90 ms ago
/// assert_eq!((seen.get("a"), seen.get("b")), (Some(&1), None));
/// ```
#[derive(Debug, Clone)]
pub struct Recent<V> {
    most: usize,
    entries: BTreeMap<String, Entry<V>>,
    /// The keys, longest unused first.
    order: BTreeMap<u64, String>,
    uses: u64,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    value: V,
    used_ms: u64,
    use_number: u64,
}

/// An entry as it is handed over.
#[derive(Debug, Serialize, Deserialize)]
struct Saved<V>(String, u64, V);

impl<V> Recent<V> {
    /// An empty table for at most so many entries.
    pub fn new(most: usize) -> Self {
        Self { most, entries: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key. Doesn't count as a use.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The value of a key, which is used now.
    pub fn touch(&mut self, key: &str, now_ms: u64) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.order.remove(&entry.use_number) {
            self.uses += 1;
            (entry.use_number, entry.used_ms) = (self.uses, now_ms);
            self.order.insert(self.uses, key);
        }
        Some(&mut entry.value)
    }

    /// Sets the value of a key, which is used now. False, and nothing is set, where the key is new and
    /// the table full.
    pub fn insert(&mut self, key: &str, value: V, now_ms: u64) -> bool {
        if let Some(old) = self.touch(key, now_ms) {
            *old = value;
            return true;
        }
        if self.len() >= self.most {
            return false;
        }
        self.uses += 1;
        self.order.insert(self.uses, key.to_owned());
        self.entries
            .insert(key.to_owned(), Entry { value, used_ms: now_ms, use_number: self.uses });
        true
    }

    /// As [`Self::insert`]; where the table is full, the entry that was used longest ago gives way.
    pub fn insert_in_place_of_oldest(&mut self, key: &str, value: V, now_ms: u64) {
        if self.len() >= self.most && !self.entries.contains_key(key) {
            self.forget_oldest();
        }
        self.insert(key, value, now_ms);
    }

    /// Forgets what wasn't used for longer than `idle_ms`, longest unused first, at most so many entries
    /// at a time. Returns how many.
    pub fn forget_idle(&mut self, now_ms: u64, idle_ms: u64, at_most: usize) -> usize {
        let mut forgotten = 0;
        while forgotten < at_most {
            let oldest = self.order.values().next().and_then(|key| self.entries.get(key));
            match oldest {
                Some(entry) if now_ms.saturating_sub(entry.used_ms) > idle_ms => {
                    self.forget_oldest()
                }
                _ => break,
            }
            forgotten += 1;
        }
        forgotten
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }
}

impl<V: Serialize + DeserializeOwned + Clone> Recent<V> {
    /// For a [`Handover`](crate::Handover): the entries that were used last, at most so many. A call has a
    /// limit of fuel, of which an entry takes about 3,000 units to be saved and restored.
    ///
    /// # Errors
    ///
    /// When a value has no JSON form.
    pub fn save(&self, at_most: usize) -> Result<Vec<u8>> {
        let last = self.order.values().rev().take(at_most).rev();
        let entries = last.filter_map(|key| {
            let entry = self.entries.get(key)?;
            Some(Saved(key.clone(), entry.used_ms, entry.value.clone()))
        });
        handover::encode(&entries.collect::<Vec<_>>())
    }

    /// Takes what [`Self::save`] gave, in place of all that is there.
    ///
    /// # Errors
    ///
    /// When the bytes aren't that.
    pub fn restore(&mut self, state: &[u8]) -> Result {
        let saved: Vec<Saved<V>> = handover::decode(state)?;
        *self = Self::new(self.most);
        for Saved(key, used_ms, value) in saved {
            self.insert(&key, value, used_ms);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_used_longest_ago_gives_way() {
        let mut table = Recent::new(2);
        table.insert("a", 1, 0);
        table.insert("b", 2, 1);
        table.touch("a", 2);
        table.insert_in_place_of_oldest("c", 3, 3);
        assert_eq!((table.get("a"), table.get("b"), table.get("c")), (Some(&1), None, Some(&3)));
        table.insert_in_place_of_oldest("a", 4, 4);
        assert_eq!((table.get("a"), table.len()), (Some(&4), 2), "what is there makes no room");
    }

    #[test]
    fn idle_entries_are_forgotten_a_few_at_a_time_and_others_never() {
        let mut table = Recent::new(10);
        for (at, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
            table.insert(key, at, at as u64);
        }
        table.touch("a", 100);
        assert_eq!(table.forget_idle(150, 100, 2), 2, "b and c, of the three that are idle");
        assert_eq!((table.get("a"), table.get("d")), (Some(&0), Some(&3)));
        assert_eq!(table.forget_idle(150, 100, 2), 1);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn idleness_is_counted_from_the_last_use_and_its_end_is_included() {
        let mut table = Recent::new(10);
        table.insert("a", 0, 0);
        table.insert("b", 0, 50);
        assert_eq!(table.forget_idle(100, 100, 9), 0);
        assert_eq!(table.forget_idle(101, 100, 9), 1);
        assert_eq!((table.get("a"), table.get("b")), (None, Some(&0)));
        assert_eq!(table.forget_idle(0, 1, 9), 0, "a clock that is behind forgets nobody");
    }

    #[test]
    fn what_was_used_last_is_handed_over_in_its_order() -> Result {
        let mut old = Recent::new(3);
        for (at, key) in ["a", "b", "c"].into_iter().enumerate() {
            old.insert(key, at, at as u64);
        }
        old.touch("a", 9);
        let mut new = Recent::new(3);
        new.insert("x", 7, 0);
        new.restore(&old.save(2)?)?;
        assert_eq!(
            (new.get("a"), new.get("b"), new.get("c"), new.get("x")),
            (Some(&0), None, Some(&2), None)
        );
        new.insert_in_place_of_oldest("d", 3, 10);
        new.insert_in_place_of_oldest("e", 4, 10);
        assert_eq!((new.get("a"), new.get("c")), (Some(&0), None), "the order is as it was");
        Ok(())
    }
}
