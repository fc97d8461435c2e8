//! Feeds of engines that publish over real sockets, in this process.

pub(crate) mod engine;
mod log;

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
fn an_engine_that_restarts_is_forgotten_by_its_first_event() {
    run(async {
        let mut engine = Engine::start((0, 0), 0, Frames::New).await;
        let bench = Bench::new(engine.source(false));
        bench.reached(&mut engine).await;
        for _ in 0..5 {
            engine.publish(&[stored(1, 3)]).await;
        }
        bench.until("followed", |bench| bench.counts().batches == 5).await;
        let mut engine = engine.restart().await;
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 1)]).await;
        bench.until("begun anew", |bench| bench.held() == 1).await;
        let counts = bench.counts();
        assert_eq!((counts.restarts, counts.connections, counts.gaps), (1, 2, 0));
    });
}

#[test]
fn an_engine_that_restarts_in_silence_is_found_out() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let bench = Bench::new(engine.source(true));
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 3)]).await;
        engine.publish(&[stored(7, 1)]).await;
        bench.until("followed", |bench| bench.held() == 4).await;

        // It comes back empty and says nothing.
        let engine = engine.restart().await;
        bench.until("forgotten", |bench| bench.held() == 0).await;
        bench.live().await;
        assert_eq!(bench.counts().restarts, 1);

        // It comes back and has already published as many batches as were known.
        let mut engine = engine;
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 2)]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        let mut engine = engine.restart_with(&[&[stored(1, 1)], &[]]).await;
        bench.until("found out", |bench| bench.held() == 1).await;
        bench.live().await;
        assert_eq!(bench.counts().restarts, 2);
        bench.reached(&mut engine).await;
        engine.publish(&[stored(3, 1)]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        assert_eq!((bench.counts().lost, bench.counts().gaps), (0, 0));
    });
}

#[test]
fn the_same_engine_at_a_new_connection_keeps_its_blocks() {
    run(async {
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let bench = Bench::new(engine.source(true));
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 3)]).await;
        bench.until("followed", |bench| bench.held() == 3).await;
        engine.lose(&[stored(7, 1)]);
        let _engine = engine.drop_connections().await;
        bench.until("caught up", |bench| bench.held() == 4).await;
        let counts = bench.counts();
        assert_eq!((counts.restarts, counts.lost, counts.blocks_stored), (0, 0, 4));
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
        bench.until("followed", |bench| bench.held() == 2).await;
        assert_eq!(bench.counts().batches, 1);
    });
}

#[test]
fn an_engine_that_connects_is_waited_for() {
    run(async {
        let port = engine::free_port();
        let mut source = Source {
            rank: 0,
            attach: Attach::Bind,
            endpoint: format!("tcp://127.0.0.1:{port}").parse().expect("an endpoint"),
            replay_endpoint: None,
            topic: String::new(),
            block_size: None,
        };
        let bench = Bench::new(source.clone());
        let mut engine = Engine::connect(port).await;
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 2)]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        drop(engine);
        let mut engine = Engine::connect(port).await;
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 1)]).await;
        bench.until("begun anew", |bench| bench.held() == 1).await;
        assert_eq!(bench.counts().restarts, 1);

        // An address that isn't this host's is told.
        source.endpoint = "tcp://203.0.113.1:5557".parse().expect("an endpoint");
        let bench = Bench::new(source);
        bench.until("down", |bench| bench.feed.snapshot().state == FeedState::Down).await;
        let error = bench.feed.snapshot().last_error.expect("an error");
        assert!(error.contains("it must be an address of this host"), "{error}");
    });
}

#[test]
fn wrong_ports_and_dumb_replays_are_told() {
    run(async {
        // Replays are asked for where events are published.
        let mut engine = Engine::start((0, 0), 100, Frames::New).await;
        let mut source = engine.source(true);
        source.replay_endpoint = Some(source.endpoint.clone());
        let bench = Bench::new(source);
        bench.live().await;
        let error = bench.feed.snapshot().last_error.expect("an error");
        assert!(error.ends_with("is a PUB socket, not ROUTER; check the port"), "{error}");
        // Events are followed nevertheless.
        bench.reached(&mut engine).await;
        engine.publish(&[stored(1, 2)]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        assert_eq!(bench.counts().replays_failed, bench.counts().replays);

        // Somebody takes the request and never answers.
        let silent = Engine::start((0, 0), 0, Frames::None).await;
        let bench = Bench::new(silent.source(true));
        bench.live().await;
        let error = bench.feed.snapshot().last_error.expect("an error");
        assert!(error.ends_with("no answer within 300ms"), "{error}");

        // What answers isn't ZeroMQ.
        let web = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut source = silent.source(false);
        let port = web.local_addr().expect("an address").port();
        source.endpoint = format!("tcp://127.0.0.1:{port}").parse().expect("an endpoint");
        let bench = Bench::new(source);
        let (mut stream, _) = web.accept().await.expect("a connection");
        let answer = [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[b' '; 64]].concat();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &answer).await.expect("sent");
        bench.until("told", |bench| bench.feed.snapshot().last_error.is_some()).await;
        let error = bench.feed.snapshot().last_error.expect("an error");
        assert!(error.ends_with("what answers there isn't ZeroMQ; check the port"), "{error}");
    });
}

