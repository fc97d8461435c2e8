use super::rig::*;
use crate::load_client::LoadClient;
use crate::mock_engine::{MockConfig, MockEngine};
use crate::serve::testing::MODEL;
use futures_util::future::join_all;
use pointsman_core::clock::Stopwatch;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn measure() {
    let rig = Rig::new(4).await;
    for big in [false, true] {
        let body = json!({"model": MODEL, "messages": [{"role":"user","content": if big {"x\\n y".repeat(44_000)} else {"hi".into()}}], "max_tokens": 4, "stream": true});
        let direct = LoadClient::new(rig.engines[0].addr());
        for (name, client) in [("direct", &direct), ("router", &rig.client)] {
            let mut took = Vec::new();
            for _ in 0..200 {
                let watch = Stopwatch::start();
                let a = client.post("/v1/chat/completions", &body).await.unwrap();
                assert!(a.is_good(), "{}", a.text());
                took.push(watch.elapsed());
            }
            took.sort();
            eprintln!("big {big} {name}: median {:?} p99 {:?}", took[100], took[197]);
        }
    }
    let watch = Stopwatch::start();
    let answers = join_all((0..1000).map(|_| rig.chat(&[], true))).await;
    assert!(answers.iter().all(|a| a.is_good()));
    eprintln!("1000 at once: {:?}", watch.elapsed());
    let mut shares = [0; 5];
    for a in &answers {
        shares[a.worker().parse::<usize>().unwrap()] += 1;
    }
    eprintln!("{shares:?}");
    let _ = (MockConfig::default(), MockEngine::start);
}
