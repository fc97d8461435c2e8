//! What an engine tells of its cache, in the index's terms.
//!
//! Owns the shape of a change: blocks stored, removed, or all cleared. Engines' hashes are opaque
//! numbers here; a feed makes them from whatever is on the wire. What a stored block contains comes
//! either as tokens or already hashed.

use super::tier::Tier;
use crate::hashing::{self, Scope};

/// A change of what one rank holds.
#[derive(Clone, Copy, Debug)]
pub enum CacheEvent<'a> {
    /// Blocks are held from now on.
    Stored(Stored<'a>),
    /// Blocks are no longer held: all that are named, known or not.
    Removed {
        /// What the engine calls them.
        engines: &'a [u64],
        /// Where they were.
        tier: Tier,
    },
    /// Nothing is held, in no tier.
    Cleared,
}

impl CacheEvent<'_> {
    /// How many blocks it names.
    #[must_use]
    pub fn blocks(&self) -> usize {
        match self {
            Self::Stored(stored) => stored.engines.len(),
            Self::Removed { engines, .. } => engines.len(),
            Self::Cleared => 0,
        }
    }
}

/// Blocks that are held from now on, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// What the engine calls the block before the first; none at the beginning of a prompt.
    pub parent: Option<u64>,
    /// What it calls the blocks.
    pub engines: &'a [u64],
    /// What is in them.
    pub content: Content<'a>,
    /// Where they are.
    pub tier: Tier,
}

impl Stored<'_> {
    /// The first `count` blocks, and those that follow them; the content must be of as many blocks
    /// as are named.
    pub(super) fn split(self, count: usize) -> (Self, Self) {
        let (first, rest) = self.engines.split_at(count.min(self.engines.len()));
        let (content, more) = self.content.split(self.engines.len(), first.len());
        let parent = first.last().copied().or(self.parent);
        (
            Self { engines: first, content, ..self },
            Self { parent, engines: rest, content: more, ..self },
        )
    }

    /// How many of the first blocks are `most` blocks at most, and tokens and media of `weight` at
    /// most; one at least.
    pub(super) fn leading(&self, most: usize, weight: usize) -> usize {
        let most = self.engines.len().min(most);
        let Content::Tokens { tokens, media, .. } = self.content else { return most.max(1) };
        let size = tokens.len().checked_div(self.engines.len()).unwrap_or(0);
        let of_block = |at: usize| size + media.get(at).map_or(0, Vec::len);
        let mut left = weight;
        let fits = |&at: &usize| {
            let fits = of_block(at) <= left;
            left = left.saturating_sub(of_block(at));
            fits
        };
        (0..most).take_while(fits).count().max(1)
    }
}

