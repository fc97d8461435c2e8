//! Prefills that end, where what is left of them goes by time.

use std::sync::Arc;
use std::time::Duration;

use pointsman_core::policy::settings::PrefillLoadModel;
use serde_json::json;
use tokio::task::JoinSet;

use super::rig::*;
use crate::load_client::LoadClient;
use crate::serve::testing::MODEL;

#[tokio::test]
async fn the_next_prefill_of_a_worker_begins_with_the_first_token_of_the_one_before() {
    let rig = Rig::with(1, |mock, config| {
        mock.max_num_seqs = 1;
        mock.prefill_tokens_per_s = 100.0;
        // A token a millisecond.
        let model =
            PrefillLoadModel { constant_ms: 0.0, ms_per_token: 1.0, ms_per_token_squared: 0.0 };
        Arc::make_mut(&mut config.settings).router_prefill_load_model = Some(model);
    })
    .await;
    let ask = |client: &LoadClient, tokens: u32| {
        let prompt: Vec<u32> = (0..tokens).collect();
        let body = json!({ "model": MODEL, "prompt": prompt, "max_tokens": 1 });
        let client = client.clone();
        JoinSet::from_iter([async move { client.post("/v1/completions", &body).await }])
    };
    let stats = || rig.engines[0].stats();
    // Somebody else has the engine's only seat, until both of ours are in its line.
    let mut before = ask(&LoadClient::new(rig.engines[0].addr()), 60_000);
    eventually(|| stats().running == 1).await;
    let mut short = ask(&rig.client, 1);
    eventually(|| stats().waiting == 1).await;
    let mut long = ask(&rig.client, 60_000);
    eventually(|| stats().waiting == 2).await;
    before.shutdown().await;
    assert!(short.join_next().await.unwrap().unwrap().unwrap().is_good());
    // Nobody looks at the load meanwhile: what has melted by the first look has done so since then.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let partition = rig.server.app().dispatcher.router().partitions().swap_remove(0);
    let now_ms = rig.server.app().dispatcher.clock().now_ms();
    let left = partition.ledger().loads_at(now_ms)[0].active_prefill_tokens;
    assert!((1..60_000).contains(&left), "{left} tokens are left of 60,000");
    long.shutdown().await;
    rig.comes_to_rest().await;
    rig.server.shutdown().await;
}
