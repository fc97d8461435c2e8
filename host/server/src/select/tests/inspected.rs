//! Promises of what is shown: loads, overlap, the index whole.

use super::*;

#[tokio::test]
async fn a_prompt_adds_to_each_rank_what_it_hasnt_cached_and_hasnt_active() {
    let fixture = Fixture::new().await;
    let pinned = asking(json!({ "selection_id": "a", "pinned_worker": { "worker_id": 1 } }));
    fixture.good("/select_and_reserve", &pinned).await;
    let loads = fixture.good("/potential_loads", &ask()).await;
    assert_eq!(
        loads,
        json!([
            { "worker_id": 1, "dp_rank": 0, "potential_prefill_tokens": 72 + 8, "potential_decode_blocks": 6, "active_requests": 1 },
            { "worker_id": 2, "dp_rank": 0, "potential_prefill_tokens": 72, "potential_decode_blocks": 5, "active_requests": 0 },
        ])
    );
    let all = fixture.get("/loads").await;
    assert_eq!(all[0]["loads"][0]["potential_decode_blocks"], 5);
    assert_eq!((&all[0]["pending_count"], &all[0]["role"]), (&json!(0), &json!("aggregated")));
    assert_eq!(fixture.get("/loads?model_name=another").await, json!([]));
    let bad = fixture.client.get("/loads?colour=red").await.unwrap();
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert!(bad.text().contains("SELECTION.md"), "{}", bad.text());
    fixture.stop().await;
}

#[tokio::test]
async fn what_engines_tell_is_scored_tier_by_tier_and_dumped_whole() {
    use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
    use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
    let fixture = Fixture::new().await;
    let partition = crate::serve::testing::partition();
    let partition = fixture.app().dispatcher.router().partition(&partition).unwrap();
    let prompt = ask();
    let tokens: Vec<u32> = serde_json::from_value(prompt["token_ids"].clone()).unwrap();
    let rank = WorkerRank { worker_id: WorkerId(2), dp_rank: DpRank(0) };
    let store = |parent, engines: &[u64], tokens: &[u32], tier| {
        let content = Content::Tokens { tokens, media: &[], scope: Default::default() };
        let stored = Stored { parent, engines, content, tier };
        partition.cache().apply(rank, CacheEvent::Stored(stored));
    };
    store(None, &[1, 2], &tokens[..32], Tier::Device);
    store(Some(2), &[3], &tokens[32..48], Tier::Host);
    let scores = fixture.good("/overlap_scores", &prompt).await;
    assert_eq!((&scores["block_size"], &scores["num_blocks"]), (&json!(16), &json!(4)));
    let its = &scores["workers"][1];
    for (field, blocks) in [
        ("device_blocks", json!(2)),
        ("host_pinned_blocks", json!(3)),
        ("host_pinned_extension_blocks", json!(1)),
        ("disk_blocks", json!(3)),
        ("disk_extension_blocks", json!(0)),
        ("shared_beyond_device_blocks", Value::Null),
        ("router_credit_blocks", json!(2.75)),
    ] {
        assert_eq!(its[field], blocks, "{field}");
    }
    assert_eq!(
        scores["shared_cache"],
        json!({ "enabled": false, "total_hit_blocks": 0, "ranges": [], "error": null })
    );
    let selection =
        fixture.good("/select", &asking(json!({ "pinned_worker": { "worker_id": 2 } }))).await;
    let overlap =
        json!({ "longest_matched": 48, "gpu": 32, "dp": { "0": 32 }, "cpu": 48, "disk": 48 });
    assert_eq!(selection["overlap"], overlap);
    let dump = fixture.get("/dump?model_name=m").await;
    let runs = dump[0]["runs"].as_array().unwrap();
    let hashes: usize =
        runs.iter().map(|run| run["sequence_hashes"].as_array().unwrap().len()).sum();
    assert_eq!((hashes, &dump[0]["next"], &dump[0]["block_size"]), (3, &Value::Null, &json!(16)));
    let held = |tier: &str| -> u64 {
        let all = runs.iter().flat_map(|run| run["held"].as_array().unwrap());
        all.filter(|one| one["tier"] == tier && one["worker_id"] == 2)
            .map(|one| one["blocks"].as_u64().unwrap())
            .sum()
    };
    assert_eq!((held("device"), held("host"), held("disk")), (2, 1, 0));
    assert_eq!(fixture.client.get("/dump?limit=x").await.unwrap().status, StatusCode::BAD_REQUEST);
    fixture.stop().await;
}
