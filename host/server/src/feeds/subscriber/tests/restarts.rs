//! Engines that begin anew, and those that only connect anew.

use super::*;

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
