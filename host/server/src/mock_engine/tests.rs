//! What a mock engine promises, over real TCP connections.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod client;
mod faults;
mod load;
mod shapes;
mod units;

use std::future::Future;
use std::time::Duration;

use super::{MockConfig, MockEngine, StatsSnapshot};

/// An engine for the recorded model, which answers at once.
fn engine() -> MockEngine {
    engine_with(|_| {})
}

fn engine_with(change: impl FnOnce(&mut MockConfig)) -> MockEngine {
    let mut config = MockConfig {
        models: vec!["tiny-llama".to_owned()],
        max_model_len: 1024,
        ..MockConfig::default()
    };
    change(&mut config);
    MockEngine::start(config).unwrap()
}

/// Waits until the engine's counters are as they should be; fails with the last ones after five seconds.
async fn eventually(engine: &MockEngine, wanted: impl Fn(&StatsSnapshot) -> bool) -> StatsSnapshot {
    for _ in 0..1000 {
        let stats = engine.stats();
        if wanted(&stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the counters never became what was awaited: {:?}", engine.stats());
}

/// Whether something is still not done after a while in which it would have been done long ago.
async fn stays_silent<T>(future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(60), future).await.is_err()
}
