//! When the router says that it can serve.

use std::num::NonZeroU32;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::policy::selection::{Recipe, TypeUse, default_instance};
use pointsman_core::policy::{InstanceSpec, Limits, OnFailure};

use super::*;

/// Aggregated workers are decided for by a component that is none, and nobody may stand in.
fn strict(folder: &std::path::Path) -> Config {
    std::fs::write(folder.join("broken.wasm"), "no component").unwrap();
    let used = TypeUse {
        policy_type: "broken".into(),
        parameters: Default::default(),
        limits: Limits::default(),
    };
    let mut config = config(&["http://127.0.0.1:9"]);
    config.policies_dir = Some(folder.to_owned());
    config.selection.roles.insert(Role::Aggregated, "strict".into());
    config.selection.instances.push(InstanceSpec {
        name: "strict".into(),
        recipe: Recipe::Whole(used),
        on_failure: OnFailure::Reject,
        ..default_instance()
    });
    config
}

#[tokio::test]
async fn a_router_that_would_refuse_every_request_is_not_ready_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(strict(folder.path())).await;
    let answer = fixture.get("/ready").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
    let told = answer.json();
    let [out] = told["details"]["not_ready"].as_array().unwrap().as_slice() else {
        panic!("{told}")
    };
    assert_eq!((&out["model"], &out["role"]), (&json!(MODEL), &json!("aggregated")));
    let reason = out["reason"].as_str().unwrap();
    assert!(reason.contains("no good version of its policy type \"broken\""), "{reason}");
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn one_partition_that_can_serve_nothing_does_not_take_the_others_out_of_service() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = strict(folder.path());
    let decode = PartitionKey { role: Role::Decode, ..partition() };
    let mut worker = WorkerSpec::new(WorkerId(7), "http://127.0.0.1:9", decode);
    worker.block_size = NonZeroU32::new(32).unwrap();
    config.workers.push(worker);
    let fixture = Fixture::with(config).await;
    let answer = fixture.get("/ready").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let told = answer.json();
    assert_eq!(told["not_ready"][0]["role"], "aggregated", "{told}");
    assert_eq!((&told["not_ready"][1], &told["more_not_ready"]), (&Value::Null, &json!(0)));
    // The one that decides has no worker any more.
    let gone = fixture.send(Method::DELETE, "/v1/workers/7?force=true", &json!({})).await;
    assert_eq!(gone.status, StatusCode::OK, "{}", gone.text());
    assert_eq!(fixture.get("/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.server.shutdown().await;
}
