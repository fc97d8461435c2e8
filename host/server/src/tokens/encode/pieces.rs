//! Tokens of pieces of text that were seen before, bounded in bytes.
//!
//! Owns what is kept and what is given up: the piece that was asked for the longest time ago goes
//! first. A piece is known by all its bytes, so that a hit is exact. One cache serves one
//! tokenizer, from any thread; its lock is held while pieces are looked up or put in, not while
//! they are tokenised.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

/// What an entry takes besides its text and tokens: its place, its links, its share of the table,
/// and two allocations' heads.
const ENTRY_BYTES: usize = 128;

/// No entry.
const NONE: usize = usize::MAX;

/// The cache.
#[derive(Debug)]
pub(crate) struct Pieces {
    most_bytes: usize,
    kept: Mutex<Kept>,
    hit_bytes: AtomicU64,
    missed_bytes: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What it has done, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceStats {
    /// Pieces that were there.
    pub hits: u64,
    /// Pieces that weren't.
    pub misses: u64,
    /// Bytes of text that needn't be tokenised.
    pub hit_bytes: u64,
    /// Bytes of text that had to be.
    pub missed_bytes: u64,
    /// Pieces kept.
    pub entries: usize,
    /// Bytes taken.
    pub bytes: usize,
}

#[derive(Debug)]
struct Kept {
    places: HashMap<Arc<str>, usize>,
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// The entry that was asked for last, and the one that waits the longest.
    newest: usize,
    oldest: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    tokens: Arc<[u32]>,
    newer: usize,
    older: usize,
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.text.len() + size_of_val(&*self.tokens)
    }
}

impl Pieces {
    /// A cache of so many bytes; of none, one that keeps nothing.
    #[must_use]
    pub(crate) fn new(most_bytes: usize) -> Self {
        let kept = Kept {
            places: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
        };
        Self {
            most_bytes,
            kept: Mutex::new(kept),
            hit_bytes: AtomicU64::new(0),
            missed_bytes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// What it has done.
    #[must_use]
    pub(crate) fn stats(&self) -> PieceStats {
        let (entries, bytes) = {
            let kept = self.kept.lock();
            (kept.places.len(), kept.bytes)
        };
        PieceStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            hit_bytes: self.hit_bytes.load(Ordering::Relaxed),
            missed_bytes: self.missed_bytes.load(Ordering::Relaxed),
            entries,
            bytes,
        }
    }

    /// The tokens of pieces, where they are known.
    pub(super) fn look_up<'t>(
        &self,
        pieces: impl Iterator<Item = &'t str>,
    ) -> Vec<Option<Arc<[u32]>>> {
        let (mut hits, mut hit_bytes, mut misses, mut missed_bytes) = (0, 0, 0, 0);
        let mut kept = self.kept.lock();
        let known = pieces
            .map(|piece| {
                let place = kept.places.get(piece).copied();
                let bytes = piece.len() as u64;
                if let Some(place) = place {
                    (hits, hit_bytes) = (hits + 1, hit_bytes + bytes);
                    kept.renew(place);
                } else {
                    (misses, missed_bytes) = (misses + 1, missed_bytes + bytes);
                }
                place.and_then(|place| kept.entries.get(place)).map(|e| Arc::clone(&e.tokens))
            })
            .collect();
        drop(kept);
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.hit_bytes.fetch_add(hit_bytes, Ordering::Relaxed);
        self.misses.fetch_add(misses, Ordering::Relaxed);
        self.missed_bytes.fetch_add(missed_bytes, Ordering::Relaxed);
        known
    }

    /// Keeps pieces. One that takes more than a quarter of the cache isn't kept: it would drive
    /// out too many others.
    pub(super) fn keep(&self, pieces: Vec<(&str, Arc<[u32]>)>) {
        let bytes = |text: &str, tokens: &[u32]| ENTRY_BYTES + text.len() + size_of_val(tokens);
        let small =
            |(text, tokens): &(&str, Arc<[u32]>)| bytes(text, tokens) <= self.most_bytes / 4;
        // Copies are made before the lock is taken.
        let pieces: Vec<(Arc<str>, Arc<[u32]>)> = pieces
            .into_iter()
            .filter(small)
            .map(|(text, tokens)| (Arc::from(text), tokens))
            .collect();
        if pieces.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        for (text, tokens) in pieces {
            kept.insert(text, tokens);
            while kept.bytes > self.most_bytes {
                kept.remove_oldest();
            }
        }
    }
}

impl Kept {
    fn insert(&mut self, text: Arc<str>, tokens: Arc<[u32]>) {
        if let Some(&place) = self.places.get(&text) {
            self.renew(place);
            return;
        }
        let entry = Entry { text: Arc::clone(&text), tokens, newer: NONE, older: NONE };
        self.bytes += entry.bytes();
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.places.insert(text, place);
        self.link(place);
    }

    fn renew(&mut self, place: usize) {
        if self.newest != place {
            self.unlink(place);
            self.link(place);
        }
    }

    /// Makes an entry the newest.
    fn link(&mut self, place: usize) {
        self.entries[place].newer = NONE;
        self.entries[place].older = self.newest;
        match self.entries.get_mut(self.newest) {
            Some(second) => second.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: usize) {
        let Entry { newer, older, .. } = self.entries[place];
        match self.entries.get_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn remove_oldest(&mut self) {
        let place = self.oldest;
        let Some(entry) = self.entries.get(place) else { return };
        self.bytes -= entry.bytes();
        self.places.remove(&entry.text);
        self.unlink(place);
        let entry = &mut self.entries[place];
        (entry.text, entry.tokens) = (Arc::from(""), Arc::from([]));
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(cache: &Pieces, text: &str) {
        cache.keep(vec![(text, Arc::from([text.len() as u32]))]);
    }

    fn has(cache: &Pieces, text: &str) -> bool {
        cache.look_up([text].into_iter()).remove(0).is_some()
    }

    #[test]
    fn the_piece_that_waits_the_longest_goes_first_and_the_bound_holds() {
        let one = ENTRY_BYTES + 4 + 1;
        let cache = Pieces::new(one * 5);
        for text in ["a", "b", "c", "d", "e"] {
            keep(&cache, text);
        }
        assert!(has(&cache, "a"));
        keep(&cache, "f");
        assert_eq!(cache.stats().bytes, one * 5);
        assert!(!has(&cache, "b"), "it waited the longest");
        for text in ["c", "d", "e", "a", "f"] {
            assert!(has(&cache, text), "{text}");
        }
        keep(&cache, "g");
        assert!(!has(&cache, "c"));
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.entries), (6, 2, 5));
    }

    #[test]
    fn what_is_too_large_is_not_kept_and_a_cache_of_nothing_keeps_nothing() {
        let cache = Pieces::new(1000);
        keep(&cache, &"x".repeat(200));
        assert!(!has(&cache, &"x".repeat(200)));
        keep(&cache, "x");
        keep(&cache, "x");
        assert_eq!(cache.stats().entries, 1);
        let none = Pieces::new(0);
        keep(&none, "");
        assert_eq!(none.stats().entries, 0);
    }
}
