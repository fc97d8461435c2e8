//! Promises of selections.

use super::*;

#[tokio::test]
async fn a_selection_says_who_and_what_it_costs_him_and_books_nothing() {
    let fixture = Fixture::new().await;
    let selection = fixture.good("/select", &ask()).await;
    assert_eq!(selection["endpoint"], "http://127.0.0.1:9");
    assert_eq!(
        (&selection["model_name"], &selection["routing_group"]),
        (&json!(MODEL), &json!("default"))
    );
    assert_eq!((&selection["block_size"], &selection["dp_rank"]), (&json!(16), &json!(0)));
    assert_eq!(selection["effective_prefill_tokens"], 72);
    assert_eq!(selection["potential_decode_blocks"], 5);
    let overlap = json!({ "longest_matched": 0, "gpu": 0, "dp": { "0": 0 }, "cpu": 0, "disk": 0 });
    assert_eq!(selection["overlap"], overlap);
    for absent in ["selection_id", "sequence_hashes", "worker_load", "receipt", "ignored"] {
        assert_eq!(selection.get(absent), None);
    }
    assert_eq!(fixture.loads().await, IDLE);
    // Nor does the prompt count as cached where it wasn't sent.
    assert_eq!(fixture.good("/select", &ask()).await["overlap"]["gpu"], 0);
    fixture.stop().await;
}

#[tokio::test]
async fn tokens_and_their_hashes_are_the_same_prompt() {
    let fixture = Fixture::new().await;
    let booked = fixture.good("/select_and_reserve", &asking(json!({ "selection_id": "a" }))).await;
    assert_eq!(booked["sequence_hashes"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&booked["isl_tokens"], &booked["track_prefill_tokens"]),
        (&json!(72), &json!(true))
    );
    fixture.good("/reservations/a/prefill_complete", &json!({})).await;
    fixture.send(Method::DELETE, "/reservations/a", &Value::Null).await;
    // The first block's sequence hash is its block hash; the others' can't be told from it.
    let first = &booked["sequence_hashes"][0];
    let hashes = json!({ "model_name": MODEL, "block_hashes": [first], "sequence_hashes": [first], "isl_tokens": 72 });
    let by_hash = fixture.good("/select", &hashes).await;
    assert_eq!(by_hash["worker_id"], booked["worker_id"]);
    assert_eq!(
        (&by_hash["overlap"]["gpu"], &by_hash["effective_prefill_tokens"]),
        (&json!(16), &json!(56))
    );
    let by_tokens = fixture.good("/select", &ask()).await;
    assert_eq!(
        (&by_tokens["overlap"]["gpu"], &by_tokens["effective_prefill_tokens"]),
        (&json!(64), &json!(8))
    );
    // Who names sequences in a way of his own has his names back.
    let own = json!({ "model_name": MODEL, "block_hashes": [first], "sequence_hashes": [-5], "isl_tokens": 20 });
    assert_eq!(fixture.good("/select_and_reserve", &own).await["sequence_hashes"], json!([-5]));
    fixture.stop().await;
}

#[tokio::test]
async fn who_may_have_it_is_the_callers_to_say_and_every_refusal_has_its_status() {
    let fixture = Fixture::new().await;
    let pinned = |id: u64| asking(json!({ "pinned_worker": { "worker_id": id, "dp_rank": 0 } }));
    for id in [1, 2] {
        assert_eq!(fixture.good("/select", &pinned(id)).await["worker_id"], id);
        let allowed = asking(json!({ "allowed_worker_ids": [id] }));
        assert_eq!(fixture.good("/select", &allowed).await["worker_id"], id);
    }
    let nobody = asking(json!({ "allowed_worker_ids": [] }));
    let elsewhere =
        asking(json!({ "allowed_worker_ids": [1], "pinned_worker": { "worker_id": 2 } }));
    let tainted = asking(json!({ "routing_constraints": { "required_taints": ["gold"] } }));
    let unknown = json!({ "model_name": "nobody's", "token_ids": [] });
    // A header is about all of a batch.
    let batch = json!({ "requests": [ask()] });
    for (path, body) in [("/select", &ask()), ("/select/batch", &batch)] {
        let class = [("x-dynamo-meta-policy-class", "a b")];
        let refused = fixture.client.send(Method::POST, path, &class, Some(body)).await.unwrap();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}: {}", refused.text());
    }
    let endless = json!({ "model_name": MODEL, "block_hashes": [1], "sequence_hashes": [1], "isl_tokens": u64::MAX });
    for (body, refused) in [
        (endless, (400, Value::Null)),
        (unknown, (404, json!("no_such_model"))),
        (nobody, (503, json!("no_endpoints"))),
        (tainted, (503, json!("no_endpoints"))),
        (pinned(7), (503, json!("pinned_worker_unavailable"))),
        (elsewhere, (400, json!("pinned_worker_not_allowed"))),
        (json!({ "model_name": MODEL }), (400, Value::Null)),
        (asking(json!({ "colour": "red" })), (400, Value::Null)),
        (asking(json!({ "lease": "5s" })), (400, Value::Null)),
    ] {
        assert_eq!(fixture.refused("/select", &body).await, refused, "{body}");
    }
    assert_eq!(fixture.loads().await, IDLE);
    fixture.stop().await;
}

