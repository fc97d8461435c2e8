//! A gateway that knows the workers, and goes on without the picker.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use pointsman::load_client::Ask;
use pointsman_tests::envoy::{Envoy, Sample};
use pointsman_tests::looks;
use pointsman_tests::rig::{MODEL, Rig};

use super::{envoy, is_from_the_worker, plan, until_ready};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_may_a_gateway_serves_without_the_picker_and_never_where_a_client_says()
-> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let rig = plan()?.start().await?;
    let workers: Vec<_> = rig.engines.iter().map(|engine| engine.addr()).collect();
    let sample = Sample::asking(rig.server.epp_addr().context("it is served")?)?
        .knowing(&workers)?
        .with("failure_mode_allow: false", "failure_mode_allow: true")?;
    let envoy = Envoy::start(&program, &sample).await?;
    until_ready(&envoy).await?;
    let mut ask = Ask::new(MODEL, "question");
    ask.headers.push(("x-gateway-destination-endpoint", workers[0].to_string()));
    for number in 0..8 {
        is_from_the_worker(&envoy.client.ask(&ask).await?).context(number)?;
    }
    rig.wait_for_idle().await?;
    let Rig { server, engines, .. } = rig;
    server.shutdown().await;
    let unready = async || Ok(!envoy.picker_is_ready().await?);
    looks::wait_for("Envoy to see that the picker is gone", unready).await?;
    let mut answered = BTreeSet::new();
    for number in 0..8 {
        let answer = envoy.client.ask(&ask).await?;
        ensure!(answer.is_good(), "{number}: {} {}", answer.status, answer.text());
        answered.insert(answer.header("x-mock-engine").to_owned());
    }
    ensure!(answered.len() == 4, "a client chose among them: {answered:?}");
    envoy.stop().await?;
    for engine in engines {
        engine.shutdown().await;
    }
    Ok(())
}
