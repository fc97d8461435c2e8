use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::*;
use crate::tokens::tests::{MODELS, fixtures};

fn encoder(model: &str) -> Encoder {
    let file = fixtures().join(model).join("tokenizer.json");
    Encoder::new(&std::fs::read(file).expect("it is there"), false).expect("it is one")
}

fn tokens(encoder: &Encoder, text: &str, special: bool, cache: &Pieces) -> Vec<u32> {
    let begun = encoder.begin(text.to_owned(), special, cache);
    encoder.finish(begun, cache, &Stop::default()).expect("it has tokens")
}

/// What texts are made of: the added tokens of a tokenizer, whole and broken, and whatever could
/// see over a border.
fn fragments(encoder: &Encoder) -> Vec<String> {
    let added = encoder.tokenizer.get_added_tokens_decoder();
    let mut fragments: Vec<String> = added.values().map(|token| token.content.clone()).collect();
    fragments.sort();
    let broken: Vec<String> = fragments
        .iter()
        .filter(|token| token.chars().count() > 2)
        .flat_map(|token| {
            let middle = token.char_indices().nth(token.chars().count() / 2);
            let (one, two) = token.split_at(middle.map_or(0, |(at, _)| at));
            [one.to_owned(), two.to_owned()]
        })
        .collect();
    fragments.extend(broken);
    let others = [
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "\u{a0}",
        "\u{3000}",
        "a",
        "A",
        "The",
        " the",
        " quick",
        "don't go",
        " x ",
        "brown",
        "'s",
        "'LL",
        "1",
        "1234",
        " 42",
        ".",
        "!?",
        "<",
        "|",
        "<|",
        "[",
        "_",
        "é",
        "e\u{301}",
        "\u{301}",
        "\u{212b}",
        "今日は",
        "世界",
        "한국어",
        "😀",
        "👩\u{200d}👧",
        "\u{200d}",
        "system",
        "user",
        "assistant",
        "▁",
        "<0x41>",
        "\u{0}",
        "normalized",
    ];
    fragments.extend(others.map(str::to_owned));
    fragments
}

