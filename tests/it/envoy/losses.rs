//! Clients that leave, pickers that restart, workers that are gone.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use pointsman::config::Config;
use pointsman::load_client::{Ask, LoadClient};
use pointsman::serve::Server;
use pointsman_tests::looks;
use pointsman_tests::rig::{MODEL, Rig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{envoy, is_from_the_worker, plan, start, until_ready};

/// A client that has read the beginning of a stream.
async fn reads_a_beginning(address: SocketAddr) -> Result<TcpStream> {
    let body = json!({ "model": MODEL, "stream": true, "max_tokens": 1_000,
        "messages": [{ "role": "user", "content": "question" }] })
    .to_string();
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: models\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("data: ") {
        ensure!(stream.read_buf(&mut read).await? > 0, "{}", String::from_utf8_lossy(&read));
    }
    Ok(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_takes_its_load_along() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let mut plan = plan()?;
    for engine in &mut plan.engines {
        engine.decode_ms = Some(50.0);
    }
    let (rig, envoy) = start(&program, plan).await?;
    let clients =
        [reads_a_beginning(envoy.address).await?, reads_a_beginning(envoy.address).await?];
    assert_eq!(rig.active_requests().await?, 2);
    drop(clients);
    rig.wait_for_idle().await?;
    let ended = "pointsman_answers_total{outcome=\"aborted\",shape=\"stream\"} 2\n";
    let metrics = rig.admin.get("/metrics").await?.text();
    ensure!(metrics.contains(ended), "{metrics}");
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picker_that_restarts_is_asked_again_and_none_is_asked_meanwhile() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let (rig, envoy) = start(&program, plan()?).await?;
    is_from_the_worker(&envoy.client.ask(&Ask::new(MODEL, "question")).await?)?;
    let picker = rig.server.epp_addr().context("it is served")?;
    let file = rig.config_file();
    let text = std::fs::read_to_string(&file)?;
    std::fs::write(&file, text.replace("epp: 127.0.0.1:0", &format!("epp: {picker}")))?;
    let Rig { server, engines, .. } = rig;
    server.shutdown().await;
    let closed = envoy.client.ask(&Ask::new(MODEL, "question")).await?;
    assert_eq!(closed.status.as_u16(), 503, "fail closed: {}", closed.text());
    let unready = async || Ok(!envoy.picker_is_ready().await?);
    looks::wait_for("Envoy to see that the picker is gone", unready).await?;
    let server = Server::start(Config::from_path(&file)?, Some(file)).await?;
    until_ready(&envoy).await?;
    is_from_the_worker(&envoy.client.ask(&Ask::new(MODEL, "question")).await?)?;
    let admin = LoadClient::new(server.admin_addr());
    looks::wait_for("the load to be gone", async || looks::is_idle(&admin).await).await?;
    envoy.stop().await?;
    server.shutdown().await;
    for engine in engines {
        engine.shutdown().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_gone_is_picked_once_more_at_most() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let mut plan = plan()?;
    // Probes see nothing of it in time: what Envoy tells has to do.
    plan.more = plan.more.replace("interval: 200ms", "interval: 1h");
    let (mut rig, envoy) = start(&program, plan).await?;
    for _ in 0..4 {
        is_from_the_worker(&envoy.client.ask(&Ask::new(MODEL, "question")).await?)?;
    }
    let lost = rig.engines.remove(1);
    lost.shutdown().await;
    let mut failed = 0;
    for number in 0..12 {
        let answer = envoy.client.ask(&Ask::new(MODEL, format!("another {number}"))).await?;
        if answer.is_good() {
            is_from_the_worker(&answer)?;
        } else {
            assert_eq!(answer.status.as_u16(), 503, "{}", answer.text());
            failed += 1;
        }
    }
    assert!(failed <= 1, "{failed} requests went to a worker that is gone");
    let workers = rig.admin_json("/v1/workers/2").await?;
    if failed == 1 {
        assert_eq!(workers["availability"], "unhealthy", "{workers:#}");
    }
    rig.wait_for_idle().await?;
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}
