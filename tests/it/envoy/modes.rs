//! Bodies and answers in each mode.

use anyhow::{Context, Result, ensure};
use http::Method;
use pointsman::load_client::Ask;
use pointsman_tests::envoy::{Envoy, Sample};
use pointsman_tests::rig::MODEL;
use serde_json::json;

use super::{envoy, is_from_the_worker, plan, until_ready};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_any_size_arrive_as_they_were_and_streams_come_back_whole_in_every_mode()
-> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let mut plan = plan()?;
    for engine in &mut plan.engines {
        (engine.max_model_len, engine.total_kv_blocks) = (4_000_000, 1 << 20);
    }
    let rig = plan.start().await?;
    let picker = rig.server.epp_addr().context("it is served")?;
    // What the engine itself streams, for a prompt.
    let direct = rig.public.ask(&Ask::new(MODEL, "question")).await?;
    for mode in ["FULL_DUPLEX_STREAMED", "STREAMED", "BUFFERED"] {
        let sample = Sample::asking(picker)?.in_mode(mode)?;
        let envoy = Envoy::start(&program, &sample).await?;
        until_ready(&envoy).await?;
        for size in [1_000_usize, 220_000, 2_000_000] {
            let text = "so it goes. ".repeat(size / 12);
            let body = json!({ "model": MODEL, "max_tokens": 4,
                "messages": [{ "role": "user", "content": text }] });
            let sent = bytes::Bytes::from(body.to_string());
            let path = "/v1/chat/completions";
            let answer = envoy.client.send_bytes(Method::POST, path, &[], sent.clone()).await?;
            is_from_the_worker(&answer).with_context(|| format!("{mode} {size}"))?;
            let worker: usize = answer.worker().parse()?;
            let got = rig.engines[worker - 1].last_request().context("a request")?;
            ensure!(got.body == sent, "{mode}: {size} bytes became {}", got.body.len());
        }
        let streamed = envoy.client.ask(&Ask::new(MODEL, "question")).await?;
        is_from_the_worker(&streamed).with_context(|| mode.to_owned())?;
        let events =
            |answer: &pointsman::load_client::Answer| answer.text().matches("data: ").count();
        assert_eq!(events(&streamed), events(&direct), "{mode}: {}", streamed.text());
        ensure!(envoy.client.get("/v1/models").await?.is_good(), "{mode}: without a body");
        rig.wait_for_idle().await?;
        envoy.stop().await?;
    }
    rig.stop().await;
    Ok(())
}
