//! Legs that fail, and clients that leave.

use std::time::Duration;

use http::StatusCode;
use pointsman::mock_engine::{Cut, FaultKind, Refuse, StreamFault};

use super::*;

/// The type of an error.
fn kind(answer: &Answer) -> Value {
    answer.json()["error"]["type"].clone()
}

#[tokio::test]
async fn a_client_that_leaves_during_the_prefill_leaves_no_load_at_either_worker() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Decode]);
        plan.engines[0].prefill_ms = Some(600_000.0);
        let rig = plan.start().await?;
        for stream in [true, false] {
            let running = sent(&rig, ask(stream));
            rig.wait_for("the prefill", async || Ok(rig.engines[0].stats().running == 1)).await?;
            let rows = rig.load_rows().await?;
            assert!(rows.iter().all(|row| row["active_requests"] == 1), "{rows:?}");
            assert!(rows.iter().any(|row| row["active_prefill_tokens"] != 0), "{rows:?}");
            drop(running);
            let watch = pointsman_core::clock::Stopwatch::start();
            rig.wait_for_idle().await?;
            eprintln!("{protocol:?}: both loads are zero after {:?}", watch.elapsed());
            rig.wait_for("the engine to notice", async || Ok(rig.engines[0].stats().running == 0))
                .await?;
        }
        let labels = format!("model=\"{MODEL}\",outcome=\"aborted\",role=\"prefill\"");
        assert_eq!(counted(&rig, &format!("pointsman_legs_total{{{labels}}}")).await?, 2.0);
        assert_eq!(rig.engines[0].stats().kept, 0);
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_leaves_during_the_decode_leaves_no_load_either() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Decode]);
        plan.engines[1].decode_ms = Some(50.0);
        let rig = plan.start().await?;
        let mut long = ask(true);
        long.max_tokens = 10_000;
        let running = sent(&rig, long);
        rig.wait_for("tokens", async || Ok(rig.engines[1].stats().generated_tokens > 2)).await?;
        // The prefill is over, and its load is gone while the decode goes on.
        rig.wait_for("the prefill's end", async || {
            let rows = rig.load_rows().await?;
            let of = |worker: u64| rows.iter().find(|row| row["worker_id"] == worker);
            let [prefill, decode] =
                [of(1), of(2)].map(|row| row.map(|row| &row["active_requests"]));
            Ok(prefill == Some(&json!(0)) && decode == Some(&json!(1)))
        })
        .await?;
        drop(running);
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_prefill_worker_that_dies_in_the_middle_is_replaced_by_another() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Prefill, Decode]);
        plan.engines[0].prefill_ms = Some(600_000.0);
        let mut rig = plan.start().await?;
        let busy = load(&rig, Role::Prefill, 2, 1_000_000).await?;
        let running = sent(&rig, ask(true));
        rig.wait_for("the prefill", async || Ok(rig.engines[0].stats().running == 1)).await?;
        rig.engines.remove(0).shutdown().await;
        let answer = answer_to(running).await?;
        assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
        assert_eq!((answer.worker(), prefill_worker(&answer)), ("3", "2"), "{protocol:?}");
        drop(busy);
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_prefill_that_nobody_else_can_do_ends_in_a_typed_error() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode]).start().await?;
        let control = rig.engines[0].control();
        control.update(|control| control.cut_before_headers = Some(Cut::default()))?;
        let answer = rig.public.ask(&ask(true)).await?;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{protocol:?}: {}", answer.text());
        assert_eq!(kind(&answer), "upstream_closed");
        rig.wait_for_idle().await?;
        // What the request itself is at fault for, its client is told in the engine's words.
        control.update(|control| {
            control.cut_before_headers = None;
            control.refuse = Some(Refuse::status(400));
        })?;
        let answer = rig.public.ask(&ask(true)).await?;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{protocol:?}: {}", answer.text());
        assert_eq!(prefill_worker(&answer), "1");
        rig.wait_for_idle().await?;
        control.reset();
        assert!(rig.public.ask(&ask(true)).await?.is_good(), "{protocol:?}");
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_decode_worker_that_dies_gets_a_prompt_computed_anew_for_the_next() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode, Decode]).start().await?;
        let busy = load(&rig, Role::Decode, 3, 1_000_000).await?;
        let control = rig.engines[1].control();
        control.update(|control| control.cut_before_headers = Some(Cut::default()))?;
        let answer = rig.public.ask(&ask(true)).await?;
        assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
        assert_eq!((answer.worker(), prefill_worker(&answer)), ("3", "1"));
        assert_eq!(
            rig.engines[0].stats().received,
            2,
            "{protocol:?}: it may have fetched the blocks"
        );
        drop(busy);
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    // One that says that it has too much to do has fetched nothing.
    let rig = plan(Vllm, &[Prefill, Decode, Decode]).start().await?;
    let busy = load(&rig, Role::Decode, 3, 1_000_000).await?;
    rig.engines[1].control().update(|control| control.refuse = Some(Refuse::status(503)))?;
    let answer = rig.public.ask(&ask(true)).await?;
    assert_eq!((answer.is_good(), answer.worker()), (true, "3"), "{}", answer.text());
    assert_eq!(rig.engines[0].stats().received, 1);
    drop(busy);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_decode_that_nobody_else_can_do_ends_in_a_typed_error() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode]).start().await?;
        rig.engines[1]
            .control()
            .update(|control| control.cut_before_headers = Some(Cut::default()))?;
        let answer = rig.public.ask(&ask(false)).await?;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{protocol:?}: {}", answer.text());
        assert_eq!(kind(&answer), "upstream_closed");
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_prefill_that_fails_beside_its_answer_ends_the_stream_with_an_error() -> Result<()> {
    let mut plan = plan(Sglang, &[Prefill, Decode]);
    plan.engines[1].decode_ms = Some(20.0);
    let mut rig = plan.start().await?;
    // It hands the prompt over, and then never ends its own answer.
    let hang = StreamFault::new(FaultKind::Hang, 0);
    rig.engines[0].control().update(|control| control.stream = Some(hang))?;
    let mut long = ask(true);
    long.max_tokens = 2_000;
    let running = sent(&rig, long);
    rig.wait_for("tokens", async || Ok(rig.engines[1].stats().generated_tokens > 5)).await?;
    rig.engines.remove(0).shutdown().await;
    let answer = answer_to(running).await?;
    let text = answer.text();
    assert!(text.contains("one") && text.contains("the prefill worker failed"), "{text}");
    assert!(!answer.whole && text.contains("upstream_error"), "{text}");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_prefill_that_keeps_nothing_is_no_reason_to_refuse() -> Result<()> {
    // An engine that was started without a connector answers a prefill like any request.
    let mut plan = plan(Vllm, &[Prefill, Decode]);
    plan.engines[0].role = MockRole::Aggregated;
    plan.engines[1].computes_prompts = true;
    let rig = plan.start().await?;
    let answer = rig.public.ask(&ask(true)).await?;
    assert!(answer.is_good(), "{}", answer.text());
    let series = format!("pointsman_handovers_total{{model=\"{MODEL}\",outcome=\"missing\"}}");
    assert_eq!(counted(&rig, &series).await?, 1.0);
    let body = rig.engines[1].last_request().context("it was asked")?.body;
    assert!(!String::from_utf8_lossy(&body).contains("kv_transfer_params"));
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_silent_prefill_costs_its_time_and_no_more() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Prefill, Decode]);
        plan.more += "proxy: { first_byte_timeout: 300ms }\n";
        let rig = plan.start().await?;
        for engine in &rig.engines[..2] {
            engine.control().update(|control| control.hang_before_headers = true)?;
        }
        let answer = rig.public.ask(&ask(true)).await?;
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{protocol:?}: {}", answer.text());
        assert_eq!(kind(&answer), "upstream_timeout");
        assert!(answer.took < Duration::from_secs(20));
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}
