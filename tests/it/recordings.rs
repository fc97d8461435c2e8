//! What the index predicts is what real engines report: their events and answers, recorded.

use pointsman::feeds::{FeedStats, Skip};
use pointsman_core::hashing::Scope;
use pointsman_core::index::Tier;
use pointsman_tests::recordings::{self, Compared, Player, RANK, compare, messages};
use serde_json::Value;

/// Compares an engine's requests, and returns how many had a number, and those that differ.
fn check(engine: &str, folders: &[&str], block_size: u32) -> (Player, usize, Vec<Compared>) {
    let (player, compared) = compare(engine, folders, block_size, &[]).unwrap();
    let reported = compared.iter().filter(|one| one.cached.is_some()).count();
    let misses = compared.into_iter().filter(Compared::is_miss).collect();
    (player, reported, misses)
}

fn sound(stats: &FeedStats, skipped: &[(Skip, u64)]) {
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.counts.malformed, 0, "{:?}", snapshot.last_error);
    assert_eq!(snapshot.counts.orphans, 0);
    assert_eq!(snapshot.counts.other_rank, 0);
    assert_eq!(snapshot.wrong_block_size, None);
    assert_eq!(snapshot.skipped, skipped);
}

#[test]
fn a_fresh_engine_has_what_is_predicted_except_after_a_reset_that_it_has_not_told_yet() {
    let folders = ["http", "http-conc", "http-after-reset"];
    let (player, reported, misses) = check("A-fresh", &folders, 32);
    assert_eq!(reported, 30);
    // The engine dropped its cache when it was told to, and tells so with its next step: until
    // then it looks warm. Nothing on the wire could tell.
    let late = Compared { name: "01-chat-first".to_owned(), predicted: 160, cached: Some(0) };
    assert_eq!(misses, [late]);
    sound(&player.stats, &[]);
    assert_eq!(player.stats.snapshot().counts.events_cleared, 1);
}

#[test]
fn an_engine_that_evicts_has_what_is_predicted() {
    let (player, reported, misses) = check("B-evict", &["http-evict"], 32);
    assert_eq!((reported, misses), (22, vec![]));
    sound(&player.stats, &[]);
    let counts = player.stats.snapshot().counts;
    // Copies of blocks are what a plain set of hashes gets wrong here.
    assert!(counts.blocks_stored_again > 0 && counts.copies_removed > 0, "{counts:?}");
    assert_eq!(counts.blocks_unknown, 0);
}

#[test]
fn an_engine_that_restarts_begins_with_nothing() {
    // Each of these is a new connection to an engine that has come up.
    let timeline = std::fs::read_to_string(recordings::folder().join("C-restart/timeline.jsonl"));
    let timeline = timeline.unwrap();
    let healthy = timeline.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let healthy: Vec<f64> = healthy
        .filter(|entry| entry["what"].as_str().unwrap().starts_with("engine healthy"))
        .map(|entry| entry["t"].as_f64().unwrap())
        .collect();
    assert_eq!(healthy.len(), 4);
    let folders =
        ["http-engine1", "http-engine2", "http-crash", "http-engine3-apikey", "http-engine4-term"];
    let (player, compared) = compare("C-restart", &folders, 32, &healthy).unwrap();
    let misses: Vec<_> = compared.iter().filter(|one| one.is_miss()).collect();
    assert!(misses.is_empty(), "{misses:?}");
    assert!(compared.iter().filter(|one| one.cached.is_some()).count() >= 4);
    sound(&player.stats, &[]);

    // Without a word of the new connections, the numbers tell: but only with the first event.
    let (player, compared) = compare("C-restart", &folders, 32, &[]).unwrap();
    let misses: Vec<_> = compared.into_iter().filter(Compared::is_miss).collect();
    let late = |name: &str, predicted| Compared { name: name.into(), predicted, cached: Some(0) };
    assert_eq!(misses, [late("01-chat-first", 160)]);
    sound(&player.stats, &[]);
}

#[test]
fn hashes_in_bytes_are_as_good_as_numbers() {
    let (player, reported, misses) = check("D-bytes-sha256cbor-seed42", &["http-short"], 32);
    assert_eq!((reported, misses), (2, vec![]));
    sound(&player.stats, &[]);
}

#[test]
fn adapters_and_salts_share_nothing() {
    let (player, reported, misses) = check("E-lora", &["http-lora"], 32);
    assert_eq!((reported, misses), (4, vec![]));
    sound(&player.stats, &[]);
}

