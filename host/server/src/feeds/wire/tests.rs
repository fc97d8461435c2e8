//! Payloads of every version, and of none.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::feeds::testing::{base64, pack};

/// One real payload of each shape, by 25 versions of vLLM.
const MATRIX: &str =
    include_str!("../../../../../tests/recordings/versions/vllm-struct-matrix.jsonl");

/// All events of a payload, as they can be read.
fn events(payload: &[u8]) -> Vec<Result<Event<'_>, Malformed>> {
    Batch::read(payload).expect("a batch").events().collect()
}

fn one(payload: &[u8]) -> Event<'_> {
    let mut events = events(payload);
    assert_eq!(events.len(), 1);
    events.remove(0).expect("an event")
}

fn stored(event: &Event<'_>) -> Stored<'static> {
    // Leaks: it is a test.
    let Event::Stored(stored) = event else { panic!("not stored: {event:?}") };
    let leak = |text: Option<&str>| text.map(|text| &*text.to_owned().leak());
    Stored {
        hashes: stored.hashes.clone(),
        tokens: stored.tokens.clone(),
        keys: Keys::new(
            leak(stored.keys.adapter),
            leak(stored.keys.namespace),
            stored.keys.media.clone(),
        ),
        medium: leak(stored.medium),
        ..Stored {
            parent: stored.parent,
            block_size: stored.block_size,
            group: stored.group,
            holds: stored.holds,
            remote: stored.remote,
            ..Stored::default()
        }
    }
}

fn with_event(event: &Value) -> Vec<u8> {
    pack(&json!([1.5, [event], 0]))
}

#[test]
fn every_versions_payloads_are_read_as_it_means_them() {
    const HASHES: [u64; 2] = [0xf000_0000_0000_0001, 0xf000_0000_0000_0002];
    const BYTES: [u64; 2] = [0x0101_0101_0101_0101, 0x0202_0202_0202_0202];
    let mut versions = 0;
    for line in MATRIX.lines() {
        let entry: Value = serde_json::from_str(line).expect("JSON");
        let version = entry["version"].as_str().expect("a version");
        let has = |list: &str, field: &str| {
            entry[list].as_array().expect("fields").iter().any(|known| known == field)
        };
        let payload = |name: &str| base64(entry["payloads"][name].as_str().expect(name));
        let is_map = entry["event_encoding"] == "map";
        versions += 1;

        // Without an adapter.
        let with_numbers = payload("stored_int");
        let batch = Batch::read(&with_numbers).expect("a batch");
        assert_eq!((batch.ts, batch.rank, batch.len()), (1_700_000_000.5, Some(0), 1), "{version}");
        let plain = stored(&one(&with_numbers));
        assert_eq!(plain.hashes, HASHES, "{version}");
        assert_eq!(plain.tokens, (1000..1032).collect::<Vec<u32>>(), "{version}");
        assert_eq!((plain.parent, plain.block_size), (None, 16), "{version}");
        assert_eq!(plain.keys, Keys::default(), "{version}");
        assert_eq!(plain.medium, has("stored_fields", "medium").then_some("GPU"), "{version}");
        let group = has("stored_fields", "group_idx").then_some(0);
        assert_eq!(plain.group, group, "{version}");
        let kind = has("stored_fields", "kv_cache_spec_kind");
        assert_eq!(plain.holds, if kind { Groups::Whole } else { Groups::Unsaid }, "{version}");
        assert_eq!(stored(&one(&payload("stored_bytes"))).hashes, BYTES, "{version}");

        // With every field set.
        let full = payload("stored_all_fields");
        let event = one(&full);
        let Event::Stored(all) = &event else { panic!("{version}: {event:?}") };
        assert_eq!(all.parent, Some(0xf000_0000_0000_0009), "{version}");
        if has("stored_fields", "lora_name") {
            assert_eq!(all.keys.adapter, Some("sql-adapter"), "{version}");
        } else {
            assert!(all.keys.adapter_is_unnamed(), "{version}");
        }
        // In the middle of a prompt, "salt" is no cache salt: a key that we don't know.
        let media: &[usize] = if has("stored_fields", "extra_keys") { &[2, 0] } else { &[] };
        let found: Vec<usize> = all.keys.media.iter().map(Vec::len).collect();
        assert_eq!(found, media, "{version}");
        assert_eq!(all.holds, if kind { Groups::Partial } else { Groups::Unsaid }, "{version}");

        // Removed and cleared.
        let removed = |hash| {
            Event::Removed(Removed {
                hashes: vec![hash],
                medium: has("removed_fields", "medium").then_some("GPU"),
                group: has("removed_fields", "group_idx").then_some(0),
                remote: false,
            })
        };
        assert_eq!(one(&payload("removed")), removed(HASHES[0]), "{version}");
        assert_eq!(one(&payload("removed_bytes")), removed(BYTES[0]), "{version}");
        let no_rank = payload("removed_norank");
        assert_eq!(Batch::read(&no_rank).expect("a batch").rank, None, "{version}");
        assert_eq!(one(&no_rank), removed(HASHES[0]), "{version}");
        assert_eq!(one(&payload("cleared")), Event::Cleared, "{version}");
        let mixed = payload("mixed");
        let mixed: Vec<_> = events(&mixed).into_iter().map(|event| event.expect("sound")).collect();
        assert_eq!(mixed[0], removed(HASHES[0]), "{version}");
        assert_eq!(stored(&mixed[1]), plain, "{version}");
        assert_eq!(mixed[2..], [Event::Cleared], "{version}");
        assert_eq!(is_map, mixed_is_map(&payload("mixed")), "{version}");
    }
    assert_eq!(versions, 25);
}

/// Whether the events of a payload of vLLM are maps.
fn mixed_is_map(payload: &[u8]) -> bool {
    // After the array's head, the time and the head of three events.
    payload.get(11).is_some_and(|byte| byte & 0xf0 == 0x80)
}

#[test]
fn a_batch_may_have_less_or_more_than_three_elements() {
    let event = json!(["AllBlocksCleared"]);
    for (batch, rank) in [
        (json!([1.5, [event]]), None),
        (json!([1.5, [event], null]), None),
        (json!([1.5, [event], 3]), Some(3)),
        (json!([1.5, [event], 3, {"x": [1, 2]}, "more"]), Some(3)),
        (json!([2, [event], 3]), Some(3)),
    ] {
        let payload = pack(&batch);
        assert_eq!(Batch::read(&payload).expect("a batch").rank, rank);
        assert_eq!(one(&payload), Event::Cleared);
    }
}

#[test]
fn what_we_dont_know_is_left_aside() {
    let unknown = with_event(&json!(["BlockMoved", [1], 2]));
    assert_eq!(one(&unknown), Event::Unknown);
    let unknown = with_event(&json!({"type": "BlockMoved", "block_hashes": "?"}));
    assert_eq!(one(&unknown), Event::Unknown);
    let more = with_event(&json!({
        "from": {"a": [1]}, "block_hashes": [1], "type": "BlockRemoved", "x": null
    }));
    assert!(matches!(one(&more), Event::Removed(removed) if removed.hashes == [1]));
    let more = with_event(&json!(["BlockRemoved", [1], "GPU", 0, "LOCAL", 5, []]));
    assert!(matches!(one(&more), Event::Removed(removed) if removed.group == Some(0)));
    // A place in an array that isn't a field's in any version that writes arrays.
    let more = with_event(&json!([
        "BlockStored",
        [1],
        null,
        [5],
        1,
        null,
        "GPU",
        null,
        null,
        0,
        "full_attention",
        null,
        "REMOTE",
        "salt"
    ]));
    let more = stored(&one(&more));
    assert_eq!((more.remote, more.keys.namespace), (false, None));
}

#[test]
fn hashes_are_numbers_of_either_sign_or_bytes() {
    let payload = with_event(&json!(["BlockRemoved", [
        0, -1, i64::MIN, u64::MAX, {"b64": "AQ=="}, {"b64": "AAAAAAAAAAAAAAAAAAAABQ=="}
    ]]));
    let Event::Removed(removed) = one(&payload) else { panic!("removed") };
    assert_eq!(removed.hashes, [0, u64::MAX, 1 << 63, u64::MAX, 1, 5]);
}

#[test]
fn pages_of_token_pairs_are_read_by_their_first() {
    let payload =
        with_event(&json!(["BlockStored", [1], null, [[5, 6], [6, 7], [7, 8], [8, 9]], 4, null]));
    assert_eq!(stored(&one(&payload)).tokens, [5, 6, 7, 8]);
}

fn keys(event: Value) -> Keys<'static> {
    stored(&one(&with_event(&event).leak()[..])).keys
}

