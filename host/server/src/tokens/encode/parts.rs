//! Where a long text without special tokens may be cut, so that no more of it is in work at a time
//! than a part.
//!
//! A tokenizer's work takes some hundred times the bytes of its text. Between `a` and ` b`, a letter
//! and a space with a letter behind it, the splitters of most models end one word and begin the next,
//! whatever stands before and behind: there a text may be cut, if
//!
//! - every expression that splits it is made of alternatives that are known here, none of which goes
//!   over such a place or looks beyond it, and one of which makes words of letters;
//! - what normalises it works letter by letter;
//! - no added token goes over such a place, or takes the space behind it.
//!
//! A tokenizer that isn't like that gets its text whole. Nothing here knows special tokens' own cuts.

use std::ops::Range;

use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

/// A part ends at the first place after so many bytes. Its work takes some megabytes.
pub(super) const PART_BYTES: usize = 32 << 10;

/// Alternatives that make words of letters, with the space before them.
const WORDS: [&str; 8] = [
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
    r" ?\p{L}+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
];

/// Alternatives that never meet a space between two letters.
const OTHERS: [&str; 25] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"(?i:[sdmt]|ll|ve|re)",
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    r"\p{N}",
    r"\p{N}{1,3}",
    r"\p{N}+",
    r" ?\p{N}+",
    r" ?[^\s\p{L}\p{N}]+",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r" ?[\p{P}\p{S}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s*[\r\n]",
    r"\s+(?!\S)",
    r"\s+",
    "[一-龥\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    r##"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
];

/// Whether texts may be cut so.
pub(super) fn may_cut(tokenizer: &Tokenizer) -> bool {
    let model = matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
    let normalizer = tokenizer.get_normalizer().is_none_or(is_by_letter);
    let words = tokenizer.get_pre_tokenizer().map(makes_words);
    let added = tokenizer.get_added_tokens_decoder();
    model
        && normalizer
        && words == Some(Some(true))
        && added.values().all(|token| !goes_over(token))
}

fn is_by_letter(normalizer: &NormalizerWrapper) -> bool {
    match normalizer {
        NormalizerWrapper::NFC(_)
        | NormalizerWrapper::NFD(_)
        | NormalizerWrapper::NFKC(_)
        | NormalizerWrapper::NFKD(_) => true,
        NormalizerWrapper::Sequence(all) => all.as_ref().iter().all(is_by_letter),
        _ => false,
    }
}

/// Whether a splitter makes words; none if it isn't known.
fn makes_words(splitter: &PreTokenizerWrapper) -> Option<bool> {
    match splitter {
        // With an expression of its own: words, numbers, marks and spaces.
        PreTokenizerWrapper::ByteLevel(level) => {
            (!level.add_prefix_space).then_some(level.use_regex)
        }
        PreTokenizerWrapper::Digits(_) => Some(false),
        PreTokenizerWrapper::Split(split) => {
            let isolates = matches!(split.behavior, SplitDelimiterBehavior::Isolated);
            match &split.pattern {
                SplitPattern::Regex(regex) if isolates && !split.invert => regex_makes_words(regex),
                _ => None,
            }
        }
        PreTokenizerWrapper::Sequence(all) => {
            all.as_ref().iter().try_fold(false, |words, one| Some(makes_words(one)? || words))
        }
        _ => None,
    }
}

fn regex_makes_words(regex: &str) -> Option<bool> {
    let all = alternatives(regex);
    let known = |one: &&str| WORDS.contains(one) || OTHERS.contains(one);
    all.iter().all(known).then(|| all.iter().any(|one| WORDS.contains(one)))
}

/// An expression's alternatives, as far as they aren't within brackets.
fn alternatives(regex: &str) -> Vec<&str> {
    let (mut all, mut start, mut depth, mut in_class, mut escaped) =
        (Vec::new(), 0, 0, false, false);
    for (at, letter) in regex.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match letter {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => {
                all.push(&regex[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&regex[start..]);
    all
}

fn is_border(three: &[u8]) -> bool {
    matches!(three, [one, b' ', two] if one.is_ascii_alphabetic() && two.is_ascii_alphabetic())
}

/// Whether something of a token, or what it takes behind it, could stand on both sides of a border.
fn goes_over(token: &AddedToken) -> bool {
    let content = token.content.as_bytes();
    let takes_spaces = token.rstrip && content.last().is_some_and(u8::is_ascii_alphabetic);
    takes_spaces || content.windows(2).any(|two| two[0].is_ascii_alphabetic() && two[1] == b' ')
}

/// A range of a text in parts: each but the last ends at the first border after so many bytes.
pub(super) fn of(text: &str, range: Range<usize>, part_bytes: usize) -> Vec<Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), range.start);
    let bytes = text.as_bytes();
    loop {
        let from = start.saturating_add(part_bytes.max(1)).saturating_sub(1);
        let rest = bytes.get(from..range.end).unwrap_or_default();
        let Some(at) = rest.windows(3).position(is_border) else { break };
        // Behind the letter. Borders are ASCII, so no letter is cut.
        let end = from + at + 1;
        parts.push(start..end);
        start = end;
    }
    parts.push(start..range.end);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_before_a_space_between_letters_and_make_the_whole() {
        let text = "The quick  brown, fox 7 jumps é over a";
        let parts = of(text, 0..text.len(), 3);
        let texts: Vec<&str> = parts.iter().map(|part| &text[part.clone()]).collect();
        assert_eq!(texts, ["The", " quick  brown, fox 7 jumps é over", " a"]);
        assert_eq!(of(text, 4..9, 1), std::slice::from_ref(&(4..9)));
        assert_eq!(of("", 0..0, 1), std::slice::from_ref(&(0..0)));
        assert_eq!(of(text, 0..text.len(), usize::MAX).len(), 1);
    }

    #[test]
    fn an_expression_is_known_by_all_its_alternatives() {
        let words = r"(?i:'s|'t)|\p{N}|[^\r\n\p{L}\p{N}]?\p{L}+|[|)]";
        assert_eq!(alternatives(words).len(), 4);
        assert_eq!(regex_makes_words(r"\p{N}|[^\r\n\p{L}\p{N}]?\p{L}+|\s+"), Some(true));
        assert_eq!(regex_makes_words(r"\p{N}|\s+"), Some(false));
        assert_eq!(regex_makes_words(r"\p{N}|[^\r\n\p{L}\p{N}]?\p{L}+|\w+ \w+"), None);
    }
}
