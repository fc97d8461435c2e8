//! What the router adds to a request: the same body to a mock engine directly and through a real
//! router before it, over TCP on loopback, in turns.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman::load_client::{Ask, LoadClient};
use pointsman_core::clock::Stopwatch;
use pointsman_tests::rig::{MODEL, Plan};
use tokio::runtime::Runtime;

/// Bytes of the prompt: a short question, and a long document.
const PROMPTS: [usize; 2] = [1_000, 220_000];

async fn ask(client: &LoadClient, prompt: &str) -> Duration {
    let ask = Ask { stream: false, max_tokens: 1, ..Ask::new(MODEL, prompt) };
    let watch = Stopwatch::start();
    let answer = client.ask(&ask).await.expect("the engine is there");
    assert!(answer.is_good(), "{}: {}", answer.status, answer.text());
    watch.elapsed()
}

fn proxy(c: &mut Criterion) {
    let runtime = Runtime::new().expect("threads can be started");
    let plan = Plan::new(1).with_least_busy().expect("the guests are built");
    let rig = runtime.block_on(plan.start()).expect("all of it starts");
    let address = rig.engines.first().expect("there is one").addr();
    let (direct, routed) = (LoadClient::new(address), &rig.public);
    let mut group = c.benchmark_group("proxy");
    for bytes in PROMPTS {
        let prompt = "a word ".repeat(bytes / 7);
        for (name, client) in [("direct", &direct), ("routed", routed)] {
            group.bench_function(BenchmarkId::new(name, bytes), |b| {
                b.iter_custom(|times| {
                    runtime.block_on(async {
                        let mut took = Duration::ZERO;
                        for _ in 0..times {
                            took += ask(client, &prompt).await;
                        }
                        took
                    })
                });
            });
        }
    }
    group.finish();
    runtime.block_on(rig.stop());
}

criterion_group!(benches, proxy);
criterion_main!(benches);
