//! What is wrong with a feed, and how that is told.

use super::*;

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
