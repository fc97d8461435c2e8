//! The endpoint picker behind a real Envoy, as the sample configuration has it: OpenAI traffic to mock engines.

mod fallback;
mod hostile;
mod losses;
mod modes;
mod subsets;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pointsman::load_client::{Answer, Ask};
use pointsman_tests::envoy::{Envoy, Sample, program};
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};

/// Envoy's program, if it can be had.
async fn envoy() -> Result<Option<PathBuf>> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("a target folder")?;
    tokio::task::spawn_blocking(move || program(target)).await?
}

/// Four engines, and a picker with a component.
fn plan() -> Result<Plan> {
    let mut plan = Plan::new(4).with_least_busy()?;
    plan.more.push_str("epp: 127.0.0.1:0\n");
    Ok(plan)
}

/// A router with a picker, and Envoy before that.
async fn start(program: &Path, plan: Plan) -> Result<(Rig, Envoy)> {
    let rig = plan.start().await?;
    let sample = Sample::asking(rig.server.epp_addr().context("it is served")?)?;
    let envoy = Envoy::start(program, &sample).await?;
    until_ready(&envoy).await?;
    Ok((rig, envoy))
}

/// Waits until requests get to the picker: its health is known to Envoy's main thread first, and a moment
/// later to the one that serves.
async fn until_ready(envoy: &Envoy) -> Result<()> {
    let asks_for_nothing = Ask::new("no such model", "question");
    let ready = async || {
        let is_known = envoy.picker_is_ready().await?;
        Ok(is_known && envoy.client.ask(&asks_for_nothing).await?.status.as_u16() == 404)
    };
    pointsman_tests::looks::wait_for("Envoy to find the picker ready", ready).await
}

/// The engine that answered is the one that was picked.
fn is_from_the_worker(answer: &Answer) -> Result<()> {
    let (worker, engine) = (answer.worker(), answer.header("x-mock-engine"));
    ensure!(answer.is_good(), "{} {}", answer.status, answer.text());
    ensure!(engine == format!("engine-{worker}"), "picked {worker}, answered by {engine}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_to_the_workers_that_a_component_picks() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let mut plan = plan()?;
    for engine in &mut plan.engines {
        // Long enough that the requests are there at once.
        engine.prefill_ms = Some(200.0);
    }
    let (rig, envoy) = start(&program, plan).await?;
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..8 {
        let client = envoy.client.clone();
        let mut ask = Ask::new(MODEL, format!("question {number}"));
        ask.stream = number % 2 == 0;
        asked.spawn(async move { client.ask(&ask).await });
    }
    let component = std::fs::read(guests::least_busy())?;
    let digest = pointsman_build::digest(&component);
    while let Some(answer) = asked.join_next().await {
        let answer = answer??;
        is_from_the_worker(&answer)?;
        let (policy, short) = answer.policy().split_once('@').context("a policy")?;
        ensure!(policy == "it" && digest.contains(short), "{}", answer.policy());
    }
    for engine in &rig.engines {
        ensure!(engine.stats().received >= 1, "the busy ones got all: {:?}", engine.stats());
    }
    rig.wait_for_idle().await?;
    let refused = envoy.client.ask(&Ask::new("another", "question")).await?;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["type"]),
        (404, &"no_such_model".into())
    );
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_names_a_destination_does_not_get_there() -> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let (rig, envoy) = start(&program, plan()?).await?;
    let mut ask = Ask::new(MODEL, "question");
    ask.headers.push(("x-gateway-destination-endpoint", "127.0.0.1:9".to_owned()));
    is_from_the_worker(&envoy.client.ask(&ask).await?)?;
    // Also where nobody picks.
    let Rig { server, engines, .. } = rig;
    server.shutdown().await;
    ask.headers = vec![("x-gateway-destination-endpoint", engines[0].addr().to_string())];
    assert_eq!(envoy.client.ask(&ask).await?.status.as_u16(), 503);
    envoy.stop().await?;
    for engine in engines {
        engine.shutdown().await;
    }
    Ok(())
}
