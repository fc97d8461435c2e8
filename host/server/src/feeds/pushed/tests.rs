//! Pushed bodies, read and applied.

use pointsman_core::ids::{WorkerId, WorkerRank};
use pointsman_core::index::{PrefixIndex, Tier};

use super::*;

const RANK: WorkerRank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };

/// The body of the module's page.
const SAMPLE: &str = r#"{
  "dp_rank": 0,
  "events": [
    { "type": "stored", "parent_hash": null, "block_hashes": [7, "18446744073709551615"],
      "token_ids": [1, 2, 3, 4], "block_size": 2, "medium": "GPU",
      "lora_name": null, "cache_salt": null, "mm_hashes": [["cat.png"], []] },
    { "type": "removed", "block_hashes": [7], "medium": "GPU" },
    { "type": "cleared" }
  ]
}"#;

fn push(index: &PrefixIndex, intake: &mut Intake, body: &str) -> PushOutcome {
    let pushed = Pushed::read(body.as_bytes()).expect("a sound body");
    pushed.apply(intake, &FeedStats::default(), index)
}

#[test]
fn the_sample_does_what_it_says() {
    let index = PrefixIndex::default();
    let mut intake = Intake::new(RANK, Some(2));
    let outcome = push(&index, &mut intake, SAMPLE);
    let expected = PushOutcome { applied: 3, stored: 2, removed: 2, ..PushOutcome::default() };
    assert_eq!(outcome, expected);
    assert_eq!(index.rank_stats(RANK).map(|stats| stats.held), Some([0; Tier::COUNT]));
}

#[test]
fn hashes_mean_the_same_as_numbers_and_as_text() {
    let index = PrefixIndex::default();
    let mut intake = Intake::new(RANK, Some(1));
    push(
        &index,
        &mut intake,
        r#"{"events": [{"type": "stored", "block_hashes": [-1, 5], "token_ids": [1, 2], "block_size": 1}]}"#,
    );
    let outcome = push(
        &index,
        &mut intake,
        r#"{"events": [
            {"type": "removed", "block_hashes": ["18446744073709551615", "-9"]},
            {"type": "stored", "block_hashes": ["6"], "parent_hash": "5", "token_ids": [3], "block_size": 1}
        ]}"#,
    );
    assert_eq!((outcome.removed, outcome.unknown, outcome.stored), (1, 1, 1));
}

#[test]
fn a_wrong_block_size_is_told() {
    let index = PrefixIndex::default();
    let mut intake = Intake::new(RANK, Some(16));
    let outcome = push(&index, &mut intake, SAMPLE);
    assert_eq!(outcome.skipped, [(Skip::BlockSize, 1)]);
    let shown = serde_json::to_value(&outcome).expect("it is JSON");
    assert_eq!(shown["skipped"], serde_json::json!({ "block_size": 1 }));
    assert_eq!(index.stats().blocks, 0);
}