#[tokio::test]
async fn advice_waits_for_nobody_and_says_what_the_worker_carries() {
    let fixture = Fixture::routed(|settings| {
        settings.conditional_disagg.prefill_busy_threshold = Some(0.0);
    })
    .await;
    let booked = fixture
        .good("/select_and_reserve", &asking(json!({ "pinned_worker": { "worker_id": 1 } })))
        .await;
    assert_eq!(booked.get("worker_load"), None);
    let advice = asking(json!({ "advisory": true, "pinned_worker": { "worker_id": 1 } }));
    let advice = fixture.good("/select", &advice).await;
    let load = json!({ "active_prefill_tokens": 72, "prefill_token_capacity": 10_000_000, "prefill_busy": true });
    assert_eq!(advice["worker_load"], load);
    let refused =
        fixture.refused("/select_and_reserve", &asking(json!({ "advisory": true }))).await;
    assert_eq!(refused.0, 400);
    fixture.stop().await;
}

#[tokio::test]
async fn what_isnt_heeded_is_named_and_the_decision_is_told_whole_to_who_wants_it() {
    let fixture = Fixture::new().await;
    let more = json!({
        "receipt": true,
        "router_config_override": { "overlap_score_credit": 0.5, "track_prefill_tokens": false },
        "session_context": { "session_id": "s", "agent_headers": { "a": "b" } },
    });
    let booked = fixture.good("/select_and_reserve", &asking(more)).await;
    let ignored =
        json!(["session_context.agent_headers", "router_config_override.overlap_score_credit"]);
    assert_eq!(booked["ignored"], ignored);
    assert_eq!(booked["track_prefill_tokens"], false);
    let receipt = &booked["receipt"];
    assert_eq!(
        (&receipt["request_id"], &receipt["worker_id"]),
        (&booked["selection_id"], &booked["worker_id"])
    );
    assert_eq!(receipt["policy"]["name"], "default");
    let worker = booked["worker_id"].as_u64().unwrap() as usize;
    assert_eq!(fixture.loads().await[worker - 1], (0, 5, 1));
    fixture.stop().await;
}

#[tokio::test]
async fn those_of_a_batch_see_each_other_and_none_suffers_from_anothers_mistake() {
    let fixture = Fixture::new().await;
    let prompt = |first: u32| json!({ "model_name": MODEL, "token_ids": (first..first + 64).collect::<Vec<_>>() });
    let requests =
        json!({ "requests": [prompt(0), { "model_name": 3 }, prompt(1_000), prompt(2_000)] });
    let answer = fixture.good("/select_and_reserve/batch", &requests).await;
    let results = answer["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 400, 200, 200]);
    assert!(results[1]["error"]["error"].as_str().unwrap().contains("model_name"));
    let loads = fixture.loads().await;
    assert_eq!(loads.iter().map(|load| load.2).sum::<u64>(), 3);
    assert!(loads.iter().all(|load| load.2 >= 1), "none got all: {loads:?}");
    let unbooked = fixture.good("/select/batch", &requests).await;
    assert_eq!(unbooked["results"].as_array().unwrap().len(), 4);
    assert_eq!(fixture.loads().await, loads);
    for bad in [json!({ "requests": [] }), json!({}), json!({ "requests": 3 }), json!([])] {
        assert_eq!(fixture.refused("/select/batch", &bad).await.0, 400);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_session_stays_with_its_worker_while_it_reserves_and_is_told_so_where_it_only_asks() {
    let fixture =
        Fixture::routed(|settings| settings.router_session_affinity_ttl_secs = Some(60)).await;
    let of = |id: &str, session: &str| {
        asking(json!({ "selection_id": id, "session_context": { "session_id": session } }))
    };
    let first = fixture.good("/select_and_reserve", &of("a", "s")).await["worker_id"].clone();
    // It is the busier one by now.
    for id in ["b", "c"] {
        assert_eq!(fixture.good("/select_and_reserve", &of(id, "s")).await["worker_id"], first);
    }
    assert_ne!(fixture.good("/select", &of("d", "another")).await["worker_id"], first);
    assert_eq!(fixture.good("/select", &of("e", "s")).await["worker_id"], first);
    let elsewhere = if first == 1 { 2 } else { 1 };
    let torn = asking(json!({ "session_id": "s", "pinned_worker": { "worker_id": elsewhere } }));
    let refused = fixture.refused("/select_and_reserve", &torn).await;
    assert_eq!(refused, (409, json!("session_affinity_conflict")));
    fixture.stop().await;
}
