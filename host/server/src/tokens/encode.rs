//! Text to token ids, piece by piece.
//!
//! A tokenizer takes special tokens (`<|im_start|>`) out of a text first, and everything between
//! two of them goes its own way: normalised, split and looked up without a look at the rest. So a
//! text can be cut before a special token, and the pieces' tokens are the text's. Chat templates
//! write such tokens around each message. The pieces are kept in a cache, so that a
//! system prompt, or the earlier turns of a conversation, are tokenised once.
//!
//! Long pieces are tokenised, and kept, in parts of some 32 KiB, since a tokenizer takes some hundred
//! bytes of memory for each byte of text that it has in work.
//!
//! Where a cut wouldn't be safe, none is made: see `cuts` and `parts`. Nothing here knows templates.

mod cuts;
mod parts;
mod pieces;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thiserror::Error;
use tokenizers::Tokenizer;

use super::pool::Stop;
use super::prompt::{Cut, Side};
use cuts::Cuts;
pub use pieces::PieceStats;
pub(super) use pieces::Pieces;

/// Spaces in a row that a text may have. Tokenizers split texts with expressions whose search is
/// given up, without a word, after a million steps back; a run of spaces takes one for each.
const MOST_SPACES: usize = 100_000;

/// Text that is given to the tokenizer at a time: it takes some 250 MB for so much.
const MOST_AT_ONCE: usize = 1 << 20;

/// Why a text has no tokens.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The tokenizer can't.
    #[error("the tokenizer failed: {0}; check that tokenizer.json is the model's")]
    Tokenizer(String),
    /// It has so many spaces in a row that the tokenizer would give up on it.
    #[error("the prompt has {spaces} spaces in a row, more than {MOST_SPACES}; send fewer")]
    TooManySpaces {
        /// So many.
        spaces: usize,
    },
    /// It has too long a stretch that can't be made into tokens part by part.
    #[error(
        "the prompt has {bytes} bytes in one piece, and more than {MOST_AT_ONCE} can't be made into tokens at once; send more messages"
    )]
    TooLongAtOnce {
        /// Its length.
        bytes: usize,
    },
    /// Nobody waits for it any more.
    #[error("nobody waits for the tokens any more")]
    Stopped,
    /// It shall be cut to what the model takes, and only the engine knows that.
    #[error("the prompt is to be cut to the model's length, which only the engine knows")]
    UnknownLength,
}

/// A tokenizer, and what its cutting into pieces needs.
#[derive(Debug)]
pub(super) struct Encoder {
    tokenizer: Tokenizer,
    cuts: Option<Cuts>,
    /// After how many bytes a piece is cut into parts; none if it can't be.
    part_bytes: Option<usize>,
    /// What it puts around a text if asked to; none if that hangs on the text.
    around: Option<(Vec<u32>, Vec<u32>)>,
}

/// A piece of a text: its tokens, if the cache has them.
#[derive(Debug)]
struct Piece {
    range: Range<usize>,
    tokens: Option<Arc<[u32]>>,
}

/// A text in pieces, some of whose tokens are known.
#[derive(Debug)]
pub(super) struct Begun {
    text: String,
    pieces: Vec<Piece>,
    add_special_tokens: bool,
}

impl Begun {
    /// How many bytes of it are still to be tokenised.
    pub(super) fn missing_bytes(&self) -> usize {
        let missing = self.pieces.iter().filter(|piece| piece.tokens.is_none());
        missing.map(|piece| piece.range.len()).sum()
    }
}

impl Encoder {
    /// Reads a `tokenizer.json`.
    pub(super) fn new(json: &[u8], split_special_tokens: bool) -> Result<Self, String> {
        // Files can hold what their reader never thought of.
        let read = catch_unwind(|| Tokenizer::from_bytes(json));
        let read = read.map_err(|_| "its reader panicked".to_owned())?;
        let mut tokenizer = read.map_err(|error| error.to_string())?;
        // What the file says on lengths is for training; engines don't use it.
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(split_special_tokens);
        let cuts = (!split_special_tokens).then(|| Cuts::of(&tokenizer)).flatten();
        let part_bytes = parts::may_cut(&tokenizer).then_some(parts::PART_BYTES);
        let mut encoder = Self { tokenizer, cuts, part_bytes, around: None };
        encoder.around = encoder.find_around();
        Ok(encoder)
    }

    /// What is put around texts, found out from two of them.
    fn find_around(&self) -> Option<(Vec<u32>, Vec<u32>)> {
        let around = |text: &str| {
            let plain = self.plain(text, false).ok()?;
            let whole = self.plain(text, true).ok()?;
            let at = match plain.is_empty() {
                // Where the text would stand can't be seen.
                true => return None,
                false => whole.windows(plain.len()).position(|window| window == plain)?,
            };
            Some((whole[..at].to_vec(), whole[at + plain.len()..].to_vec()))
        };
        let (one, other) = (around("a")?, around("Some more words, 42.")?);
        (one == other).then_some(one)
    }