#[test]
fn errors_tell_the_place_and_nothing_is_applied() {
    for (from, to, error) in [
        (
            "7, ",
            "7.5, ",
            "events[0].block_hashes[0]: expected a hash: a number of 64 bits, or the \
            same as text, found 7.5; see ADMIN.md",
        ),
        ("\"184", "\"9184", "events[0].block_hashes[1]: expected a hash"),
        ("3, 4]", "3, -4]", "events[0].token_ids[3]: expected a number of 32 bits, found -4"),
        (
            "[[\"cat.png\"], []]",
            "[[]]",
            "events[0].mm_hashes: expected a list for each of block_hashes",
        ),
        ("\"cat.png\"", "null", "events[0].mm_hashes[0][0]: expected an identifier"),
        (
            "\"cleared\"",
            "\"dropped\"",
            "events[2].type: expected stored, removed or cleared, found \"dropped\"",
        ),
        ("\"cleared\"", "\"cleared\", \"x\": 1", "events[2]: unknown key \"x\"; known: type"),
        (
            "\"block_size\": 2,",
            "",
            "events[0].block_size: expected a number of 32 bits, found nothing",
        ),
        ("\"dp_rank\": 0", "\"dp_rank\": -1", "dp_rank: expected a number of 32 bits, found -1"),
        ("\"dp_rank\"", "\"rank\"", "the body: unknown key \"rank\"; known: dp_rank, events"),
        ("\"GPU\" },", "5 },", "events[1].medium: expected text, found 5"),
        (
            "\"cleared\"",
            "5",
            "events[2].type: expected stored, removed or cleared, found 5; see ADMIN.md",
        ),
        ("{ \"type\": \"cleared\" }", "5", "events[2]: expected an object, found 5"),
        ("{ \"type\": \"cleared\" }", "{}", "events[2].type: expected stored, removed or cleared"),
        ("[7, ", "[null, ", "events[0].block_hashes[0]: expected a hash"),
        ("[1, 2, 3, 4]", "{\"a\": 1}", "events[0].token_ids: expected a list, found an object"),
        ("\"GPU\",", "[\"GPU\"],", "events[0].medium: expected text, found a list"),
        // A key of another kind of event, wherever the kind stands.
        (
            "[7], \"medium\"",
            "[7], \"token_ids\"",
            "events[1]: unknown key \"token_ids\"; known: type",
        ),
        (
            "{ \"type\": \"cleared\" }",
            "{ \"block_hashes\": [1], \"type\": \"cleared\" }",
            "events[2]: unknown key \"block_hashes\"; known: type",
        ),
        ("\"dp_rank\": 0", "\"dp_rank\": 0, \"dp_rank\": 1", "the body: \"dp_rank\" stands twice"),
        ("\"GPU\" },", "\"GPU\", \"medium\": \"CPU\" },", "events[1]: \"medium\" stands twice"),
        (
            "\"cleared\"",
            "\"cleared\", \"\\u0074ype\": \"stored\"",
            "events[2]: \"type\" stands twice",
        ),
    ] {
        let body = SAMPLE.replacen(from, to, 1);
        assert_ne!(body, SAMPLE, "{from}");
        let found = Pushed::read(body.as_bytes()).expect_err(to).to_string();
        assert!(found.contains(error), "{found}\n{error}");
    }
    for not_json in
        ["{", "", "{\"events\": []} {}", "{\"events\": []} x", "{\"events\": [\"\\ud800\"]}"]
    {
        let error = Pushed::read(not_json.as_bytes()).expect_err(not_json);
        assert!(matches!(error, PushError::Json(_)), "{not_json}: {error}");
    }
    for not_an_object in ["[]", "null", "7", "\"events\""] {
        let error = Pushed::read(not_an_object.as_bytes()).expect_err(not_an_object).to_string();
        assert!(error.starts_with("the body: expected an object"), "{error}");
    }
}

#[test]
fn a_rank_left_out_is_not_rank_0() {
    let pushed = Pushed::read(br#"{"events": []}"#).expect("a sound body");
    assert_eq!(pushed.dp_rank, None);
    assert!(pushed.is_empty());
}

#[test]
fn keys_may_come_in_any_order_and_null_is_as_good_as_absent() {
    let [usual, other] = [
        r#"{"events": [{"type": "removed", "block_hashes": [1]}]}"#,
        r#"{"events": [{"medium": null, "block_hashes": [1], "type": "removed"}], "dp_rank": null}"#,
    ]
    .map(|body| Pushed::read(body.as_bytes()).expect(body));
    assert_eq!(usual, other);
}

/// What is too much ends the reading where it is too much: what follows isn't even JSON.
#[test]
fn a_body_of_too_much_is_not_read_to_its_end() {
    let events = r#"{"type":"cleared"},"#.repeat(MOST_EVENTS);
    let whole = format!(r#"{{"events":[{}]}}"#, events.trim_end_matches(','));
    assert_eq!(Pushed::read(whole.as_bytes()).map(|pushed| pushed.len()), Ok(MOST_EVENTS));
    let error = format!(r#"{{"events":[{events}{{"type":"cleared"}}, and so on"#);
    let error = Pushed::read(error.as_bytes()).expect_err("too many").to_string();
    assert!(error.contains("events: expected a shorter list: split it"), "{error}");
    assert!(error.contains("more than 65536 elements"), "{error}");

    let hashes = "1,".repeat(MOST_BYTES / size_of::<u64>() / 2);
    let half = format!(r#"{{"type":"removed","block_hashes":[{}]}}"#, hashes.trim_end_matches(','));
    let error = format!(r#"{{"events":[{half},{half}, and so on"#);
    let error = Pushed::read(error.as_bytes()).expect_err("too many").to_string();
    assert!(error.contains("events[1].block_hashes: expected less in all lists"), "{error}");

    let error = r#"{"events":[{"":0}, and so on"#;
    let error = Pushed::read(error.as_bytes()).expect_err("unknown").to_string();
    assert!(error.contains("events[0]: unknown key \"\""), "{error}");
    let long = format!(r#"{{"{}": 1}}"#, "x".repeat(1_000));
    assert!(Pushed::read(long.as_bytes()).expect_err("unknown").to_string().len() < 150);
}
