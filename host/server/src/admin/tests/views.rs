//! Views that have to wait for what they show.

use std::time::Duration;

use pointsman_core::fleet::Epoch;
use pointsman_core::ids::WorkerId;

use super::*;

#[tokio::test]
async fn a_view_that_waits_keeps_nobody_else_waiting() {
    let fixture = Fixture::new().await;
    let (held, is_held) = std::sync::mpsc::channel();
    let (let_go, lets_go) = std::sync::mpsc::channel::<()>();
    let workers = fixture.server.app().workers.clone();
    // As a long write does, for as long as it takes.
    let writing = std::thread::spawn(move || {
        workers.while_held(WorkerId(1), || {
            held.send(()).unwrap();
            let _ = lets_go.recv_timeout(Duration::from_secs(5));
        });
    });
    is_held.recv().unwrap();
    let views = ["/v1/workers/1", "/v1/workers", "/metrics"];
    let waiting = futures_util::future::join_all(views.map(|view| fixture.get(view)));
    let mut waiting = Box::pin(waiting);
    let others = async {
        // The views are on their way before these.
        tokio::time::sleep(Duration::from_millis(50)).await;
        for path in ["/health", "/ready", "/v1/loads", "/v1/policies"] {
            assert_eq!(fixture.get(path).await.status, StatusCode::OK, "{path}");
        }
        // What requests report of workers doesn't wait either.
        fixture.server.app().workers.failed(
            WorkerId(2),
            Epoch(0),
            tokio::time::Instant::now(),
            "a test says so",
        );
    };
    tokio::select! {
        _ = &mut waiting => panic!("nothing was waited for"),
        () = others => {}
    }
    assert!(let_go.send(()).is_ok(), "it was kept waiting until the write ended");
    for answer in waiting.await {
        assert_eq!(answer.status, StatusCode::OK);
    }
    writing.join().unwrap();
    fixture.server.shutdown().await;
}