    fn plain(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        if text.len() > MOST_SPACES {
            let runs = text.split(|letter: char| !letter.is_whitespace());
            let spaces = runs.map(|run| run.chars().count()).max().unwrap_or(0);
            if spaces > MOST_SPACES {
                return Err(EncodeError::TooManySpaces { spaces });
            }
        }
        if text.len() > MOST_AT_ONCE {
            return Err(EncodeError::TooLongAtOnce { bytes: text.len() });
        }
        // A tokenizer's file can hold what its reader never thought of. Nothing is changed by
        // encoding but a cache of words, which a panic leaves as it was.
        let encoding =
            catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast(text, add_special_tokens)));
        let encoding = encoding.map_err(|_| EncodeError::Tokenizer("it panicked".to_owned()))?;
        let encoding = encoding.map_err(|error| EncodeError::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Cuts a text into pieces and looks them up.
    pub(super) fn begin(&self, text: String, add_special_tokens: bool, cache: &Pieces) -> Begun {
        let mut pieces = Vec::new();
        if !add_special_tokens || self.around.is_some() {
            let mut start = 0;
            let cuts = self.cuts.iter().flat_map(|cuts| cuts.of_text(&text));
            for end in cuts.chain([text.len()]) {
                let bytes = self.part_bytes.unwrap_or(usize::MAX);
                let parts = parts::of(&text, start..end, bytes);
                pieces.extend(parts.into_iter().map(|range| Piece { range, tokens: None }));
                start = end;
            }
            let ranges = pieces.iter().map(|piece| &text[piece.range.clone()]);
            let known = cache.look_up(ranges);
            for (piece, tokens) in pieces.iter_mut().zip(known) {
                piece.tokens = tokens;
            }
        } else {
            pieces.push(Piece { range: 0..text.len(), tokens: None });
        }
        Begun { text, pieces, add_special_tokens }
    }

    /// The tokens of the whole. Told to stop, it keeps in the cache what it has.
    pub(super) fn finish(
        &self,
        begun: Begun,
        cache: &Pieces,
        stop: &Stop,
    ) -> Result<Vec<u32>, EncodeError> {
        let Begun { text, mut pieces, add_special_tokens } = begun;
        let around = match (add_special_tokens, &self.around) {
            (false, _) => None,
            (true, Some(around)) => Some(around),
            (true, None) => return self.plain(&text, true),
        };
        let mut fresh = Vec::new();
        for piece in pieces.iter_mut().filter(|piece| piece.tokens.is_none()) {
            if stop.is_set() {
                cache.keep(fresh);
                return Err(EncodeError::Stopped);
            }
            let words = &text[piece.range.clone()];
            let tokens: Arc<[u32]> = self.plain(words, false)?.into();
            fresh.push((words, Arc::clone(&tokens)));
            piece.tokens = Some(tokens);
        }
        cache.keep(fresh);
        let known = pieces.iter().filter_map(|piece| piece.tokens.as_deref());
        let (before, after) = around.map_or((&[][..], &[][..]), |(one, two)| (one, two));
        let count: usize = known.clone().map(<[u32]>::len).sum();
        let mut tokens = Vec::with_capacity(before.len() + count + after.len());
        tokens.extend_from_slice(before);
        known.for_each(|piece| tokens.extend_from_slice(piece));
        tokens.extend_from_slice(after);
        Ok(tokens)
    }

    /// Cuts a prompt that is too long, as the engine does.
    pub(super) fn cut(
        &self,
        mut tokens: Vec<u32>,
        cut: Option<Cut>,
        special: bool,
        default: Side,
    ) -> Result<Vec<u32>, EncodeError> {
        let Some(Cut { keep, side }) = cut else { return Ok(tokens) };
        let keep = usize::try_from(keep).map_err(|_| EncodeError::UnknownLength)?;
        if keep >= tokens.len() {
            return Ok(tokens);
        }
        // Asked for no side, the tokenizer cuts, and what it puts around the text stays.
        let (before, after) = match (&self.around, side.is_none() && special) {
            (Some((before, after)), true) => (before.len(), after.len()),
            _ => (0, 0),
        };
        if keep < before + after {
            return Err(EncodeError::UnknownLength);
        }
        let surplus = tokens.len() - keep;
        match side.unwrap_or(default) {
            Side::Left => tokens.drain(before..before + surplus),
            Side::Right => tokens.drain(tokens.len() - after - surplus..tokens.len() - after),
        };
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests;
