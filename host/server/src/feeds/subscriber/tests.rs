//! Feeds of engines that publish over real sockets, in this process.

pub(crate) mod engine;
mod log;
mod restarts;
mod trouble;

use std::future::Future;

use pointsman_core::ids::{DpRank, WorkerId};
use pointsman_core::index::{CacheEvent, PrefixIndex, Tier};
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::feeds::stats::Skip;
use engine::{Engine, Frames, cleared, removed, stored};

const RANK: WorkerRank = WorkerRank { worker_id: WorkerId(7), dp_rank: DpRank(0) };

/// Waits that a test has the time for.
const TIMING: Timing = Timing {
    connect: Duration::from_secs(5),
    first_retry: Duration::from_millis(5),
    last_retry: Duration::from_millis(50),
    replay_silence: Duration::from_millis(300),
    replay: Duration::from_secs(5),
    // Late: most tests count what is asked for.
    settle: Duration::from_secs(60),
    heartbeat: Duration::from_millis(50),
    silence: Duration::from_secs(5),
    trouble: Duration::from_secs(10),
};

struct Bench {
    index: Arc<PrefixIndex>,
    feed: Feed,
}

impl Bench {
    fn new(source: Source) -> Self {
        Self::with(source, TIMING)
    }

    fn with(source: Source, timing: Timing) -> Self {
        let index = Arc::new(PrefixIndex::default());
        let sink: Arc<dyn CacheSink> = Arc::<PrefixIndex>::clone(&index);
        let config = FeedConfig { rank: RANK, block_size: Some(2), source, timing, seed: 1 };
        Self { index, feed: Feed::start(config, sink) }
    }

    fn held(&self) -> usize {
        let held = self.index.rank_stats(RANK).map(|stats| stats.held).unwrap_or_default();
        held[Tier::Device as usize]
    }

    fn counts(&self) -> crate::feeds::stats::Counts {
        self.feed.snapshot().counts
    }

    async fn until(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let wait = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!("not {what}: held {}, {:?}", self.held(), self.feed.snapshot());
        }
    }

    /// Waits until the engine knows of the subscription: until something arrives. What is sent for
    /// that has no number, and counts as malformed.
    async fn reached(&self, engine: &mut Engine) {
        let before = self.counts().malformed;
        let probe = async {
            while self.counts().malformed == before {
                engine.send(&[b"kv"]).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(Duration::from_secs(20), probe).await.expect("a subscription");
    }

    async fn live(&self) {
        self.until("live", |bench| bench.feed.snapshot().state == FeedState::Live).await;
    }
}

/// Runs a test on two threads, as the product does.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn a_fresh_start_catches_up_and_follows() {
    for frames in [Frames::New, Frames::Old] {
        run(async move {
            let mut engine = Engine::start((0, 0), 100, frames).await;
            engine.publish(&[stored(1, 3)]).await;
            let bench = Bench::new(engine.source(true));
            bench.until("caught up", |bench| bench.held() == 3).await;
            bench.live().await;
            bench.reached(&mut engine).await;
            engine.publish(&[stored(7, 2), removed(&[1])]).await;
            bench.until("followed", |bench| bench.counts().batches == 2).await;
            assert_eq!(bench.held(), 4);
            let snapshot = bench.feed.snapshot();
            let counts = snapshot.counts;
            assert_eq!((counts.connections, counts.replays, counts.replayed), (1, 1, 1));
            assert_eq!((counts.gaps, counts.lost, counts.duplicates), (0, 0, 0));
            assert!(snapshot.last_batch_ms.is_some_and(|age| age < 20_000));
        });
    }
}

#[test]
fn what_was_published_before_the_subscription_got_through_is_found() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let timing = Timing { settle: Duration::from_millis(100), ..TIMING };
        let bench = Bench::with(engine.source(true), timing);
        bench.live().await;
        // As if it had been too early, and then nothing more.
        engine.lose(&[stored(1, 3)]);
        bench.until("found", |bench| bench.held() == 3).await;
        bench.reached(&mut engine).await;
        engine.publish(&[stored(7, 1)]).await;
        bench.until("followed", |bench| bench.held() == 4).await;
        assert_eq!((bench.counts().gaps, bench.counts().replays), (0, 2));
    });
}

#[test]
fn a_gap_is_filled_once_by_asking() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let bench = Bench::new(engine.source(true));
        bench.live().await;
        bench.reached(&mut engine).await;
        for at in 0..3 {
            engine.publish(&[stored(1 + 2 * at, 1)]).await;
        }
        bench.until("followed", |bench| bench.held() == 3).await;
        engine.lose(&[stored(7, 1)]);
        engine.lose(&[removed(&[7]), stored(7, 2)]);
        engine.publish(&[stored(11, 1)]).await;
        bench.until("filled", |bench| bench.held() == 6 && bench.counts().gaps == 1).await;
        engine.publish(&[stored(13, 1)]).await;
        bench.until("followed", |bench| bench.held() == 7).await;
        let counts = bench.counts();
        assert_eq!((counts.gaps, counts.replays, counts.lost), (1, 2, 0));
        assert_eq!((counts.restarts, counts.orphans, counts.duplicates), (0, 0, 1));
        assert_eq!(engine.asked(), [0, 2]);
    });
}

