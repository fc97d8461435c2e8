//! A bounded table by text, which knows which entry was used longest ago: for policies that remember
//! sessions.
//!
//! Every operation takes a number of steps that grows with the table's logarithm, so that no decision over a
//! full table costs much more fuel than one over an empty one. Keys are found by their hash, since
//! sessions' ids often begin alike; of two keys with one hash the later one takes the place.

use std::collections::BTreeMap;

use crate::random::hash;
use crate::{Refusal, Result, Worker};

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
    seed: u64,
    /// By the keys' hashes.
    entries: BTreeMap<u64, Entry<V>>,
    /// The hashes, longest unused first.
    order: BTreeMap<u64, u64>,
    uses: u64,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    key: String,
    value: V,
    used_ms: u64,
    use_number: u64,
}

impl<V> Recent<V> {
    /// An empty table for at most so many entries.
    pub fn new(most: usize) -> Self {
        Self { most, seed: 0, entries: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// The same with hashes that nobody outside can foresee: give it the instance's seed.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
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
        let entry = self.entries.get(&hash(key, self.seed))?;
        (entry.key == key).then_some(&entry.value)
    }

    /// The value of a key, which is used now.
    pub fn touch(&mut self, key: &str, now_ms: u64) -> Option<&mut V> {
        let hash = hash(key, self.seed);
        let entry = self.entries.get_mut(&hash).filter(|entry| entry.key == key)?;
        self.order.remove(&entry.use_number);
        self.uses += 1;
        (entry.use_number, entry.used_ms) = (self.uses, now_ms);
        self.order.insert(self.uses, hash);
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
        let hash = hash(key, self.seed);
        self.uses += 1;
        let (key, use_number) = (key.to_owned(), self.uses);
        let entry = Entry { key, value, used_ms: now_ms, use_number };
        if let Some(other) = self.entries.insert(hash, entry) {
            self.order.remove(&other.use_number);
        }
        self.order.insert(use_number, hash);
        true
    }

    /// As [`Self::insert`]; where the table is full, the entry that was used longest ago gives way.
    pub fn insert_in_place_of_oldest(&mut self, key: &str, value: V, now_ms: u64) {
        if self.len() >= self.most && self.get(key).is_none() {
            self.forget_oldest();
        }
        self.insert(key, value, now_ms);
    }

    /// Forgets what wasn't used for longer than `idle_ms`, longest unused first, at most so many entries
    /// at a time. Returns how many.
    pub fn forget_idle(&mut self, now_ms: u64, idle_ms: u64, at_most: usize) -> usize {
        let mut forgotten = 0;
        while forgotten < at_most {
            let oldest = self.order.values().next().and_then(|hash| self.entries.get(hash));
            match oldest {
                Some(entry) if now_ms.saturating_sub(entry.used_ms) > idle_ms => {
                    self.forget_oldest();
                }
                _ => break,
            }
            forgotten += 1;
        }
        forgotten
    }

    fn forget_oldest(&mut self) {
        if let Some((_, hash)) = self.order.pop_first() {
            self.entries.remove(&hash);
        }
    }
}

/// What [`Recent::save`] begins with; another form would begin otherwise.
const FORM: u8 = 1;

impl Recent<Worker> {
    /// For a [`Handover`](crate::Handover): the entries that were used last, at most so many. A call has a
    /// limit of fuel, of which an entry takes about 1,500 units to be restored.
    pub fn save(&self, at_most: usize) -> Vec<u8> {
        let mut state = vec![FORM];
        let skipped = self.order.len().saturating_sub(at_most);
        for hash in self.order.values().skip(skipped) {
            let Some(Entry { key, value, used_ms, .. }) = self.entries.get(hash) else { continue };
            state.extend_from_slice(&(key.len() as u32).to_le_bytes());
            state.extend_from_slice(key.as_bytes());
            state.extend_from_slice(&value.id.to_le_bytes());
            state.extend_from_slice(&value.dp_rank.to_le_bytes());
            state.extend_from_slice(&used_ms.to_le_bytes());
        }
        state
    }

    /// Takes what [`Self::save`] gave, in place of all that is there.
    ///
    /// # Errors
    ///
    /// When the bytes aren't that.
    pub fn restore(&mut self, state: &[u8]) -> Result {
        let unreadable = || {
            Refusal::from(
                "the sessions of the version before can't be read; reload with \"state: discard\" to start anew",
            )
        };
        let mut left = state.strip_prefix(&[FORM]).ok_or_else(unreadable)?;
        let mut new = Self::new(self.most).seeded(self.seed);
        while !left.is_empty() {
            let (key, value, used_ms) = Self::read(&mut left).ok_or_else(unreadable)?;
            new.insert(key, value, used_ms);
        }
        *self = new;
        Ok(())
    }

    fn read<'a>(left: &mut &'a [u8]) -> Option<(&'a str, Worker, u64)> {
        fn take<'a, const N: usize>(left: &mut &'a [u8]) -> Option<&'a [u8; N]> {
            let (taken, rest) = left.split_first_chunk()?;
            *left = rest;
            Some(taken)
        }
        let length = u32::from_le_bytes(*take(left)?) as usize;
        let (key, rest) = left.split_at_checked(length)?;
        *left = rest;
        let id = u64::from_le_bytes(*take(left)?);
        let dp_rank = u32::from_le_bytes(*take(left)?);
        let used_ms = u64::from_le_bytes(*take(left)?);
        Some((std::str::from_utf8(key).ok()?, Worker { id, dp_rank }, used_ms))
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
    fn what_was_used_last_is_handed_over_in_its_order() {
        let at = |id| Worker { id, dp_rank: 7 };
        let mut old = Recent::new(3);
        for (id, key) in (0..).zip(["a", "b, which is longer than a word", "c"]) {
            old.insert(key, at(id), id);
        }
        old.touch("a", 9);
        let mut new = Recent::new(3).seeded(5);
        new.insert("x", at(7), 0);
        new.restore(&old.save(2)).expect("it is what was saved");
        assert_eq!((new.get("a"), new.get("c"), new.len()), (Some(&at(0)), Some(&at(2)), 2));
        new.insert_in_place_of_oldest("d", at(3), 10);
        new.insert_in_place_of_oldest("e", at(4), 10);
        assert_eq!((new.get("a"), new.get("c")), (Some(&at(0)), None), "the order is as it was");
        assert_eq!(new.forget_idle(20, 10, 9), 1, "and so are the times");

        let state = old.save(3);
        for end in [0, 1 + 4, state.len() - 1] {
            assert!(new.restore(&state[..end]).is_err(), "{end} bytes");
        }
        assert_eq!(new.len(), 2, "what can't be read changes nothing");
    }

    #[test]
    fn keys_are_told_apart_whatever_they_begin_and_end_with() {
        let mut table = Recent::new(5_000).seeded(3);
        let keys: Vec<String> = (0..4_000)
            .map(|n| match n % 3 {
                0 => format!("0f4c9a52-7d31-4f0e-9b1d-{n:012}"),
                1 => format!("{n}-session"),
                _ => "x".repeat(n),
            })
            .collect();
        for (n, key) in keys.iter().enumerate() {
            assert!(table.insert(key, n, 0));
        }
        assert_eq!(table.len(), 4_000);
        assert!(keys.iter().enumerate().all(|(n, key)| table.get(key) == Some(&n)));
    }
}