#[test]
fn pieces_have_the_tokens_of_the_whole_for_any_text() {
    for model in MODELS {
        let mut encoder = encoder(model);
        assert!(encoder.cuts.is_some(), "{model}");
        // These two split at special tokens and spaces alone.
        assert_eq!(encoder.part_bytes.is_none(), ["gemma", "mistral"].contains(&model), "{model}");
        // Short ones, so that there are many borders.
        encoder.part_bytes = encoder.part_bytes.map(|_| 3);
        let fragments = fragments(&encoder);
        // One cache for all texts, small enough to forget some of them.
        let cache = Pieces::new(20_000);
        let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
        let strategy = prop::collection::vec(0..fragments.len(), 0..24);
        let ran = TestRunner::new(config).run(&strategy, |picks| {
            let text: String = picks.iter().map(|&at| fragments[at].as_str()).collect();
            for special in [false, true] {
                let whole = encoder.plain(&text, special).expect("it has tokens");
                // Fresh or known, in part or whole.
                for _ in 0..2 {
                    prop_assert_eq!(
                        &tokens(&encoder, &text, special, &cache),
                        &whole,
                        "{:?}",
                        &text
                    );
                }
            }
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{model}: {error}"));
        let stats = cache.stats();
        assert!(stats.hits > 100 && stats.bytes <= 20_000, "{model}: {stats:?}");
    }
}

#[test]
fn a_conversation_that_goes_on_finds_its_earlier_turns() {
    let encoder = encoder("qwen");
    let cache = Pieces::new(1 << 20);
    let stop = Stop::default();
    let mut text = String::new();
    for turn in 0..20 {
        let words = "The quick brown fox. ".repeat(turn + 1);
        write!(text, "<|im_start|>user\n{words}{turn}<|im_end|>\n").expect("it is a string");
        let begun = encoder.begin(text.clone(), false, &cache);
        assert!(begun.missing_bytes() < words.len() + 60, "only the last turn is new");
        let whole = encoder.plain(&text, false).expect("it has tokens");
        assert_eq!(encoder.finish(begun, &cache, &stop).expect("it has tokens"), whole);
    }
    let begun = encoder.begin(text, false, &cache);
    assert_eq!(begun.missing_bytes(), 0);
}

#[test]
fn a_tokenizer_that_splits_special_tokens_is_never_cut() {
    let file = fixtures().join("qwen/tokenizer.json");
    let json = std::fs::read(file).expect("it is there");
    let encoder = Encoder::new(&json, true).expect("it is one");
    assert!(encoder.cuts.is_none());
    let cache = Pieces::new(1 << 20);
    let ids = tokens(&encoder, "<|im_start|>user", false, &cache);
    assert!(ids.len() > 2, "{ids:?}");
    assert_eq!(ids, encoder.plain("<|im_start|>user", false).expect("it has tokens"));
}

/// A run of 100,000 bytes, and how many words the Python package makes of it and some more, with another
/// library's expressions.
const LONG: [(&str, usize); 9] = [
    (" ", 13),
    ("\n", 13),
    ("\t ", 13),
    ("a", 12),
    ("7", 33346),
    ("!", 13),
    ("é", 12),
    (" \r\n", 13),
    (" \r\n\t", 13),
];

#[test]
fn long_runs_of_one_letter_are_split_to_their_end() {
    let encoder = encoder("llama");
    let splitter = encoder.tokenizer.get_pre_tokenizer().expect("it has one");
    for (letters, count) in LONG {
        let text = letters.repeat(100_000 / letters.len());
        let text = format!("{text}x The quick brown fox's 1234567  end");
        let mut split = PreTokenizedString::from(text);
        splitter.pre_tokenize(&mut split).expect("it can be split");
        let words = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        assert_eq!(words.len(), count, "{letters:?}");
    }
}

#[test]
fn more_spaces_than_the_expressions_can_go_over_are_refused() {
    let encoder = encoder("llama");
    let cache = Pieces::new(1 << 20);
    for spaces in [" ".repeat(1_100_000), "\t\u{a0}".repeat(60_000)] {
        let begun = encoder.begin(format!("a{spaces}b"), false, &cache);
        let refused = encoder.finish(begun, &cache, &Stop::default());
        assert!(matches!(refused, Err(EncodeError::TooManySpaces { .. })));
    }
    let text = format!("a{}b", " ".repeat(99_999)).repeat(3);
    assert!(encoder.plain(&text, false).is_ok());
}

#[test]
fn what_is_no_tokenizer_is_refused_in_words() {
    let whole = std::fs::read(fixtures().join("qwen/tokenizer.json")).expect("it is there");
    let half = &whole[..whole.len() / 2];
    let whole: serde_json::Value = serde_json::from_slice(&whole).expect("it is JSON");
    let with = |path: &str, value: serde_json::Value| {
        let mut other = whole.clone();
        *other.pointer_mut(path).expect("it is there") = value;
        other.to_string()
    };
    let bad = [
        String::new(),
        "{}".to_owned(),
        "[1, 2]".to_owned(),
        String::from_utf8_lossy(half).into_owned(),
        with("/model/type", serde_json::json!("Psychic")),
        with("/model/merges", serde_json::json!([["nothing", "here"]])),
        with("/model/vocab", serde_json::json!({"a": -1})),
        with(
            "/pre_tokenizer",
            serde_json::json!({"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": false}),
        ),
        with("/added_tokens/0/content", serde_json::json!("")),
    ];
    for json in bad {
        match Encoder::new(json.as_bytes(), false) {
            Err(problem) => assert!(!problem.is_empty()),
            // Some odd files are taken; then they work.
            Ok(encoder) => drop(encoder.plain("The quick brown fox", false)),
        }
    }
}

#[test]
fn a_long_text_is_made_into_tokens_part_by_part_and_kept_so() {
    let encoder = encoder("llama");
    let cache = Pieces::new(8 << 20);
    let text = "The quick brown fox's 42 jumps,\n over a lazy dog. ".repeat(5_000);
    let begun = encoder.begin(text.clone(), false, &cache);
    assert_eq!(begun.pieces.len(), text.len().div_ceil(parts::PART_BYTES + 64));
    let stop = Stop::default();
    let tokens = encoder.finish(begun, &cache, &stop).expect("it has tokens");
    assert_eq!(tokens, encoder.plain(&text, false).expect("it has tokens"));
    // A longer one begins with the same parts.
    let longer = encoder.begin(text.clone() + &text, false, &cache);
    assert!(longer.missing_bytes() < text.len() + 2 * parts::PART_BYTES);
    stop.set();
    assert!(matches!(encoder.finish(longer, &cache, &stop), Err(EncodeError::Stopped)));
}

#[test]
fn what_has_no_border_for_too_long_is_refused() {
    let cache = Pieces::new(1 << 20);
    for (model, text) in [("gemma", "a b ".repeat(300_000)), ("llama", "ab,".repeat(400_000))] {
        let encoder = encoder(model);
        let begun = encoder.begin(text, false, &cache);
        let refused = encoder.finish(begun, &cache, &Stop::default());
        assert!(matches!(refused, Err(EncodeError::TooLongAtOnce { .. })), "{model}");
    }
    let encoder = encoder("llama");
    let begun = encoder.begin("a b ".repeat(300_000), false, &cache);
    assert!(encoder.finish(begun, &cache, &Stop::default()).is_ok());
}