/// What is in a stretch of blocks.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A block hash for each.
    Blocks(&'a [u64]),
    /// A sequence hash for each: they name what comes before as well.
    Sequences(&'a [u64]),
    /// Their tokens.
    Tokens {
        /// All of them: the block size times as many as there are blocks.
        tokens: &'a [u32],
        /// Hashes of the media in each block; none at all, or one list for each block.
        media: &'a [Vec<u64>],
        /// What they are cached under. Counts for blocks at the beginning of a prompt; others are
        /// of their parent's scope.
        scope: Scope,
    },
}

/// The same, kept.
#[derive(Clone, Debug)]
pub(super) enum OwnedContent {
    Blocks(Vec<u64>),
    Sequences(Vec<u64>),
    Tokens { tokens: Vec<u32>, media: Vec<Vec<u64>>, scope: Scope },
}

impl<'a> Content<'a> {
    /// What the content says of the scope.
    pub(super) fn scope(self) -> Scope {
        match self {
            Self::Blocks(_) | Self::Sequences(_) => Scope::default(),
            Self::Tokens { scope, .. } => scope,
        }
    }

    /// That of the first `at` of `count` blocks, and that of the others.
    fn split(self, count: usize, at: usize) -> (Self, Self) {
        match self {
            Self::Blocks(hashes) => {
                let (first, rest) = hashes.split_at(at.min(hashes.len()));
                (Self::Blocks(first), Self::Blocks(rest))
            }
            Self::Sequences(hashes) => {
                let (first, rest) = hashes.split_at(at.min(hashes.len()));
                (Self::Sequences(first), Self::Sequences(rest))
            }
            Self::Tokens { tokens, media, scope } => {
                let size = tokens.len().checked_div(count).unwrap_or(0);
                let (first, rest) = tokens.split_at((size * at).min(tokens.len()));
                let (of_first, of_rest) = media.split_at(at.min(media.len()));
                (
                    Self::Tokens { tokens: first, media: of_first, scope },
                    Self::Tokens { tokens: rest, media: of_rest, scope },
                )
            }
        }
    }

    /// Fills `chain` with the sequence hashes of the `count` blocks that it is of, behind the prefix
    /// `parent`.
    pub(super) fn chain(
        self,
        count: usize,
        mut parent: Option<u64>,
        scope: Scope,
        chain: &mut Vec<u64>,
    ) {
        chain.clear();
        let mut link = |block| {
            let hash = hashing::sequence_hash(parent, block);
            parent = Some(hash);
            chain.push(hash);
        };
        match self {
            Self::Blocks(blocks) => blocks.iter().copied().for_each(link),
            Self::Sequences(sequences) => chain.extend_from_slice(sequences),
            Self::Tokens { tokens, media, .. } => {
                let size = tokens.len().checked_div(count).unwrap_or(0).max(1);
                for (at, block) in tokens.chunks_exact(size).enumerate() {
                    let media = media.get(at).map_or(&[][..], Vec::as_slice);
                    link(hashing::block_hash(block, media, scope));
                }
            }
        }
    }

    /// Whether it is that of `count` blocks.
    pub(super) fn is_of(self, count: usize) -> bool {
        match self {
            Self::Blocks(hashes) | Self::Sequences(hashes) => hashes.len() == count,
            Self::Tokens { tokens, media, .. } => {
                let whole = tokens.len().checked_rem(count) == Some(0);
                let known = media.is_empty() || media.len() == count;
                known && (whole && !tokens.is_empty() || count == 0 && tokens.is_empty())
            }
        }
    }

    /// Bytes that it takes when it is kept.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Blocks(hashes) | Self::Sequences(hashes) => size_of_val(hashes),
            Self::Tokens { tokens, media, .. } => {
                let of_media: usize = media.iter().map(|of_block| size_of_val(&**of_block)).sum();
                size_of_val(tokens) + size_of_val(media) + of_media
            }
        }
    }

    pub(super) fn to_owned(self) -> OwnedContent {
        match self {
            Self::Blocks(blocks) => OwnedContent::Blocks(blocks.to_vec()),
            Self::Sequences(sequences) => OwnedContent::Sequences(sequences.to_vec()),
            Self::Tokens { tokens, media, scope } => {
                OwnedContent::Tokens { tokens: tokens.to_vec(), media: media.to_vec(), scope }
            }
        }
    }
}

impl OwnedContent {
    pub(super) fn borrow(&self) -> Content<'_> {
        match self {
            Self::Blocks(blocks) => Content::Blocks(blocks),
            Self::Sequences(sequences) => Content::Sequences(sequences),
            Self::Tokens { tokens, media, scope } => {
                Content::Tokens { tokens, media, scope: *scope }
            }
        }
    }
}

impl OwnedContent {
    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Blocks(hashes) | Self::Sequences(hashes) => hashes.capacity() * size_of::<u64>(),
            Self::Tokens { tokens, media, .. } => {
                let of_media = media.iter().map(|of_block| of_block.capacity() * size_of::<u64>());
                tokens.capacity() * size_of::<u32>()
                    + media.capacity() * size_of::<Vec<u64>>()
                    + of_media.sum::<usize>()
            }
        }
    }
}

/// What a change did, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Held since.
    pub stored: usize,
    /// Held already: one copy more.
    pub stored_again: usize,
    /// No longer held.
    pub removed: usize,
    /// One copy less; another is held still.
    pub copies_removed: usize,
    /// To be removed, but not held.
    pub unknown: usize,
    /// Kept apart until their parent is known.
    pub orphaned: usize,
    /// Kept apart until now, and placed.
    pub linked: usize,
    /// Kept apart, and given up for newer ones.
    pub orphans_dropped: usize,
    /// Not stored: the index is full.
    pub refused: usize,
    /// Not stored: as many blocks were named as the content isn't of.
    pub malformed: usize,
    /// Named by a rank that isn't of the fleet, or was in an earlier life.
    pub strange: usize,
}

impl std::ops::AddAssign for Applied {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.stored_again += other.stored_again;
        self.removed += other.removed;
        self.copies_removed += other.copies_removed;
        self.unknown += other.unknown;
        self.orphaned += other.orphaned;
        self.linked += other.linked;
        self.orphans_dropped += other.orphans_dropped;
        self.refused += other.refused;
        self.malformed += other.malformed;
        self.strange += other.strange;
    }
}
