//! The router and its engines as processes of their own: what the other tests show in one process holds
//! between several, over nothing but the command line, YAML, HTTP and signals.

mod author;
mod fleet;
mod program;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use pointsman::load_client::{Answer, Ask, AskError};
use pointsman_core::clock::Stopwatch;
use pointsman_tests::rig::MODEL;
use pointsman_tests::{guests, looks};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use fleet::{Engine, Router, workers};

const ANY_PORT: &str = "127.0.0.1:0";

/// A request on its way, for as long as this is kept.
fn sent(router: &Router, ask: Ask) -> JoinSet<Result<Answer, AskError>> {
    let client = router.public.clone();
    JoinSet::from_iter([async move { client.ask(&ask).await }])
}

async fn answer_to(mut sent: JoinSet<Result<Answer, AskError>>) -> Result<Answer> {
    Ok(sent.join_next().await.context("it was sent")???)
}

async fn pair(protocol: &str) -> Result<(Vec<Engine>, Router)> {
    let spoken = ["--protocol", protocol];
    let prefill = [&spoken[..], &["--role", "prefill", "--prefill-ms", "600000"][..]].concat();
    let decode = [&spoken[..], &["--role", "decode"][..]].concat();
    let engines = vec![
        Engine::start("prefill", ANY_PORT, &prefill).await?,
        Engine::start("decode", ANY_PORT, &decode).await?,
    ];
    let yaml = workers(&engines, |at, address| {
        let met = match (protocol, at) {
            ("sglang", 0) => format!(", bootstrap_port: {}", address.port()),
            _ => String::new(),
        };
        let role = ["prefill", "decode"][at];
        format!(", role: {role}, disaggregation: {{ protocol: {protocol}{met} }}")
    });
    Ok((engines, Router::start(&yaml, &[]).await?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_a_busy_process_and_stays_where_it_went() -> Result<()> {
    let slow = ["--decode-ms", "50"];
    let engines = [
        Engine::start("one", ANY_PORT, &slow).await?,
        Engine::start("two", ANY_PORT, &slow).await?,
    ];
    let policy = "worker_selection:
  aggregated: it
  instances: [{ name: it, type: soft-pin-repin, parameters: { max_active_requests: 0 } }]
router: { router_session_affinity_ttl_secs: 60, router_session_affinity_mode: soft }
# An engine that stands still on purpose is to count as well.
health: { interval: 1h }
";
    let yaml = policy.to_owned() + &workers(&engines, |_, _| String::new());
    let component = [("soft-pin-repin.wasm", guests::soft_pin_repin())];
    let router = Router::start(&yaml, &component).await?;
    let ask = |max_tokens| Ask {
        session: Some("s".to_owned()),
        max_tokens,
        ..Ask::new(MODEL, "a question of a long conversation")
    };
    let worker = |answer: &Answer| -> Result<usize> {
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        let policy = answer.policy();
        assert!(policy.starts_with("it@") && policy != "it@builtin", "{policy} decided");
        Ok(answer.worker().parse()?)
    };
    let session = async || -> Result<Value> {
        let shown = looks::json(&router.admin, "/v1/sessions").await?;
        Ok(shown.pointer("/partitions/0/sessions/0").cloned().unwrap_or_default())
    };

    // A long answer is on its way from A.
    let mut long = sent(&router, ask(128));
    looks::wait_for("the session to be bound", async || Ok(session().await?["state"] == "bound"))
        .await?;
    let a = session().await?["worker_id"].as_u64().context("it is bound to a worker")?;
    let a = usize::try_from(a)?;
    engines[a - 1].turn(json!({ "frozen": true })).await?;

    // So the next request goes to B, and takes the session along.
    let b = worker(&router.public.ask(&ask(1)).await?)?;
    assert_ne!(b, a);
    assert_eq!(session().await?["worker_id"], b);
    assert_eq!(engines[a - 1].counts("running").await?, 1, "the long answer is on its way");
    assert!(long.try_join_next().is_none());
    engines[a - 1].turn(json!({ "frozen": null })).await?;

    // Both are idle now; it stays with B.
    assert_eq!(worker(&answer_to(long).await?)?, a);
    router.wait_for_idle().await?;
    for _ in 0..3 {
        assert_eq!(worker(&router.public.ask(&ask(1)).await?)?, b);
    }
    assert_eq!(engines[a - 1].counts("completed").await?, 1);
    assert_eq!(engines[b - 1].counts("completed").await?, 4);
    router.wait_for_idle().await?;
    router.stop().await?;
    for engine in engines {
        engine.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_during_the_prefill_leaves_no_load_at_either_process() -> Result<()> {
    for protocol in ["vllm", "sglang"] {
        let (engines, router) = pair(protocol).await?;
        for (nth, stream) in [(1, true), (2, false)] {
            let ask = Ask { stream, ..Ask::new(MODEL, "a question of some length, and then some") };
            let mut running = sent(&router, ask);
            looks::wait_for("the prefill", async || Ok(engines[0].counts("running").await? == 1))
                .await?;
            let rows = router.load_rows().await?;
            assert_eq!(rows.len(), 2);
            assert!(rows.iter().all(|row| row["active_requests"] == 1), "{rows:?}");
            assert!(rows.iter().any(|row| row["active_prefill_tokens"] != 0), "{rows:?}");

            running.shutdown().await;
            let took = idle_within(&router, Duration::from_secs(1)).await?;
            eprintln!("{protocol}, stream {stream}: both loads are zero after {took:?}");
            looks::wait_for("the prefill engine to be told", async || {
                Ok(engines[0].counts("aborted").await? == nth)
            })
            .await?;
            assert_eq!(engines[0].counts("running").await?, 0);
            assert_eq!(engines[0].counts("kept").await?, 0, "nothing is left behind");
        }
        router.stop().await?;
        for engine in engines {
            engine.stop().await?;
        }
    }
    Ok(())
}

/// Waits until all loads are zero. What is promised is broken by a look that was begun after `most`
/// and sees load all the same: a test that gets no time of the machine breaks nothing.
async fn idle_within(router: &Router, most: Duration) -> Result<Duration> {
    let watch = Stopwatch::start();
    loop {
        let asked = watch.elapsed();
        if looks::is_idle(&router.admin).await? {
            return Ok(watch.elapsed());
        }
        if asked > most {
            bail!("load {asked:?} after the client left: {:?}", router.load_rows().await?);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_killed_in_the_middle_leaves_no_load_and_serves_when_it_is_back()
-> Result<()> {
    for protocol in ["vllm", "sglang"] {
        let (mut engines, router) = pair(protocol).await?;
        let ask = Ask::new(MODEL, "a question of some length, and then some");
        let running = sent(&router, ask.clone());
        looks::wait_for("the prefill", async || Ok(engines[0].counts("running").await? == 1))
            .await?;
        let prefill = engines.remove(0);
        let address = prefill.address.to_string();
        prefill.kill().await?;
        let answer = answer_to(running).await?;
        // SGLang's decode engine has the request already: if it misses the other first, it says so itself.
        let (status, text) = (answer.status.as_u16(), answer.text());
        let its_own = protocol == "sglang" && status == 500 && text.contains("prefill engine");
        assert!(status == 502 || its_own, "{protocol}: {status} {text}");
        router.wait_for_idle().await?;

        let words = ["--protocol", protocol, "--role", "prefill"];
        let back = Engine::start("back", &address, &words).await?;
        looks::wait_for("a shared answer", async || Ok(router.public.ask(&ask).await?.is_good()))
            .await?;
        assert_eq!(back.counts("handed_over").await?, engines[0].counts("fetched").await?);
        router.wait_for_idle().await?;
        router.stop().await?;
        back.stop().await?;
        for engine in engines {
            engine.stop().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_test_that_fails_leaves_no_process_behind() -> Result<()> {
    async fn fails(tells: std::sync::mpsc::Sender<std::net::SocketAddr>) -> Result<()> {
        let engine = Engine::start("left", ANY_PORT, &[]).await?;
        tells.send(engine.address)?;
        bail!("it fails here; {} still runs", engine.address)
    }
    let (tells, told) = std::sync::mpsc::channel();
    assert!(fails(tells).await.is_err());
    let address = told.recv()?;
    looks::wait_for("its port to be free", async || {
        Ok(tokio::net::TcpStream::connect(address).await.is_err())
    })
    .await
}

#[tokio::test]
async fn the_selection_service_alone_needs_no_file_and_opens_no_other_door() -> Result<()> {
    let words = ["--log-format", "json", "select", "--address", ANY_PORT];
    let mut program = program::Program::start(words)?;
    let listens = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["message"] == "the router is listening").then_some(line)
    };
    let line = program.says("its address", listens).await?;
    assert!(line["public"].is_null() && line["admin"].is_null(), "{line}");
    let address = line["select"].as_str().context("an address")?.parse()?;
    let client = pointsman::load_client::LoadClient::new(address);
    assert_eq!(client.get("/ready").await?.status.as_u16(), 503);
    let engine = Engine::start("one", ANY_PORT, &[]).await?;
    let endpoint = format!("http://{}", engine.address);
    let worker = json!({ "worker_id": 1, "endpoint": endpoint });
    assert_eq!(client.post("/workers", &worker).await?.status.as_u16(), 201);
    assert_eq!(client.get("/ready").await?.status.as_u16(), 200);
    let reserved = client.post("/select_and_reserve", &json!({ "token_ids": [1, 2] })).await?;
    assert_eq!(reserved.json()["endpoint"], endpoint, "{}", reserved.text());
    let status = program.stop().await?;
    assert!(status.success(), "{status}");
    engine.stop().await
}