#[test]
fn what_cant_be_read_is_counted_and_the_rest_goes_on() {
    run(async {
        let mut engine = Engine::start((0, 0), 0, Frames::New).await;
        let bench = Bench::new(engine.source(false));
        bench.reached(&mut engine).await;
        // All that was sent to see whether it arrives has arrived when this has.
        engine.publish(&[]).await;
        bench.until("reached", |bench| bench.counts().batches == 1).await;
        let before = bench.counts().malformed;
        engine.send(&[b"kv-events"]).await;
        engine.send(&[b"kv-events", b"123", b""]).await;
        engine.publish_raw(b"\x93\xc1").await;
        engine.publish(&[stored(1, 2), json!(["BlockMoved"])]).await;
        bench.until("followed", |bench| bench.held() == 2).await;
        let snapshot = bench.feed.snapshot();
        assert_eq!((snapshot.counts.malformed - before, snapshot.counts.gaps), (3, 0));
        assert_eq!(snapshot.skipped, [(Skip::UnknownEvent, 1)]);
        let error = snapshot.last_error.expect("an error");
        assert!(
            error.starts_with("batch 1 can't be read: the batch: expected a time in seconds"),
            "{error}"
        );
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
fn an_engine_that_is_away_is_tried_again() {
    run(async {
        let engine = Engine::start((0, 0), 100, Frames::New).await;
        let source = engine.source(true);
        let ports = engine.stop().await;
        let bench = Bench::new(source);
        bench.until("down", |bench| bench.feed.snapshot().state == FeedState::Down).await;
        let error = bench.feed.snapshot().last_error.expect("an error");
        assert!(error.contains("refused"), "{error}");
        let mut engine = Engine::start(ports, 100, Frames::New).await;
        engine.publish(&[stored(1, 2)]).await;
        // Live or by a replay, whichever comes first.
        bench.until("caught up", |bench| bench.held() == 2).await;
    });
}

/// An index behind which a bug is, once.
struct Faulty {
    index: Arc<PrefixIndex>,
    faults: std::sync::atomic::AtomicUsize,
}

impl CacheSink for Faulty {
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> pointsman_core::index::Applied {
        use std::sync::atomic::Ordering::SeqCst;
        let wanted = matches!(&event, CacheEvent::Stored(stored) if stored.engines.contains(&7));
        let take = |left: usize| left.checked_sub(1);
        if wanted && self.faults.fetch_update(SeqCst, SeqCst, take).is_ok() {
            panic!("a bug for a test");
        }
        self.index.apply(rank, event)
    }
}

#[test]
fn a_feed_that_fails_is_shown_as_down_and_begins_anew() {
    // Here and now, and on a thread of its own.
    for blocks in [2, 8_000] {
        run(async move {
            let mut engine = Engine::start((0, 0), 100, Frames::New).await;
            engine.publish(&[stored(1, 3)]).await;
            let index = Arc::new(PrefixIndex::default());
            let faulty = Faulty { index: Arc::clone(&index), faults: 1.into() };
            let source = engine.source(true);
            // Long enough to be seen.
            let timing = Timing { first_retry: Duration::from_millis(200), ..TIMING };
            let timing = Timing { last_retry: Duration::from_millis(400), ..timing };
            let config = FeedConfig { rank: RANK, block_size: Some(2), source, timing, seed: 1 };
            let bench = Bench { index, feed: Feed::start(config, Arc::new(faulty)) };
            bench.live().await;
            bench.reached(&mut engine).await;
            engine.publish(&[stored(7, blocks)]).await;
            bench.until("down", |bench| bench.feed.snapshot().state == FeedState::Down).await;
            let why = bench.feed.snapshot().last_error.expect("a reason");
            assert!(why.contains("a bug for a test"), "{why}");
            bench.until("followed anew", |bench| bench.held() == 3 + blocks as usize).await;
            bench.live().await;
        });
    }
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
