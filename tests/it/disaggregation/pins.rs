//! Requests that name the workers, and ranks that reach the engines.

use std::collections::BTreeSet;

use http::StatusCode;

use super::*;

/// A prefill worker with ranks 8 to 15, and a decode worker with ranks 0 to 3, among others.
async fn rig(protocol: MockProtocol) -> Result<Rig> {
    let mut plan = plan(protocol, &[Prefill, Decode, Prefill, Decode]);
    plan.worker_keys[0] += ", data_parallel_start_rank: 8, data_parallel_size: 8";
    plan.worker_keys[1] += ", data_parallel_size: 4";
    plan.start().await
}

fn rank_of(rig: &Rig, engine: usize) -> Result<Option<u32>> {
    let last = rig.engines[engine].last_request().context("it was asked")?;
    let ranks: Vec<_> = last.values("x-data-parallel-rank").map(str::to_owned).collect();
    assert!(ranks.len() <= 1, "{ranks:?}");
    Ok(ranks.first().map(|rank| rank.parse()).transpose()?)
}

async fn send(rig: &Rig, headers: &[(&str, &str)], nvext: Value) -> Result<Answer> {
    let body =
        json!({ "model": MODEL, "prompt": "one two three", "max_tokens": 2, "nvext": nvext });
    Ok(rig.public.send(Method::POST, "/v1/completions", headers, Some(&body)).await?)
}

#[tokio::test]
async fn ranks_reach_the_engines_of_both_legs() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = rig(protocol).await?;
        let by_header = [
            ("x-dynamo-prefill-instance-id", "1"),
            ("x-dynamo-prefill-dp-rank", "9"),
            ("x-worker-instance-id", "2"),
            ("x-dynamo-dp-rank", "3"),
        ];
        let by_body = json!({
            "prefill_worker_id": 1, "prefill_dp_rank": 9, "decode_worker_id": 2, "dp_rank": 3,
        });
        for (headers, nvext) in [(&by_header[..], json!({})), (&[], by_body)] {
            let answer = send(&rig, headers, nvext).await?;
            assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
            assert_eq!((answer.worker(), prefill_worker(&answer)), ("2/3", "1/9"), "{protocol:?}");
            assert_eq!((rank_of(&rig, 0)?, rank_of(&rig, 1)?), (Some(9), Some(3)));
        }
        if protocol == Sglang {
            for (engine, rank) in [(0, 9), (1, 3)] {
                let body = rig.engines[engine].last_request().context("it was asked")?.body;
                let body: Value = serde_json::from_slice(&body)?;
                assert_eq!(body["routed_dp_rank"], rank);
                assert_eq!(body["disagg_prefill_dp_rank"], 9);
                assert_eq!(body["bootstrap_room"].as_u64().map(|room| room % 16), Some(9));
            }
        }
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn only_ranks_that_there_are_are_offered() -> Result<()> {
    let rig = rig(Vllm).await?;
    let pin = ("x-dynamo-prefill-instance-id", "1");
    // Absent is any, and so is what stands for it; zero is not.
    for absent in [&[pin][..], &[pin, ("x-dynamo-prefill-dp-rank", "4294967295")]] {
        for _ in 0..5 {
            let answer = send(&rig, absent, json!({})).await?;
            assert!(answer.is_good(), "{}", answer.text());
            let rank = rank_of(&rig, 0)?;
            assert!(rank.is_some_and(|rank| (8..16).contains(&rank)), "{rank:?}");
        }
    }
    for bad in ["0", "7", "16"] {
        let answer = send(&rig, &[pin, ("x-dynamo-prefill-dp-rank", bad)], json!({})).await?;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}: {}", answer.text());
        assert_eq!(answer.json()["error"]["param"], "x-dynamo-prefill-instance-id");
    }
    let alone = send(&rig, &[("x-dynamo-prefill-dp-rank", "9")], json!({})).await?;
    assert_eq!(alone.status, StatusCode::BAD_REQUEST, "{}", alone.text());
    assert_eq!(alone.json()["error"]["param"], "x-dynamo-prefill-dp-rank");
    rig.wait_for_idle().await?;
    assert_eq!(rig.engines[2].stats().received, 0, "pins hold");
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_named_for_either_does_what_its_role_is() -> Result<()> {
    let rig = rig(Vllm).await?;
    for (id, worker, prefill) in [(3, None, Some("3")), (4, Some("4"), None)] {
        for _ in 0..4 {
            let answer = send(&rig, &[], json!({ "backend_instance_id": id })).await?;
            assert!(answer.is_good(), "{}", answer.text());
            assert!(worker.is_none_or(|worker| answer.worker() == worker), "{}", answer.worker());
            assert!(prefill.is_none_or(|prefill| prefill_worker(&answer) == prefill));
        }
    }
    let ranked = send(&rig, &[], json!({ "backend_instance_id": 1, "dp_rank": 12 })).await?;
    assert_eq!(prefill_worker(&ranked), "1/12", "{}", ranked.text());
    let stranger = send(&rig, &[], json!({ "backend_instance_id": 77 })).await?;
    assert_eq!(stranger.status, StatusCode::BAD_REQUEST, "{}", stranger.text());
    assert_eq!(stranger.json()["error"]["param"], "nvext.backend_instance_id");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pinned_leg_stays_and_the_other_may_move() -> Result<()> {
    let rig = rig(Vllm).await?;
    rig.engines[2]
        .control()
        .update(|control| control.cut_before_headers = Some(Default::default()))?;
    let pinned = send(&rig, &[("x-dynamo-prefill-instance-id", "3")], json!({})).await?;
    assert_eq!(pinned.status, StatusCode::BAD_GATEWAY, "{}", pinned.text());
    let moved = send(&rig, &[("x-worker-instance-id", "4")], json!({})).await?;
    assert_eq!((moved.is_good(), moved.worker()), (true, "4"), "{}", moved.text());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn requests_of_a_session_are_answered_by_one_worker() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Decode, Prefill, Decode]);
        plan.more += "router: { router_session_affinity_ttl_secs: 60 }\n";
        let rig = plan.start().await?;
        let mut answered = BTreeSet::new();
        for _ in 0..24 {
            answered.insert(send(&rig, &[], json!({})).await?.worker().to_owned());
        }
        assert_eq!(answered.len(), 2, "{protocol:?}: without a session, either answers");
        let mut of_session = BTreeSet::new();
        for _ in 0..12 {
            let answer = send(&rig, &[("x-dynamo-session-id", "s")], json!({})).await?;
            assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
            of_session.insert(answer.worker().to_owned());
        }
        assert_eq!(of_session.len(), 1, "{protocol:?}: {of_session:?}");
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}
