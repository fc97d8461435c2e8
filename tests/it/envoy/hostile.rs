//! Hostile guests behind the picker, clients that send half a body, and policies that change all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pointsman::load_client::{Ask, LoadClient};
use pointsman_tests::envoy::{Envoy, Sample};
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{envoy, is_from_the_worker, plan, start, until_ready};
use crate::containment::{LONG, SCORE_LOAD, at_long_prompts};
use crate::guests::guest;

fn with_picker(mut plan: Plan) -> Plan {
    plan.more.push_str("epp: 127.0.0.1:0\n");
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_that_loop_and_trap_cost_no_request_through_the_gateway() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    for what in ["(call $loop-for-ever)", "unreachable"] {
        let component = at_long_prompts("score", SCORE_LOAD, what);
        let mut plan = with_picker(Plan::new(2).with_policy("guest", component, "{}"));
        let limits = "parameters: {}, limits: { deadline: 20s }";
        plan.selection = plan.selection.replace("parameters: {}", limits);
        let (rig, envoy) = start(&program, plan).await?;
        for number in 0..6 {
            let length = if number % 2 == 0 { LONG } else { 10 };
            let answer = envoy.client.ask(&Ask::new(MODEL, "x".repeat(length))).await?;
            is_from_the_worker(&answer).with_context(|| format!("{what} {number}"))?;
        }
        rig.wait_for_idle().await?;
        envoy.stop().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classifier_that_rejects_is_heeded_and_one_that_holds_lets_those_go_who_leave()
-> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    for component in ["classifier-rejects", "classifier-holds-everything"] {
        let mut plan = with_picker(Plan::new(2));
        plan.policies.push(("gate.wasm".to_owned(), guest(component)));
        plan.more.push_str("request_classifier: { type: gate }\n");
        let (rig, envoy) = start(&program, plan).await?;
        if component == "classifier-rejects" {
            let refused = envoy.client.ask(&Ask::new(MODEL, "x".repeat(4_000))).await?;
            assert_eq!(refused.status.as_u16(), 503, "{}", refused.text());
            assert_eq!(refused.json()["error"]["type"], "request_classifier_rejected");
            is_from_the_worker(&envoy.client.ask(&Ask::new(MODEL, "short")).await?)?;
        } else {
            let held = async || {
                let policies = rig.admin_json("/v1/policies").await?;
                let partitions = &policies["request_classifier"]["partitions"];
                anyhow::Ok(partitions[0]["held_now"].as_u64().unwrap_or_default())
            };
            let mut asked = tokio::task::JoinSet::new();
            for number in 0..3 {
                let client = envoy.client.clone();
                let ask = Ask::new(MODEL, format!("question {number}"));
                asked.spawn(async move { client.ask(&ask).await });
            }
            rig.wait_for("them to be held", async || Ok(held().await? == 3)).await?;
            asked.shutdown().await;
            rig.wait_for("them to be let go", async || Ok(held().await? == 0)).await?;
        }
        rig.wait_for_idle().await?;
        let streams = "\npointsman_epp_streams 0\n";
        rig.wait_for("the streams to end", async || {
            Ok(rig.admin.get("/metrics").await?.text().contains(streams))
        })
        .await?;
        envoy.stop().await?;
        rig.stop().await;
    }
    Ok(())
}

/// What comes back for half a body, up to the end of the connection.
async fn half_a_body(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let half = format!("{{\"model\":\"{MODEL}\",\"messages\":[");
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: models\r\n\
                content-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(format!("{head}{half}").as_bytes()).await?;
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\r\n\r\n") {
        if stream.read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_answers_by_itself_gets_through_while_the_picker_waits_for_a_body()
-> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let rig = plan()?.start().await?;
    let picker = rig.server.epp_addr().context("it is served")?;
    let sample =
        Sample::asking(picker)?.with("stream_idle_timeout: 600s", "stream_idle_timeout: 1s")?;
    let envoy = Envoy::start(&program, &sample).await?;
    until_ready(&envoy).await?;
    let answer = tokio::time::timeout(Duration::from_secs(20), half_a_body(envoy.address)).await;
    let answer = answer.context("the gateway's answer is kept back")??;
    ensure!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    rig.wait_for_idle().await?;
    rig.wait_for("the stream to end", async || {
        let metrics = rig.admin.get("/metrics").await?.text();
        Ok(metrics.contains("\npointsman_epp_streams 0\n"))
    })
    .await?;
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}

/// Asks until told to stop. Returns how many were answered.
async fn asks(client: LoadClient, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let ask = Ask::new(MODEL, format!("question {answered}"));
        is_from_the_worker(&client.ask(&ask).await?)?;
        answered += 1;
    }
    Ok(answered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_new_versions_costs_no_request_and_leaves_nothing_booked() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let (rig, envoy) = start(&program, plan()?).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        clients.spawn(asks(envoy.client.clone(), stop.clone()));
    }
    let versions = [std::fs::read(guests::least_busy())?, std::fs::read(guests::least_prefill())?];
    for number in 0..20 {
        rig.write_policy("least-busy", &versions[number % 2])?;
        // Some are refused, since the parameters are another's; that is part of the storm.
        rig.admin.post("/v1/policies/reload", &serde_json::json!({})).await?;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(answered) = clients.join_next().await {
        ensure!(answered?? > 0, "a client got no answer");
    }
    rig.wait_for_idle().await?;
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}
