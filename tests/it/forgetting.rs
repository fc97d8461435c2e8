//! A model whose workers have left is forgotten in time, and its policy's instance with it.

use std::time::Duration;

use anyhow::Result;
use http::{Method, StatusCode};
use pointsman::housekeeping;
use pointsman::load_client::Ask;
use pointsman_core::router::Retention;
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::json;

#[tokio::test]
async fn a_forgotten_model_gives_its_place_in_the_pool_back() -> Result<()> {
    let mut plan = Plan::new(1).with_least_busy()?;
    // One for the model that stays, one for the one that comes and goes, two to try versions with.
    plan.more += "wasm: { pool_instances: 4 }\n";
    let rig = plan.start().await?;
    let counted = async |what: &str| {
        anyhow::Ok(rig.admin_json("/v1/policies").await?["components"][what].as_u64())
    };
    let before = counted("instances_made").await?;
    for n in 0..20 {
        let model = format!("model-{n}");
        let worker = json!({ "worker_id": 2, "endpoint": rig.engines[0].url(), "model": model, "block_size": 32 });
        let added = rig.admin.post("/v1/workers", &worker).await?;
        assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
        // The engine knows another model only; what counts is that it was asked.
        let answer = rig.public.ask(&Ask::new(&model, "hello")).await?;
        assert_eq!(answer.worker(), "2", "{}", answer.text());
        let gone = rig.admin.send(Method::DELETE, "/v1/workers/2?force=true", &[], None).await?;
        assert!(gone.status.is_success(), "{}", gone.text());
        rig.wait_for("the request to end", async || {
            Ok(rig
                .server
                .app()
                .dispatcher
                .router()
                .partitions()
                .iter()
                .all(|partition| partition.ledger().live_leases() == 0))
        })
        .await?;
        // A day a model.
        let day = Duration::from_secs(86_400) * n;
        housekeeping::look(rig.server.app(), day).await;
        housekeeping::look(rig.server.app(), day + Retention::STANDARD.keep).await;
        let answer = rig.public.ask(&Ask::new(&model, "hello")).await?;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text());
    }
    assert!(counted("instances_made").await? >= before.map(|before| before + 20));
    assert_eq!(counted("pool_exhausted").await?, Some(0));
    assert!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.is_good());
    rig.stop().await;
    Ok(())
}