#[test]
fn a_buffer_that_is_too_short_leaves_what_is_known_in_use() {
    run(async {
        let mut engine = Engine::start((0, 0), 2, Frames::New).await;
        engine.lose(&[stored(1, 1)]);
        engine.lose(&[stored(3, 1)]);
        engine.lose(&[stored(5, 1)]);
        let bench = Bench::new(engine.source(true));
        // The first batch is lost; what hangs on it waits.
        bench.until("caught up", |bench| bench.counts().lost == 1).await;
        bench.live().await;
        assert_eq!((bench.held(), bench.counts().orphans), (0, 2));
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 1)]).await;
        bench.until("linked", |bench| bench.held() == 3).await;
        for _ in 0..4 {
            engine.lose(&[]);
        }
        engine.publish(&[stored(7, 1)]).await;
        // Of the four, the buffer had one left besides the last.
        bench.until("counted", |bench| bench.counts().lost == 1 + 3).await;
        assert_eq!((bench.held(), bench.counts().gaps), (4, 2));
    });
}

#[test]
fn a_gap_is_lost_where_nobody_can_be_asked() {
    run(async {
        let mut engine = Engine::start((0, 0), 0, Frames::New).await;
        let bench = Bench::new(engine.source(false));
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 1)]).await;
        bench.until("followed", |bench| bench.held() == 1).await;
        engine.lose(&[stored(3, 1)]);
        engine.publish(&[stored(5, 1)]).await;
        bench.until("an orphan", |bench| bench.counts().orphans == 1).await;
        let counts = bench.counts();
        assert_eq!((counts.gaps, counts.lost, counts.replays, bench.held()), (1, 1, 0, 1));
    });
}

#[test]
fn all_cleared_clears_all() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        engine.publish(&[stored(1, 3)]).await;
        let bench = Bench::new(engine.source(true));
        bench.until("caught up", |bench| bench.held() == 3).await;
        bench.reached(&mut engine).await;
        // As an engine does: with the next step after it was told.
        engine.publish(&[cleared(), stored(1, 1)]).await;
        bench.until("cleared", |bench| bench.held() == 1).await;
        assert_eq!(bench.counts().events_cleared, 1);
        // Somebody else has learnt of a reset that the engine hasn't told yet.
        bench.feed.resync();
        bench.until("anew", |bench| bench.counts().connections == 2).await;
        bench.live().await;
        // What it told is what can be known.
        assert_eq!(bench.held(), 1);
    });
}

#[test]
fn only_topics_that_begin_right_are_followed() {
    run(async {
        let mut engine = Engine::start((0, 0), 0, Frames::New).await;
        let mut source = engine.source(false);
        source.topic = "kv".to_owned();
        let bench = Bench::new(source);
        bench.reached(&mut engine).await;
        engine.publish_as("load", &[stored(1, 1)]).await;
        engine.publish_as("kv-events", &[stored(1, 2)]).await;
        // A batch is counted after its events.
        bench.until("followed", |bench| bench.held() == 2 && bench.counts().batches > 0).await;
        assert_eq!(bench.counts().batches, 1);
    });
}

#[test]
fn a_feed_that_is_dropped_ends_at_once() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let bench = Bench::new(engine.source(true));
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 2)]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        let Bench { index, feed } = bench;
        assert!(Arc::strong_count(&index) > 1);
        drop(feed);
        let gone = async {
            while Arc::strong_count(&index) > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(1), gone).await.expect("the task ends");
        // What it stored is its owner's to remove.
        assert_eq!(index.rank_stats(RANK).map(|stats| stats.held[0]), Some(2));
        index.apply(RANK, CacheEvent::Cleared);
    });
}

#[test]
fn a_message_as_large_as_may_be_is_applied_where_it_holds_up_nobody() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let bench = Bench::new(engine.source(true));
        bench.live().await;
        bench.reached(&mut engine).await;
        // 300,000 events that nobody knows, and one that counts.
        let unknown = crate::feeds::testing::pack(&json!(["x"]));
        let mut payload = crate::feeds::testing::pack(&json!([1.5, []]));
        payload.truncate(payload.len() - 4);
        payload.extend(300_001_u32.to_be_bytes());
        (0..300_000).for_each(|_| payload.extend(&unknown));
        payload.extend(crate::feeds::testing::pack(&stored(1, 3)));
        engine.publish_raw(&payload).await;
        // This thread is the only one: it sees the batch half applied.
        let skipped = |bench: &Bench| bench.feed.stats().skipped(Skip::UnknownEvent);
        bench.until("begun", |bench| skipped(bench) > 0).await;
        assert!(skipped(&bench) < 300_000, "it was applied in one go");
        bench.until("applied", |bench| bench.held() == 3).await;
        assert_eq!(skipped(&bench), 300_000);
        engine.publish(&[stored(7, 1)]).await;
        bench.until("followed", |bench| bench.held() == 4).await;
    });
}