#[test]
fn keys_are_told_apart_without_names_and_with() {
    let hash = pointsman_core::hashing::media_hash;
    let event = |extra: Value| {
        json!({
            "type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": null,
            "token_ids": [1, 2, 3, 4], "block_size": 2, "lora_id": 1, "lora_name": "sql",
            "extra_keys": extra
        })
    };
    let digest = json!({"b64": "AAAAAAAAAP8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="});
    // vLLM to this day.
    let plain = keys(event(json!([
        ["sql", ["cat.png", -3], "tenant", digest],
        ["sql", ["cat.png", 0], ["dog.png", 1]]
    ])));
    let media = vec![vec![hash("cat.png"), 0xff], vec![hash("cat.png"), hash("dog.png")]];
    assert_eq!(plain, Keys::new(Some("sql"), Some("tenant"), media));
    // The same with tags.
    let tagged = keys(event(json!([
        [
            ["lora", "sql", "/models/sql"],
            ["mm", "cat.png", -3],
            ["cache_salt", "tenant"],
            ["prompt_embeds", digest]
        ],
        [["lora", "sql", "/models/sql"], ["mm", "cat.png", 0], ["mm", "dog.png", 1]]
    ])));
    assert_eq!(tagged, plain);
    // Most prompts.
    assert_eq!(keys(event(json!([["sql"], ["sql"]]))), Keys::new(Some("sql"), None, Vec::new()));
    assert_eq!(keys(event(json!([null, null]))), Keys::new(Some("sql"), None, Vec::new()));
    // SGLang says it by name.
    let mut named = event(Value::Null);
    named["cache_salt"] = json!("tenant");
    assert_eq!(keys(named), Keys::new(Some("sql"), Some("tenant"), Vec::new()));
    // What we don't know sets a block apart.
    let unknown = keys(event(json!([[["later", 1, 2, 3]], [7.5]])));
    assert_eq!(unknown.media.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn an_adapter_without_a_name_is_known_as_such() {
    let event = |name: Value, extra: Value| {
        with_event(&json!(["BlockStored", [1], null, [5, 6], 2, 3, "GPU", name, extra]))
    };
    let unnamed = event(Value::Null, Value::Null);
    let Event::Stored(unnamed) = one(&unnamed) else { panic!("stored") };
    assert!(unnamed.keys.adapter_is_unnamed());
    // Its keys may name it.
    let named = event(Value::Null, json!([["sql", "tenant"]]));
    let Event::Stored(named) = one(&named) else { panic!("stored") };
    assert_eq!((named.keys.adapter, named.keys.namespace), (Some("sql"), Some("tenant")));
    assert!(!named.keys.adapter_is_unnamed());
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_value() {
    for (batch, error) in [
        (
            json!({}),
            "the batch: expected a batch: an array of time, events and rank, found a map of 0 at byte 0",
        ),
        (json!([1.5]), "the batch: expected a batch: time, events and rank, found an array of 1"),
        (
            json!(["now", []]),
            "the batch.ts: expected a time in seconds, found the text \"now\" at byte 5",
        ),
        (json!([1.5, {}]), "the batch.events: expected an array of events, found a map of 0"),
        (
            json!([1.5, [], "r"]),
            "the batch.data_parallel_rank: expected a rank or nil, found the text \"r\"",
        ),
    ] {
        let found = Batch::read(&pack(&batch)).expect_err("not a batch").to_string();
        assert!(found.starts_with(error), "{found}");
    }
    let trailing = [pack(&json!([1.5, []])), vec![0]].concat();
    assert!(Batch::read(&trailing).expect_err("more").to_string().contains("found 1 bytes more"));
    for (event, error) in [
        (json!(5), "events[1]: expected an event: an array or a map, found 5 at byte"),
        (json!([]), "events[1]: expected an event: an array or a map, found an array of 0"),
        (
            json!({"block_hashes": []}),
            "events[1]: expected an event with its type, found a map of 1",
        ),
        (json!([7]), "events[1]: expected an event's type, found 7"),
        (json!(["BlockRemoved"]), "events[1].block_hashes: expected a value, found none at byte"),
        (
            json!(["BlockRemoved", [1, 2, "x"]]),
            "events[1].block_hashes[2]: expected a hash: a number or bytes, found the text \"x\"",
        ),
        (
            json!(["BlockRemoved", [{"b64": ""}]]),
            "events[1].block_hashes[0]: expected a hash: a number or bytes, found 0 bytes",
        ),
        (
            json!(["BlockStored", [1], null, [-5], 1]),
            "events[1].token_ids[0]: expected a token of at most 32 bits, found -5",
        ),
        (
            json!(["BlockStored", [1], null, [1_u64 << 32], 1]),
            "events[1].token_ids[0]: expected a token of at most 32 bits, found 4294967296",
        ),
        (
            json!(["BlockStored", [1], null, [5]]),
            "events[1].block_size: expected a value, found none",
        ),
        (
            json!(["BlockStored", [1], null, [5], "1"]),
            "events[1].block_size: expected a block's tokens, found the text \"1\"",
        ),
        (
            json!(["BlockStored", [1], "p", [5], 1]),
            "events[1].parent_block_hash: expected a hash: a number or bytes, found the text",
        ),
        (
            json!(["BlockStored", [1], null, [5], 1, null, "GPU", null, [[], []]]),
            "events[1].extra_keys: expected a list for each block, found an array of 2",
        ),
    ] {
        let payload = pack(&json!([1.5, [["AllBlocksCleared"], event, ["AllBlocksCleared"]], 0]));
        let events = events(&payload);
        // The others are of use.
        assert!(matches!(events[..], [Ok(Event::Cleared), Err(_), Ok(Event::Cleared)]));
        let found = events[1].as_ref().expect_err("not an event").to_string();
        assert!(found.starts_with(error), "{found}");
    }
}

/// Reads all there is to read, and drops it.
fn read_all(payload: &[u8]) {
    if let Ok(batch) = Batch::read(payload) {
        batch.events().for_each(drop);
    }
}

/// All payloads of the matrix.
static REAL: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let entries = MATRIX.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let payloads = |entry: Value| -> Vec<Vec<u8>> {
        let payloads = entry["payloads"].as_object().expect("payloads").values();
        payloads.map(|payload| base64(payload.as_str().expect("base64"))).collect()
    };
    entries.flat_map(payloads).collect()
});

#[test]
fn a_payload_that_is_cut_off_anywhere_is_an_error_and_no_panic() {
    for payload in REAL.iter() {
        for length in 0..payload.len() {
            assert!(Batch::read(&payload[..length]).is_err());
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        // Behind what begins like a batch, more of it is reached.
        read_all(&[&[0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91][..], &bytes].concat());
    }

    #[test]
    fn altered_payloads_are_no_panic(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut payload = which.get(&REAL).clone();
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        read_all(&payload);
    }
}
