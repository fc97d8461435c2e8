//! Hashes of blocks and of prefixes: what a prompt is known by in the cache index.
//!
//! Owns the one way in which tokens become numbers. A *block hash* names the tokens of one block; a
//! *sequence hash* names a block and all before it, so that equal sequence hashes mean equal
//! prefixes. Both are XXH3-64 with a fixed seed, as users of the linked router have them: what that
//! computes for a prompt, this computes too. A prompt's [`Scope`] (adapter, cache namespace) goes
//! into every block's seed, so that prompts of two scopes share nothing.
//!
//! It doesn't know engines' own hashes, which differ from ours and are opaque everywhere, or who
//! asks.

use std::borrow::Cow;

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// The seed of block hashes without a scope, and of every link of the chain.
const SEED: u64 = 1337;

/// What a prompt's blocks are cached under, besides their tokens. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope(u64);

impl Scope {
    /// The scope of an adapter's name and a cache namespace (a tenant, a cache salt). An empty
    /// string counts as absent.
    #[must_use]
    pub fn new(adapter: Option<&str>, namespace: Option<&str>) -> Self {
        let part = |text: Option<&str>, seed| {
            text.filter(|text| !text.is_empty())
                .map_or(0, |text| xxh3_64_with_seed(text.as_bytes(), seed))
        };
        Self(part(adapter, 0).wrapping_add(part(namespace, 1)))
    }

    fn seed(self) -> u64 {
        SEED.wrapping_add(self.0)
    }
}

/// The hash of a picture, a sound or whatever else takes the place of tokens in a prompt.
///
/// An identifier of 64 hexadecimal digits stands for itself by its first 16; any other text by its
/// XXH3.
#[must_use]
pub fn media_hash(identifier: &str) -> u64 {
    let digits = identifier.as_bytes();
    let is_digest = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    let first = identifier.get(..16).filter(|_| is_digest);
    if let Some(hash) = first.and_then(|first| u64::from_str_radix(first, 16).ok()) {
        return hash;
    }
    xxh3_64(digits)
}

/// The hash of one block of tokens, with the media that begin or go on in it.
#[must_use]
pub fn block_hash(tokens: &[u32], media: &[u64], scope: Scope) -> u64 {
    if media.is_empty() {
        return xxh3_64_with_seed(&bytes(tokens), scope.seed());
    }
    let mut media = media.to_vec();
    media.sort_unstable();
    let mut hasher = Xxh3::with_seed(scope.seed());
    hasher.update(&bytes(tokens));
    for hash in media {
        hasher.update(&hash.to_le_bytes());
    }
    hasher.digest()
}

/// The hash of the prefix that ends with `block`, after the prefix `parent`; without a parent, a
/// prompt's first block.
#[must_use]
pub fn sequence_hash(parent: Option<u64>, block: u64) -> u64 {
    let Some(parent) = parent else { return block };
    let mut bytes = [0; 16];
    let (first, second) = bytes.split_at_mut(8);
    first.copy_from_slice(&parent.to_le_bytes());
    second.copy_from_slice(&block.to_le_bytes());
    xxh3_64_with_seed(&bytes, SEED)
}

/// Fills `chain` with the sequence hashes of a prompt's whole blocks; what is left at the end has
/// none. A block size of 0 gives none.
pub fn sequence_hashes(tokens: &[u32], block_size: u32, scope: Scope, chain: &mut Vec<u64>) {
    chain.clear();
    let Ok(block_size @ 1..) = usize::try_from(block_size) else { return };
    chain.reserve(tokens.len() / block_size);
    let mut parent = None;
    for block in tokens.chunks_exact(block_size) {
        let hash = sequence_hash(parent, xxh3_64_with_seed(&bytes(block), scope.seed()));
        parent = Some(hash);
        chain.push(hash);
    }
}

/// Tokens as little-endian bytes.
fn bytes(tokens: &[u32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(tokens))
    } else {
        tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(scope: Scope) -> Vec<u64> {
        let tokens: Vec<u32> = (0..40).map(|at| at * 7 + 1).collect();
        let mut chain = vec![1, 2, 3];
        sequence_hashes(&tokens, 16, scope, &mut chain);
        chain
    }

    /// The numbers are what the linked router, version 1.6.1, computes for these tokens.
    #[test]
    fn hashes_are_those_of_the_linked_router() {
        let scopes = [
            (None, None, [3150965599177865312, 17177624231074524414]),
            (Some(""), Some(""), [3150965599177865312, 17177624231074524414]),
            (Some("adapter"), None, [7695474438526039744, 2588615669833303419]),
            (None, Some("tenant-a"), [975814565461847944, 7619844537532714378]),
            (Some("adapter"), Some("tenant-a"), [8734276948705295597, 14697537577556879148]),
        ];
        for (adapter, namespace, expected) in scopes {
            assert_eq!(
                chain(Scope::new(adapter, namespace)),
                expected,
                "{adapter:?} {namespace:?}"
            );
        }
        let tokens: Vec<u32> = (0..16).map(|at| at * 7 + 1).collect();
        for media in [[9, 3], [3, 9]] {
            assert_eq!(block_hash(&tokens, &media, Scope::default()), 9895065973844796384);
        }
    }

    #[test]
    fn hashes_one_by_one_are_those_of_the_whole() {
        let tokens: Vec<u32> = (0..40).map(|at| at * 7 + 1).collect();
        let scope = Scope::new(Some("adapter"), None);
        let mut parent = None;
        for (block, &expected) in tokens.chunks_exact(16).zip(&chain(scope)) {
            let hash = sequence_hash(parent, block_hash(block, &[], scope));
            assert_eq!(hash, expected);
            parent = Some(hash);
        }
    }

    #[test]
    fn what_fills_no_block_has_no_hash() {
        let mut chain = Vec::new();
        sequence_hashes(&[1; 15], 16, Scope::default(), &mut chain);
        assert!(chain.is_empty());
        sequence_hashes(&[1; 15], 0, Scope::default(), &mut chain);
        assert!(chain.is_empty());
        sequence_hashes(&[1; 3], 1, Scope::default(), &mut chain);
        assert_eq!(chain.len(), 3);
    }

    #[test]
    fn a_medium_is_known_by_its_digits_or_by_its_text() {
        let digits = "00000000000000ff".to_owned() + &"0".repeat(48);
        assert_eq!(media_hash(&digits), 0xff);
        assert_eq!(media_hash("cat.png"), xxh3_64(b"cat.png"));
        assert_ne!(media_hash(&"é".repeat(32)), 0);
    }
}