#[test]
fn a_hybrid_model_has_what_its_full_attention_group_says() {
    let (player, reported, misses) = check("F-hybrid-swa", &["http-groups"], 32);
    assert_eq!((reported, misses), (10, vec![]));
    let skipped = player.stats.skipped(Skip::PartialGroup);
    assert!(skipped > 0);
    sound(&player.stats, &[(Skip::PartialGroup, skipped)]);
}

#[test]
fn an_older_engine_that_writes_arrays_has_what_is_predicted() {
    let folders = ["http-short", "http-evict", "http-lorasalt", "http-reset"];
    let (player, reported, misses) = check("H-vllm0.20.2-array", &folders, 16);
    assert_eq!(reported, 27);
    assert_eq!(misses, []);
    sound(&player.stats, &[]);
}

#[test]
fn sglangs_cache_has_what_is_predicted() {
    let actions =
        std::fs::read_to_string(recordings::folder().join("S-sglang0.5.23-driven/actions.jsonl"));
    let mut events = messages("S-sglang0.5.23-driven/events.bin").unwrap().into_iter();
    let mut player = Player::new(16).unwrap();
    let mut inserts = 0;
    for line in actions.unwrap().lines() {
        let action: Value = serde_json::from_str(line).unwrap();
        if action["action"] == "insert" {
            let tokens = action["token_ids"].as_array().unwrap();
            let tokens: Vec<u32> = tokens.iter().map(|t| t.as_u64().unwrap() as u32).collect();
            let scope = Scope::new(None, action["cache_salt"].as_str());
            // The driver inserts whole prompts, so a hit may cover all of one.
            let hit = action["hit_tokens"].as_u64().unwrap();
            assert_eq!(player.blocks(&tokens, scope) * 16, hit, "{}", action["file"]);
            inserts += 1;
        }
        if action["published"] == true {
            player.take(&events.next().unwrap()).unwrap();
        }
    }
    assert_eq!((inserts, events.count()), (15, 0));
    sound(&player.stats, &[]);
}

#[test]
fn a_replay_from_the_first_batch_leads_to_what_was_seen_live() {
    for (engine, replay, block_size) in [
        ("A-fresh", "replay-after-reset.bin", 32),
        ("B-evict", "replay-from-0.bin", 32),
        ("D-bytes-sha256cbor-seed42", "replay-from-0.bin", 32),
        ("E-lora", "replay-from-0.bin", 32),
        ("F-hybrid-swa", "replay-from-0.bin", 32),
        // In the older frames.
        ("H-vllm0.20.2-array", "replay-from-0.bin", 16),
        ("S-sglang0.5.23-driven", "replay-from-0.bin", 16),
    ] {
        let mut replayed = Player::new(block_size).unwrap();
        let answer = messages(&format!("{engine}/{replay}")).unwrap();
        let batches = replayed.take_replay(&answer).unwrap();
        assert!(batches + 1 == answer.len() && batches > 0, "{engine}");
        let mut live = Player::new(block_size).unwrap();
        let events = messages(&format!("{engine}/events.bin")).unwrap();
        // Some were asked for before the last event.
        events.iter().take(batches).for_each(|event| live.take(event).unwrap());
        assert_eq!(replayed.index.stats().held, live.index.stats().held, "{engine}");
        assert_eq!(replayed.index.stats().blocks, live.index.stats().blocks, "{engine}");
        // All of it is known already to whoever was there.
        live.take_replay(&answer).unwrap();
        assert_eq!(replayed.index.stats().held, live.index.stats().held, "{engine}");
    }
}

#[test]
fn every_recorded_payload_is_read_to_the_last_event() {
    let mut batches = 0;
    for entry in std::fs::read_dir(recordings::folder()).unwrap() {
        for file in std::fs::read_dir(entry.unwrap().path()).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "bin") {
                continue;
            }
            let relative = path.strip_prefix(recordings::folder()).unwrap().to_str().unwrap();
            for message in messages(relative).unwrap() {
                if message.payload().is_empty() {
                    assert_eq!(message.seq().unwrap(), u64::MAX, "{relative}");
                    continue;
                }
                let batch = pointsman::feeds::wire::Batch::read(message.payload()).unwrap();
                assert!(batch.events().all(|event| event.is_ok()), "{relative}");
                batches += 1;
            }
        }
    }
    assert!(batches > 400, "{batches}");
}

#[test]
fn an_evicted_engine_holds_what_its_events_add_up_to() {
    let (player, _, _) = check("B-evict", &["http-evict"], 32);
    let counts = player.stats.snapshot().counts;
    let held = player.index.rank_stats(RANK).unwrap().held[Tier::Device as usize] as u64;
    assert_eq!(held, counts.blocks_stored - counts.blocks_removed);
    // It was given 40 blocks, one of which it never uses.
    assert!(held <= 39, "{held}");
}
