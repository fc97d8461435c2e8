//! How far into a prompt its key reaches: twice as far for each level at which it shares its beginning with too
//! many others.

use std::collections::{BTreeMap, VecDeque};

/// Levels, each twice as deep as the one before.
pub(crate) const LEVELS: u32 = 8;

/// Counts of keys over a window of requests.
pub(crate) struct Levels {
    blocks: usize,
    window: usize,
    /// How many keys each request has, and the keys.
    lengths: VecDeque<usize>,
    keys: VecDeque<u64>,
    counts: BTreeMap<u64, usize>,
}

impl Levels {
    pub(crate) fn new(blocks: u32, window: u32) -> Self {
        let (lengths, keys, counts) = Default::default();
        Self { blocks: blocks as usize, window: window as usize, lengths, keys, counts }
    }

    /// The key of a request that comes; none where nothing of it is hashed. A beginning is hot when more
    /// than 2 of the window's requests by the number of candidates have it.
    pub(crate) fn key(&mut self, hashes: &[u64], candidates: usize) -> Option<u64> {
        self.count(hashes);
        let mut chosen = None;
        for key in keys(self.blocks, hashes) {
            chosen = Some(key);
            let share = self.counts.get(&key).copied().unwrap_or(0);
            if share * candidates <= 2 * self.window {
                break;
            }
        }
        chosen
    }

    fn count(&mut self, hashes: &[u64]) {
        let before = self.keys.len();
        self.keys.extend(keys(self.blocks, hashes));
        for key in self.keys.range(before..) {
            *self.counts.entry(*key).or_default() += 1;
        }
        self.lengths.push_back(self.keys.len() - before);
        if self.lengths.len() <= self.window {
            return;
        }
        let gone = self.lengths.pop_front().unwrap_or(0);
        for key in self.keys.drain(..gone) {
            if let Some(count) = self.counts.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&key);
                }
            }
        }
    }
}

/// The keys of a prompt, one a level; the last one covers all of it that is hashed.
fn keys(blocks: usize, hashes: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let depths = (0..LEVELS).map(move |level| blocks << level);
    let reached = depths.scan(false, |is_over, depth| {
        let is_last = depth >= hashes.len();
        (!std::mem::replace(is_over, is_last)).then_some(depth.min(hashes.len()))
    });
    reached.filter_map(|depth| hashes.get(depth.checked_sub(1)?).copied())
}
