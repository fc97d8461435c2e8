//! A map that grows by a part at a time.
//!
//! Owns entries by key, in parts of some dozens or hundreds, so that neither one that comes nor a look
//! at what is in it keeps anybody for long: a map in one piece moves millions of entries when it
//! grows. It doesn't know what it maps.

use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Bits of a hash that don't choose the part: those that choose the place in it.
const PLACE_BITS: u32 = 24;

/// Entries by key, about `PART` in each part: from that to twice as many.
#[derive(Clone, Debug)]
pub(super) struct Table<K, V, const PART: usize> {
    hasher: DefaultHashBuilder,
    parts: Vec<HashTable<(K, V)>>,
    len: usize,
}

impl<K, V, const PART: usize> Default for Table<K, V, PART> {
    fn default() -> Self {
        Self { hasher: DefaultHashBuilder::default(), parts: Vec::new(), len: 0 }
    }
}

impl<K: Copy + Eq + Hash, V, const PART: usize> Table<K, V, PART> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let hash = self.hasher.hash_one(key);
        let part = self.parts.get(at(self.parts.len(), hash))?;
        part.find(hash, |(other, _)| other == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let count = self.parts.len();
        let part = self.parts.get_mut(at(count, hash))?;
        part.find_mut(hash, |(other, _)| other == key).map(|(_, value)| value)
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key: `value` if there was none.
    pub(super) fn entry(&mut self, key: K, value: V) -> &mut V {
        if self.len >= self.parts.len() * PART {
            self.grow();
        }
        let Self { hasher, parts, len } = self;
        let hash = hasher.hash_one(key);
        let part = at(parts.len(), hash);
        // There is one since it has grown.
        let part = &mut parts[part];
        match part.entry(hash, |(other, _)| *other == key, |(other, _)| hasher.hash_one(other)) {
            Entry::Occupied(known) => &mut known.into_mut().1,
            Entry::Vacant(place) => {
                *len += 1;
                &mut place.insert((key, value)).into_mut().1
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let count = self.parts.len();
        let part = self.parts.get_mut(at(count, hash))?;
        let found = part.find_entry(hash, |(other, _)| other == key).ok()?;
        let ((_, value), _) = found.remove();
        self.len -= 1;
        Some(value)
    }

    /// How many parts there are. What is moved when it grows goes to the end.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Keeps what is wanted of a part. Returns how many entries it had.
    pub(super) fn retain(
        &mut self,
        part: usize,
        mut keep: impl FnMut(&K, &mut V) -> bool,
    ) -> usize {
        let Some(part) = self.parts.get_mut(part) else { return 0 };
        let before = part.len();
        part.retain(|(key, value)| keep(key, value));
        self.len -= before - part.len();
        before
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(HashTable::allocation_size).sum();
        parts + self.parts.capacity() * size_of::<HashTable<(K, V)>>()
    }

    /// Adds a part, and moves to it what belongs there: all of that is in one part.
    #[inline(never)]
    fn grow(&mut self) {
        let Self { hasher, parts, .. } = self;
        let count = parts.len();
        let mut added = HashTable::new();
        // The part that the new one is called like, but for the first bit.
        if let Some(split) = count.checked_ilog2().and_then(|bit| parts.get_mut(count ^ (1 << bit)))
        {
            let moves = |entry: &mut (K, V)| at(count + 1, hasher.hash_one(entry.0)) == count;
            for entry in split.extract_if(moves) {
                let hash = hasher.hash_one(entry.0);
                added.insert_unique(hash, entry, |(key, _)| hasher.hash_one(key));
            }
            split.shrink_to_fit(|(key, _)| hasher.hash_one(key));
        }
        parts.push(added);
    }
}

/// Which of so many parts a hash belongs to.
fn at(count: usize, hash: u64) -> usize {
    let spread = (hash >> PLACE_BITS) as usize;
    let mask = count.next_power_of_two().wrapping_sub(1);
    let at = spread & mask;
    if at < count { at } else { at & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_table_is_what_a_map_is(
            steps in prop::collection::vec((0..4_u8, 0..300_u64, any::<u32>()), 1..2_000),
        ) {
            let mut table = Table::<u64, u32, 4>::default();
            let mut map = std::collections::BTreeMap::<u64, u32>::new();
            for (what, key, value) in steps {
                match what {
                    0 => prop_assert_eq!(table.remove(&key), map.remove(&key)),
                    1 if value % 16 == 0 => {
                        let parts = 0..table.parts();
                        let looked: usize =
                            parts.map(|part| table.retain(part, |key, _| key % 3 != 0)).sum();
                        prop_assert_eq!(looked, map.len());
                        map.retain(|key, _| key % 3 != 0);
                    }
                    1 => {
                        if let Some(known) = table.get_mut(&key) {
                            *known = value;
                        }
                        map.entry(key).and_modify(|known| *known = value);
                    }
                    _ => {
                        let entered = *table.entry(key, value);
                        prop_assert_eq!(entered, *map.entry(key).or_insert(value));
                    }
                }
                prop_assert_eq!(table.get(&key), map.get(&key));
                prop_assert_eq!(table.contains_key(&key), map.contains_key(&key));
                prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
            }
            let mut all: Vec<(u64, u32)> = table.iter().map(|(&key, &value)| (key, value)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_part_is_ever_large_and_no_entry_costs_much() {
        // Of several tables, since how many parts have just grown is chance.
        let tables: [Table<u64, [u32; 4], 44>; 8] = std::array::from_fn(|_| {
            let mut table = Table::default();
            for key in 0..300_000 {
                table.entry(key, [0; 4]);
            }
            table
        });
        for table in &tables {
            let most = table.parts.iter().map(HashTable::len).max();
            assert!(most.is_some_and(|most| most < 4 * 44), "{most:?}");
        }
        let bytes: usize = tables.iter().map(Table::bytes).sum();
        let each = bytes / tables.iter().map(Table::len).sum::<usize>();
        assert!(each < 48, "{each} bytes for 24");
    }
}
