//! A request's load: booked with the choice, given back on every way out.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pointsman::load_client::Ask;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_are_spread_evenly_and_leave_no_load() -> Result<()> {
    let mut plan = Plan::new(4).with_least_busy()?;
    for engine in &mut plan.engines {
        engine.decode_ms = Some(20.0);
    }
    let rig = plan.start().await?;
    let mut running = JoinSet::new();
    for n in 0..1_000 {
        let (client, mut ask) = (rig.public.clone(), Ask::new(MODEL, format!("question {n}")));
        ask.max_tokens = 64;
        running.spawn(async move { client.ask(&ask).await });
    }
    let mut by_worker = std::collections::BTreeMap::new();
    while let Some(answer) = running.join_next().await {
        let answer = answer??;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        *by_worker.entry(answer.worker().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(by_worker.len(), 4);
    for (worker, count) in by_worker {
        assert!((190..=310).contains(&count), "worker {worker} got {count}");
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

/// A request that is sent and then left alone.
async fn abandon(rig: &Rig, path: &str, body: &Value, after: Duration) -> Result<()> {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("http://{}{path}", rig.server.public_addr()))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    // The connection goes with the future and the client.
    let _ = tokio::time::timeout(after, async {
        let answer = client.request(request).await?;
        answer.into_body().collect().await?;
        anyhow::Ok(())
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_request_returns_its_load_and_stops_the_engine() -> Result<()> {
    let mut plan = Plan::new(2).with_least_busy()?;
    for engine in &mut plan.engines {
        // Nothing ends by itself while the test looks.
        engine.prefill_ms = Some(50.0);
        engine.decode_ms = Some(1_000.0);
        engine.output_tokens = 1_000;
    }
    let rig = plan.start().await?;
    let chat = |stream| json!({ "model": MODEL, "stream": stream, "max_tokens": 500, "messages": [{ "role": "user", "content": "hi" }] });
    let cases = [
        ("streamed chat, mid-stream", "/v1/chat/completions", chat(true), 300),
        ("plain chat, before any byte", "/v1/chat/completions", chat(false), 300),
        ("streamed chat, before its first token", "/v1/chat/completions", chat(true), 20),
        (
            "streamed completion",
            "/v1/completions",
            json!({ "model": MODEL, "stream": true, "prompt": "hi", "max_tokens": 500 }),
            300,
        ),
    ];
    for (what, path, body, after) in cases {
        let all = (0..50).map(|_| abandon(&rig, path, &body, Duration::from_millis(after)));
        futures_util::future::try_join_all(all).await?;
        rig.wait_for_idle().await.context(what)?;
        rig.wait_for(&format!("the engines to stop: {what}"), async || {
            let stats = rig.engines.iter().map(|engine| engine.stats());
            Ok(stats.map(|stats| stats.running + stats.waiting).sum::<u64>() == 0)
        })
        .await?;
    }
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn load_is_visible_while_a_request_runs_and_prefill_ends_with_the_first_token() -> Result<()>
{
    let mut plan = Plan::new(1).with_least_busy()?;
    plan.engines[0].prefill_ms = Some(300.0);
    plan.engines[0].decode_ms = Some(100.0);
    let rig = plan.start().await?;
    let mut ask = Ask::new(MODEL, "x".repeat(640));
    ask.max_tokens = 10;
    let client = rig.public.clone();
    let running = tokio::task::JoinSet::from_iter([async move { client.ask(&ask).await }]);
    rig.wait_for("prefill tokens to be booked", async || {
        let row = &rig.load_rows().await?[0];
        Ok(row["active_requests"] == 1
            && row["active_prefill_tokens"].as_u64() > Some(100)
            && row["active_decode_blocks"].as_u64() > Some(5))
    })
    .await?;
    rig.wait_for("prefill to be given back before the end", async || {
        let row = &rig.load_rows().await?[0];
        Ok(row["active_requests"] == 1 && row["active_prefill_tokens"] == 0)
    })
    .await?;
    let answers = running.join_all().await;
    assert!(answers.into_iter().next().context("no answer")??.is_good());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_cannot_be_reached_costs_no_request() -> Result<()> {
    let mut plan = Plan::new(2).with_builtin("round-robin");
    // Probes must not be what saves the requests.
    plan.more = "health: { interval: 1h, timeout: 1s }\n".to_owned();
    let mut rig = plan.start().await?;
    rig.engines.remove(0).shutdown().await;
    for n in 0..10 {
        let answer = rig.public.ask(&Ask::new(MODEL, format!("question {n}"))).await?;
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        assert_eq!(answer.worker(), "2");
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_stream_without_its_end_is_an_error_never_a_success() -> Result<()> {
    use pointsman::mock_engine::{FaultKind, StreamFault};
    let rig = Plan::new(1).start().await?;
    for kind in [FaultKind::End, FaultKind::Reset, FaultKind::Close] {
        rig.engines[0]
            .control()
            .update(|control| control.stream = Some(StreamFault::new(kind, 3)))?;
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert_eq!(answer.status, StatusCode::OK, "the head was out already");
        assert!(!answer.whole, "{kind:?}: no terminator must be made up: {}", answer.text());
        assert!(answer.text().contains(r#""error""#), "{kind:?}: {}", answer.text());
        rig.wait_for_idle().await?;
    }
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_silent_stream_ends_by_the_idle_timeout() -> Result<()> {
    use pointsman::mock_engine::{FaultKind, StreamFault};
    let mut plan = Plan::new(1);
    plan.more += "proxy: { idle_timeout: 300ms }\n";
    let rig = plan.start().await?;
    rig.engines[0]
        .control()
        .update(|control| control.stream = Some(StreamFault::new(FaultKind::Hang, 2)))?;
    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
    assert!(!answer.whole && answer.text().contains(r#""error""#), "{}", answer.text());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn probes_never_touch_load() -> Result<()> {
    let mut plan = Plan::new(3);
    for engine in &mut plan.engines {
        engine.decode_ms = Some(50.0);
    }
    plan.more = "health: { interval: 20ms, timeout: 1s }\n".to_owned();
    let rig = plan.start().await?;
    let mut running = JoinSet::new();
    for n in 0..10 {
        let (client, mut ask) = (rig.public.clone(), Ask::new(MODEL, format!("question {n}")));
        ask.max_tokens = 40;
        ask.headers.push(("x-worker-instance-id", "1".to_owned()));
        running.spawn(async move { client.ask(&ask).await });
    }
    rig.wait_for("ten streams on worker 1", async || Ok(rig.active_requests().await? == 10))
        .await?;
    let probes = || rig.engines[1].stats().paths.get("/health").copied().unwrap_or(0);
    let before = probes();
    rig.wait_for("twenty more probes", async || {
        assert_eq!(rig.load_rows().await?[0]["active_requests"], 10);
        Ok(probes() >= before + 20)
    })
    .await?;
    for answer in running.join_all().await {
        assert!(answer?.is_good());
    }
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_is_cut_off_and_its_load_returned() -> Result<()> {
    use tokio::io::AsyncWriteExt;

    let mut plan = Plan::new(1).with_least_busy()?;
    plan.engines[0].max_model_len = 10_000_000;
    plan.more += "proxy: { client_timeout: 500ms }\n";
    let rig = plan.start().await?;
    // An answer far beyond what the sockets' buffers take.
    let body = json!({ "model": MODEL, "stream": true, "max_tokens": 200_000,
        "messages": [{ "role": "user", "content": "hi" }] })
    .to_string();
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    let mut stream = socket.connect(rig.server.public_addr()).await?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    rig.wait_for("the request to run", async || Ok(rig.active_requests().await? == 1)).await?;
    rig.wait_for_idle().await?;
    rig.wait_for("the engine to be left alone", async || Ok(rig.engines[0].stats().running == 0))
        .await?;
    drop(stream);
    rig.stop().await;
    Ok(())
}
