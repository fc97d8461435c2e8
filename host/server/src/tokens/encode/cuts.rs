//! Where a text may be cut so that its pieces' tokens are its own.
//!
//! A tokenizer looks for its added tokens in the raw text from left to right, the longest first.
//! Before such a token a text may be cut if
//!
//! - it is looked for in the raw text, not in the normalised one;
//! - it takes no spaces from its neighbours, and begins with no space that a neighbour could take;
//! - it asks nothing of the letters around it, and begins with no letter that a neighbour could
//!   ask for;
//! - it was found by the same search over all such tokens, so that it isn't a part of another.
//!
//! Then neither side's search can see over the cut, and everything after the search works on the
//! text between two added tokens alone. A piece begins with its token, so that no piece but the
//! first stands where a text begins, which some tokenizers treat in a special way.

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::{AddedToken, Tokenizer};

/// The search for cuts.
#[derive(Debug)]
pub(super) struct Cuts {
    search: AhoCorasick,
    /// Whether a text may be cut before the token, by its place in the search.
    safe: Vec<bool>,
}

impl Cuts {
    /// None if no text can be cut.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let added = tokenizer.get_added_tokens_decoder();
        let raw: Vec<&AddedToken> = added.values().filter(|token| !token.normalized).collect();
        let safe: Vec<bool> = raw.iter().map(|token| is_safe(token)).collect();
        if !safe.contains(&true) {
            return None;
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(raw.iter().map(|token| token.content.as_bytes()))
            .ok()?;
        Some(Self { search, safe })
    }

    /// The cuts of a text, none of them at its ends.
    pub(super) fn of_text(&self, text: &str) -> impl Iterator<Item = usize> {
        self.search
            .find_iter(text)
            .filter(|found| found.start() > 0)
            .filter(|found| self.safe.get(found.pattern().as_usize()).copied().unwrap_or(false))
            .map(|found| found.start())
    }
}

fn is_safe(token: &AddedToken) -> bool {
    let first = token.content.chars().next();
    let is_neutral = |letter: char| !letter.is_whitespace() && !is_word(letter);
    !token.lstrip && !token.rstrip && !token.single_word && first.is_some_and(is_neutral)
}

/// Whether it could be a part of a word; rather too often than not.
fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || !letter.is_ascii() && !is_mark(letter)
}

/// Letters that special tokens of known models begin with and no word has.
fn is_mark(letter: char) -> bool {
    matches!(letter, '｜' | '▁' | '【' | '】' | '«' | '»' | '‹' | '›')
}
