//! The prefix cache: which blocks of earlier prompts would still be there.
//!
//! As a vLLM's it knows whole blocks by all that comes before them, keeps apart what has different
//! salts, computes a prompt's last token always, and forgets the longest unused block first, the end
//! of a prompt before its beginning. It saves no time: what it finds is only reported, as
//! `cached_tokens`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;

/// When a block was used last, and how near to its prompt's beginning it stands: what is smallest
/// goes first.
type Worth = (u64, usize);

#[derive(Debug, Default)]
struct Blocks {
    worth: HashMap<u64, Worth>,
    by_worth: BTreeMap<Worth, u64>,
    uses: u64,
}

/// The cache of one engine.
#[derive(Debug)]
pub(super) struct PrefixCache {
    block_size: usize,
    capacity: usize,
    blocks: Mutex<Blocks>,
}

impl PrefixCache {
    pub(super) fn new(block_size: u32, capacity: u32) -> Self {
        let block_size = (block_size as usize).max(1);
        Self { block_size, capacity: capacity as usize, blocks: Mutex::default() }
    }

    /// A prompt is computed. Returns how many of its tokens needn't be.
    pub(super) fn compute(&self, salt: Option<&str>, tokens: &[u32]) -> u64 {
        let names = self.names(salt, tokens);
        let mut blocks = self.blocks.lock();
        let held = names.iter().take_while(|name| blocks.worth.contains_key(name)).count();
        blocks.uses += 1;
        let uses = blocks.uses;
        for (depth, name) in names.into_iter().enumerate() {
            blocks.put(name, (uses, usize::MAX - depth));
        }
        while blocks.worth.len() > self.capacity {
            blocks.drop_least();
        }
        let usable = tokens.len().saturating_sub(1) / self.block_size;
        (held.min(usable) * self.block_size) as u64
    }

    /// A name for each whole block, made of its tokens and those before it.
    fn names(&self, salt: Option<&str>, tokens: &[u32]) -> Vec<u64> {
        let mut so_far = DefaultHasher::new();
        salt.hash(&mut so_far);
        let blocks = tokens.chunks_exact(self.block_size);
        let name = |block: &[u32]| {
            block.hash(&mut so_far);
            so_far.finish()
        };
        blocks.map(name).collect()
    }
}

impl Blocks {
    fn put(&mut self, name: u64, worth: Worth) {
        if let Some(before) = self.worth.insert(name, worth) {
            self.by_worth.remove(&before);
        }
        self.by_worth.insert(worth, name);
    }

    fn drop_least(&mut self) {
        if let Some((_, name)) = self.by_worth.pop_first() {
            self.worth.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(first: u32, count: u32) -> Vec<u32> {
        (first..first + count).collect()
    }

    #[test]
    fn whole_blocks_are_found_again_but_never_the_last_token() {
        let cache = PrefixCache::new(16, 100);
        assert_eq!(cache.compute(None, &tokens(0, 50)), 0);
        for (prompt, cached) in [(50, 48), (49, 48), (48, 32), (33, 32), (32, 16), (16, 0), (0, 0)]
        {
            assert_eq!(cache.compute(None, &tokens(0, prompt)), cached, "{prompt}");
        }
        let other_end = [tokens(0, 20), tokens(500, 30)].concat();
        assert_eq!(cache.compute(None, &other_end), 16);
        assert_eq!(cache.compute(Some("a"), &tokens(0, 50)), 0);
        assert_eq!(cache.compute(Some("a"), &tokens(0, 50)), 48);
    }

    #[test]
    fn the_longest_unused_goes_first_and_of_a_prompt_its_end() {
        let cache = PrefixCache::new(16, 5);
        cache.compute(None, &tokens(0, 64));
        cache.compute(None, &tokens(1_000, 32));
        assert_eq!(cache.compute(None, &tokens(1_000, 33)), 32);
        // Its last block made room.
        assert_eq!(cache.compute(None, &tokens(0, 65)), 48);
    }
}
