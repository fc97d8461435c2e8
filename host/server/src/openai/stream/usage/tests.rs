//! What is found in answers, and that nothing else is.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;

fn usage(chunks: &[&[u8]]) -> Usage {
    let mut reader = Reader::default();
    chunks.iter().for_each(|chunk| reader.see(chunk));
    reader.usage()
}

fn read(chunks: &[&[u8]]) -> (Option<u64>, Option<u64>) {
    let Usage { prompt_tokens, cached_tokens, .. } = usage(chunks);
    (prompt_tokens, cached_tokens)
}

const USAGE: &str = r#"{"usage":{"prompt_tokens":185,"total_tokens":209,"completion_tokens":24,
    "prompt_tokens_details":{"cached_tokens" : 160 ,"created_cache_tokens":0}}}"#;

#[test]
fn all_counts_are_found_wherever_the_chunks_are_cut() {
    assert!(KEYS.iter().all(|(_, key)| key.len() <= LONGEST && key.ends_with(END)));
    let bytes = USAGE.as_bytes();
    let (prompt_tokens, cached_tokens) = (Some(185), Some(160));
    let all = Usage { prompt_tokens, cached_tokens, completion_tokens: Some(24) };
    for at in 0..=bytes.len() {
        for other in at..=bytes.len() {
            let chunks = [&bytes[..at], &bytes[at..other], &bytes[other..]];
            assert_eq!(usage(&chunks), all, "{at} {other}");
        }
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(usage(&single), all);
}

#[test]
fn what_is_null_or_no_count_is_not_said() {
    for (text, expected) in [
        (r#"{"prompt_tokens":5,"prompt_tokens_details":null}"#, (Some(5), None)),
        (r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":null}}"#, (Some(5), None)),
        (r#"{"prompt_tokens":0,"cached_tokens":0}"#, (Some(0), Some(0))),
        (r#"{"prompt_tokens":-5,"cached_tokens":1.5}"#, (None, None)),
        (r#"{"prompt_tokens":"5","cached_tokens":[5]}"#, (None, None)),
        (r#"{"prompt_tokens":99999999999999999999}"#, (None, None)),
        (r#"{"prompt_tokens":5"#, (None, None)),
        (r#"{"total_prompt_tokens":5,"prompt_tokens ":6,"uncached_tokens":7}"#, (None, None)),
        (r#"["prompt_tokens",5,"cached_tokens",6]"#, (None, None)),
        (r#"{"prompt_tokens":{"cached_tokens":3}}"#, (None, Some(3))),
        ("", (None, None)),
    ] {
        assert_eq!(read(&[text.as_bytes()]), expected, "{text}");
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&single), expected, "{text} byte by byte");
    }
}

#[test]
fn no_text_that_a_model_writes_can_look_like_a_count() {
    let texts = [
        r#""prompt_tokens":7,"cached_tokens":7,"#,
        r#"\"cached_tokens\":7}"#,
        "\"cached_tokens\"",
        "\\\"cached_tokens",
        "{\"usage\":{\"prompt_tokens\": 7 }}",
    ];
    for text in texts {
        for value in [
            serde_json::json!({ "choices": [{ "text": text, "token": [text] }], "x": 9 }),
            serde_json::json!({ "top_logprobs": [{ text: -0.5, "x": text }] }),
        ] {
            let body = value.to_string();
            for at in 0..=body.len() {
                let (first, rest) = body.as_bytes().split_at(at);
                assert_eq!(read(&[first, rest]), (None, None), "{body}");
            }
        }
    }
    // Tokens of these names, as keys.
    let body = r#"{"top_logprobs":[{"prompt_tokens":-0.5,"cached_tokens":0.0,"a":-1}]}"#;
    assert_eq!(read(&[body.as_bytes()]), (None, None));
}

#[test]
fn of_a_stream_that_counts_all_along_the_last_word_holds() {
    let event = |prompt, cached: &str| {
        format!("data: {{\"usage\":{{\"prompt_tokens\":{prompt}{cached}}}}}\n\n")
    };
    let stream = event(9, "") + &event(9, "") + &event(10, ",\"cached_tokens\":8");
    assert_eq!(read(&[stream.as_bytes()]), (Some(10), Some(8)));
}

/// The body of a recorded answer in the pieces that its engine sent, if it came in pieces.
fn frames(answer: &[u8]) -> Vec<Vec<u8>> {
    let end = memmem::find(answer, b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let mut rest = &answer[end..];
    if !head.contains("transfer-encoding: chunked") {
        return vec![rest.to_vec()];
    }
    let mut frames = Vec::new();
    while let Some(line) = memmem::find(rest, b"\r\n") {
        let digits = String::from_utf8_lossy(&rest[..line]);
        let size = usize::from_str_radix(digits.trim(), 16).unwrap();
        let data = &rest[line + 2..];
        // One that was cut off in the middle ends here.
        frames.push(data[..size.min(data.len())].to_vec());
        rest = data.get(size + 2..).unwrap_or_default();
    }
    frames
}

#[test]
fn in_what_real_engines_answered_exactly_their_usage_is_found() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    let (mut answers, mut told, mut cached) = (0, 0, 0);
    for engine in fs::read_dir(recordings).unwrap() {
        let Ok(folders) = fs::read_dir(engine.unwrap().path()) else { continue };
        for folder in folders {
            let folder = folder.unwrap().path();
            let Ok(index) = fs::read_to_string(folder.join("index.jsonl")) else { continue };
            for line in index.lines() {
                let entry: Value = serde_json::from_str(line).unwrap();
                let name = entry["file"].as_str().unwrap();
                let Ok(answer) = fs::read(folder.join(format!("{name}.resp"))) else { continue };
                let usage = &entry["usage"];
                let expected = (
                    usage["prompt_tokens"].as_u64(),
                    usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
                );
                let frames = frames(&answer);
                let whole = frames.concat();
                let place = folder.join(name);
                assert_eq!(read(&[&whole]), expected, "{place:?}");
                let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                assert_eq!(read(&frames), expected, "{place:?} as it came");
                for size in [1, 7, 16] {
                    let pieces: Vec<&[u8]> = whole.chunks(size).collect();
                    assert_eq!(read(&pieces), expected, "{place:?} by {size}");
                }
                answers += 1;
                told += usize::from(expected.0.is_some());
                cached += usize::from(expected.1.is_some());
            }
        }
    }
    assert_eq!((answers, told, cached), (144, 101, 75));
}
