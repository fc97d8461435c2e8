//! Endpoints that a gateway wants the pick to be among.

use anyhow::{Context, Result, ensure};
use pointsman::load_client::Ask;
use pointsman_tests::envoy::{Envoy, Sample};
use pointsman_tests::rig::MODEL;

use super::{envoy, is_from_the_worker, plan, until_ready};

/// Has a header say whom; in a real gateway, the route does.
const HINTS: &str = r#"- name: envoy.filters.http.header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
      - header: x-test-subset
        on_header_present:
          metadata_namespace: envoy.lb.subset_hint
          key: x-gateway-destination-endpoint-subset
        remove: true"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pick_is_among_those_that_the_gateway_names_and_nobody_else_gets_the_request()
-> Result<()> {
    let Some(program) = envoy().await? else { return Ok(()) };
    let rig = plan()?.start().await?;
    let picker = rig.server.epp_addr().context("it is served")?;
    let envoy = Envoy::start(&program, &Sample::asking(picker)?.with_filter(HINTS)?).await?;
    until_ready(&envoy).await?;
    for number in [3_usize, 1] {
        let mut ask = Ask::new(MODEL, "question");
        let only = rig.engines[number - 1].addr().to_string();
        ask.headers.push(("x-test-subset", format!("127.0.0.1:9,{only}")));
        for _ in 0..3 {
            let answer = envoy.client.ask(&ask).await?;
            is_from_the_worker(&answer)?;
            ensure!(answer.worker() == number.to_string(), "{}", answer.worker());
        }
    }
    let counts = || rig.engines.iter().map(|engine| engine.stats().received).collect::<Vec<_>>();
    let before = counts();
    let mut nobody = Ask::new(MODEL, "question");
    nobody.headers.push(("x-test-subset", "127.0.0.1:9".to_owned()));
    let refused = envoy.client.ask(&nobody).await?;
    assert_eq!(refused.status.as_u16(), 503, "{}", refused.text());
    assert_eq!(counts(), before);
    envoy.stop().await?;
    rig.stop().await;
    Ok(())
}
