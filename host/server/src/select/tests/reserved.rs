//! Promises of reservations.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_reservation_is_load_until_it_is_freed_step_by_step() {
    let fixture = Fixture::routed(|settings| settings.router_track_output_blocks = true).await;
    let more = json!({ "selection_id": "a/b ü", "pinned_worker": { "worker_id": 1 } });
    let booked = fixture.good("/select_and_reserve", &asking(more)).await;
    assert_eq!((&booked["selection_id"], &booked["lease_ms"]), (&json!("a/b ü"), &json!(300_000)));
    assert_eq!(fixture.loads().await, [(72, 5, 1), (0, 0, 0)]);
    let at = "/reservations/a%2Fb%20%C3%BC";
    let step = async |step: &str, body: Value| fixture.good(&format!("{at}/{step}"), &body).await;
    assert_eq!(step("prefill_complete", json!({})).await, json!({ "status": "ok" }));
    assert_eq!(step("prefill_complete", Value::Null).await, json!({ "status": "ok" }), "again");
    assert_eq!(fixture.loads().await[0], (0, 5, 1));
    step("output_block", Value::Null).await;
    step("output_block", json!({ "decay_fraction": 0.5 })).await;
    let shown = fixture.get(at).await;
    assert_eq!((&shown["output_blocks"], &shown["waits_for_prefill"]), (&json!(2), &json!(false)));
    assert_eq!((&shown["isl_tokens"], &shown["worker_id"]), (&json!(72), &json!(1)));
    for bad in [json!({ "decay_fraction": 1.5 }), json!({ "decay": 1 }), json!([])] {
        assert_eq!(fixture.refused(&format!("{at}/output_block"), &bad).await.0, 400);
    }
    let free = async |how: &str| {
        fixture.send(Method::DELETE, &format!("{at}{how}"), &Value::Null).await.status.as_u16()
    };
    assert_eq!((free("?outcome=lost").await, free("?output_tokens=many").await), (400, 400));
    assert_eq!(free("?outcome=completed&output_tokens=40").await, 200);
    assert_eq!(fixture.loads().await, IDLE);
    assert_eq!(free("").await, 404);
    for step in ["prefill_complete", "output_block", "heartbeat"] {
        let refused = fixture.refused(&format!("{at}/{step}"), &json!({})).await;
        assert_eq!(refused, (404, json!("no_such_reservation")));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_selection_is_booked_once_by_its_id_as_it_was_selected() {
    let fixture = Fixture::new().await;
    let selected = fixture.good("/select", &asking(json!({ "selection_id": "s" }))).await;
    let elsewhere = json!({ "selection_id": "s", "model_name": "another" });
    assert_eq!(
        fixture.refused("/reservations", &elsewhere).await,
        (404, json!("no_such_selection"))
    );
    let booking = json!({ "selection_id": "s", "model_name": MODEL });
    let answer = fixture.post("/reservations", &booking).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    let booked = answer.json();
    for field in ["worker_id", "dp_rank", "endpoint", "effective_prefill_tokens", "selection_id"] {
        assert_eq!(booked[field], selected[field], "{field}");
    }
    let loads = fixture.loads().await;
    assert_eq!(loads.iter().map(|load| load.0).sum::<u64>(), 72);
    // It counts as cached where it went.
    assert_eq!(
        fixture.good("/overlap_scores", &ask()).await["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["device_blocks"].as_u64().unwrap())
            .sum::<u64>(),
        4
    );
    assert_eq!(
        fixture.refused("/reservations", &booking).await,
        (409, json!("duplicate_reservation"))
    );
    assert_eq!(fixture.refused("/select", &asking(json!({ "selection_id": "s" }))).await.0, 409);
    fixture.send(Method::DELETE, "/reservations/s", &Value::Null).await;
    assert_eq!(fixture.refused("/reservations", &booking).await, (404, json!("no_such_selection")));
    assert_eq!(fixture.loads().await, IDLE);
    fixture.stop().await;
}

#[tokio::test]
async fn a_selection_is_void_once_its_worker_has_begun_anew_or_its_time_is_over() {
    let fixture = Fixture::new().await;
    let booking = |id: &str| json!({ "selection_id": id, "model_name": MODEL });
    fixture
        .good(
            "/select",
            &asking(json!({ "selection_id": "a", "pinned_worker": { "worker_id": 1 } })),
        )
        .await;
    fixture.send(Method::DELETE, "/workers/1?force=true", &Value::Null).await;
    fixture
        .good(
            "/workers",
            &json!({ "worker_id": 1, "model_name": MODEL, "endpoint": "http://127.0.0.1:9" }),
        )
        .await;
    let refused = fixture.refused("/reservations", &booking("a")).await;
    assert_eq!(refused, (404, json!("no_such_worker")));
    fixture.good("/select", &asking(json!({ "selection_id": "b" }))).await;
    let now_ms = fixture.app().dispatcher.clock().now_ms();
    fixture.app().selections.expire(now_ms + 120_001);
    assert_eq!(fixture.refused("/reservations", &booking("b")).await.0, 404);
    assert!(
        fixture
            .app()
            .metrics
            .encode()
            .contains("pointsman_kept_selections_dropped_total{reason=\"expired\"} 1")
    );
    assert_eq!(fixture.loads().await, IDLE);
    fixture.stop().await;
}

#[tokio::test]
async fn what_its_owner_has_decided_is_booked_as_he_says() {
    let fixture = Fixture::new().await;
    let booking = |more: Value| {
        let mut all = json!({
            "selection_id": "o", "model_name": MODEL, "worker_id": 2,
            "sequence_hashes": [1, -2, 3], "isl_tokens": 50, "effective_prefill_tokens": 18,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let too_much = booking(json!({ "effective_prefill_tokens": 51 }));
    assert_eq!(fixture.refused("/reservations", &too_much).await.0, 400);
    for (more, kind) in [
        (json!({ "worker_id": 9 }), "no_such_worker"),
        (json!({ "dp_rank": 4 }), "no_such_worker"),
        (json!({ "model_name": "another" }), "no_such_model"),
    ] {
        let refused = fixture.refused("/reservations", &booking(more)).await;
        assert_eq!(refused, (404, json!(kind)));
    }
    assert_eq!(fixture.loads().await, IDLE);
    let booked = fixture.good("/reservations", &booking(json!({ "lease": "10s" }))).await;
    assert_eq!(
        (&booked["endpoint"], &booked["lease_ms"]),
        (&json!("http://127.0.0.1:9"), &json!(10_000))
    );
    assert_eq!(fixture.loads().await, [(0, 0, 0), (18, 4, 1)]);
    assert_eq!(fixture.refused("/reservations", &booking(json!({}))).await.0, 409);
    fixture.stop().await;
}

#[tokio::test]
async fn load_is_given_back_when_nobody_speaks_of_it_for_as_long_as_its_lease() {
    let fixture = Fixture::new().await;
    let reserve = async |id: &str, lease: &str| {
        let body = asking(json!({ "selection_id": id, "lease": lease }));
        fixture.good("/select_and_reserve", &body).await["lease_ms"].as_u64().unwrap()
    };
    assert_eq!((reserve("short", "10s").await, reserve("long", "1h").await), (10_000, 3_600_000));
    reserve("kept", "10s").await;
    let before = fixture.app().dispatcher.clock().now_ms();
    let heartbeat = json!({ "selection_ids": ["kept", "nobody"] });
    // Somebody speaks of it later than of the other.
    while fixture.app().dispatcher.clock().now_ms() <= before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let renewed = fixture.good("/reservations/heartbeat", &heartbeat).await;
    assert_eq!(renewed, json!({ "renewed": 1, "missing": ["nobody"] }));
    let selections = &fixture.app().selections;
    selections.expire(before + 10_000);
    assert_eq!(selections.len(), 2, "the short one is over");
    selections.expire(before + 60_000);
    assert_eq!(selections.len(), 1, "and so is the one that was kept for a while");
    selections.expire(before + 4_000_000);
    assert_eq!(fixture.loads().await, IDLE);
    let metrics = fixture.app().metrics.encode();
    for line in ["pointsman_reservations_expired_total 3", "pointsman_reservations 0"] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}");
    }
    for bad in ["0s", "10ms", "25h", "soon"] {
        let body = asking(json!({ "lease": bad }));
        assert_eq!(fixture.refused("/select_and_reserve", &body).await.0, 400, "{bad}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn an_id_is_reserved_once_at_a_time_and_there_are_so_many_at_most() {
    let mut config = settings();
    config.select.as_mut().unwrap().max_reservations = 2;
    let fixture = Fixture::with(config).await;
    let reserve = |id: &str| asking(json!({ "selection_id": id }));
    fixture.good("/select_and_reserve", &reserve("a")).await;
    assert_eq!(
        fixture.refused("/select_and_reserve", &reserve("a")).await,
        (409, json!("duplicate_reservation"))
    );
    fixture.good("/select_and_reserve", &reserve("b")).await;
    assert_eq!(
        fixture.refused("/select_and_reserve", &reserve("c")).await,
        (503, json!("reservations_full"))
    );
    assert_eq!(fixture.loads().await.iter().map(|load| load.2).sum::<u64>(), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn a_name_by_which_nothing_could_be_freed_is_refused_before_anything_is_booked() {
    let fixture = Fixture::new().await;
    let named = json!({ "selection_id": "heartbeat" });
    let decided = json!({ "model_name": MODEL, "selection_id": "heartbeat", "worker_id": 1, "sequence_hashes": [1], "isl_tokens": 16 });
    for (path, body) in [
        ("/select", asking(named.clone())),
        ("/select_and_reserve", asking(named)),
        ("/reservations", decided),
    ] {
        let answer = fixture.post(path, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.text());
        assert!(answer.text().contains("a path of its own"), "{path}: {}", answer.text());
    }
    assert_eq!(fixture.loads().await, IDLE);
    fixture.stop().await;
}
