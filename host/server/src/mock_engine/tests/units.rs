//! Configuration and tokenizer, without a connection.

use std::time::Duration;

use clap::Parser;

use crate::mock_engine::prompt::{Prompt, VOCABULARY, detokenize};
use crate::mock_engine::{ConfigError, MockConfig, MockEngine};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    config: MockConfig,
}

#[test]
fn the_command_line_has_the_same_defaults_as_the_code() {
    assert_eq!(Command::try_parse_from(["mock-engine"]).unwrap().config, MockConfig::default());
    let flags = [
        "mock-engine",
        "--addr",
        "127.0.0.1:0",
        "--model",
        "a",
        "--model",
        "b",
        "--decode-ms",
        "0.5",
        "--max-num-seqs",
        "3",
    ];
    let config = Command::try_parse_from(flags).unwrap().config;
    assert_eq!((config.models, config.max_num_seqs), (vec!["a".to_owned(), "b".to_owned()], 3));
    assert_eq!(config.decode_ms, Some(0.5));
}

#[test]
fn a_document_names_only_what_differs_and_no_unknown_key() {
    let config: MockConfig = serde_json::from_str(r#"{"name":"w","output_tokens":60}"#).unwrap();
    assert_eq!(
        config,
        MockConfig { name: "w".to_owned(), output_tokens: 60, ..MockConfig::default() }
    );
    assert!(serde_json::from_str::<MockConfig>(r#"{"nmae":"w"}"#).is_err());
}

#[test]
fn impossible_configurations_are_refused() {
    let refused = |change: fn(&mut MockConfig)| {
        let mut config = MockConfig::default();
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(
        refused(|config| config.max_num_seqs = 0),
        ConfigError::Zero { field: "max_num_seqs" }
    );
    assert_eq!(refused(|config| config.models.clear()), ConfigError::NoModel);
    assert!(matches!(
        refused(|config| config.name = "two words".to_owned()),
        ConfigError::Name { .. }
    ));
    assert!(matches!(
        refused(|config| config.decode_ms = Some(f64::NAN)),
        ConfigError::NotASpeed { .. }
    ));
    assert!(matches!(
        refused(|config| config.prefill_tokens_per_s = -1.0),
        ConfigError::NotASpeed { .. }
    ));
}

#[tokio::test]
async fn an_engine_with_an_impossible_configuration_does_not_start() {
    let error =
        MockEngine::start(MockConfig { block_size: 0, ..MockConfig::default() }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "block_size is 0; give at least 1");
}

#[test]
fn speeds_become_times_and_a_fixed_time_wins() {
    let mut config = MockConfig {
        prefill_tokens_per_s: 1000.0,
        decode_tokens_per_s: 50.0,
        ..MockConfig::default()
    };
    assert_eq!(config.prefill_time(200), Duration::from_millis(200));
    assert_eq!(config.decode_interval(), Duration::from_millis(20));
    config.prefill_ms = Some(3.0);
    config.decode_ms = Some(0.0);
    assert_eq!(config.prefill_time(200), Duration::from_millis(3));
    assert_eq!(config.decode_interval(), Duration::ZERO);
    assert_eq!(MockConfig::default().prefill_time(1_000_000), Duration::ZERO);
    let slowest = MockConfig { prefill_tokens_per_s: f64::MIN_POSITIVE, ..MockConfig::default() };
    assert!(slowest.prefill_time(1) > Duration::from_secs(1_000_000));
}

#[test]
fn texts_that_begin_alike_get_tokens_that_begin_alike() {
    let (short, long) =
        (Prompt::from_text("the same beginning"), Prompt::from_text("the same beginning and more"));
    assert_eq!(long.tokens[..short.tokens.len()], short.tokens);
    assert!(long.tokens.iter().all(|token| *token < VOCABULARY));
}

#[test]
fn every_token_is_text_and_every_id_beyond_is_refused() {
    for text in ["", " ", "a", "ab", "abc", "abcd", "  x", "\n\n", "ÿ", "\u{0}\u{0}\u{0}"] {
        assert_eq!(detokenize(&Prompt::from_text(text).tokens), text);
    }
    assert!(Prompt::from_ids(vec![0, VOCABULARY - 1]).is_ok());
    assert!(Prompt::from_ids(vec![VOCABULARY]).is_err());
}
