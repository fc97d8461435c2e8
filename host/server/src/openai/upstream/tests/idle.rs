//! Connections that nobody uses for now, and what becomes of a request over one that has gone.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::coop;

use super::*;

/// A link with one good exchange behind it, and the engine's side.
async fn used(worker: &Worker) -> (Box<Link>, TcpStream) {
    let place = Place::of(&worker.spec.endpoint).unwrap();
    let (link, stream) = tokio::join!(place.connect(PATIENCE), worker.accepts());
    let (mut link, mut stream) = (link.unwrap(), stream);
    let rank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
    let request = outgoing().to(&place, &worker.spec, rank, &Sent::default()).unwrap();
    let serves = async {
        reads(&mut stream).await;
        writes(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    };
    let asks = async { assert!(link.send(request).await.unwrap().body().is_end_stream()) };
    both(serves, asks).await;
    assert!(link.is_ready() && link.is_used());
    (link, stream)
}

#[tokio::test]
async fn a_link_is_looked_at_however_much_its_task_has_done_already() {
    let worker = Worker::start().await;
    for more in ["", "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nothers"] {
        let (mut link, mut stream) = used(&worker).await;
        // The one ends, the other says what nobody asked for.
        writes(&mut stream, more).await;
        stream.shutdown().await.unwrap();
        settles().await;
        let looked = std::future::poll_fn(|cx| {
            while coop::has_budget_remaining() {
                let _ = std::pin::pin!(coop::consume_budget()).poll(cx);
            }
            std::task::Poll::Ready(link.is_ready())
        });
        assert!(!looked.await, "{more:?}");
    }
}

#[tokio::test]
async fn a_request_that_an_old_connection_fails_is_sent_once_more_over_a_new_one() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let agains = AtomicUsize::new(0);
    let serves = async {
        for ends_well in [true, false] {
            let mut first = worker.accepts().await;
            reads(&mut first).await;
            writes(&mut first, WHOLE).await;
            // It takes the next request, and says nothing to it.
            reads(&mut first).await;
            drop(first);
            let mut second = worker.accepts().await;
            reads(&mut second).await;
            // Whoever ends a connection that was made for the request is to blame.
            if ends_well {
                writes(&mut second, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok").await;
            }
        }
    };
    let asks = async {
        for ends_well in [true, false] {
            assert_eq!(asks(&upstream, &worker.spec).await, "ok");
            let again = || {
                agains.fetch_add(1, Ordering::Relaxed);
            };
            let answer = send_of(&upstream, &worker.spec, &outgoing(), again).await;
            match answer {
                Ok(answer) => assert!(ends_well && body(answer).await == "ok"),
                Err(Failure::Closed { stale: false, .. }) => assert!(!ends_well),
                Err(failure) => panic!("{failure:?}"),
            }
        }
    };
    both(serves, asks).await;
    assert_eq!(agains.into_inner(), 2);
}

#[tokio::test]
async fn half_a_head_over_an_old_connection_is_as_good_as_none_and_half_a_body_is_not() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut stream = worker.accepts().await;
        reads(&mut stream).await;
        writes(&mut stream, WHOLE).await;
        reads(&mut stream).await;
        writes(&mut stream, "HTTP/1.1 200 OK\r\ncontent-le").await;
        drop(stream);
        let mut next = worker.accepts().await;
        reads(&mut next).await;
        writes(&mut next, BEGUN).await;
    };
    let asks = async {
        assert_eq!(asks(&upstream, &worker.spec).await, "ok");
        let again = AtomicUsize::new(0);
        let counts = || {
            again.fetch_add(1, Ordering::Relaxed);
        };
        let answer = send_of(&upstream, &worker.spec, &outgoing(), counts).await;
        // Nothing of it has come to anybody.
        let answer = answer.unwrap();
        assert_eq!(again.into_inner(), 1);
        assert!(answer.into_body().collect().await.is_err());
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn no_more_connections_are_kept_than_an_engine_can_use() {
    let worker = Worker::start().await;
    let pool = Pool::new(Keep { most: 2, ..Keep::USUAL });
    let place = Arc::new(Place::of(&worker.spec.endpoint).unwrap());
    let mut streams = Vec::new();
    for _ in 0..3 {
        let (link, stream) = used(&worker).await;
        pool.keep(&place, link);
        streams.push(stream);
    }
    is_closed(&mut streams[2]).await;
    let take = || pool.take(place.endpoint()).and_then(|(_, link)| link);
    assert!(take().is_some() && take().is_some() && take().is_none());
    // One that isn't in use may be kept again.
    let (link, _stream) = used(&worker).await;
    pool.keep(&place, link);
    assert!(take().is_some());
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed_in_time() {
    let worker = Worker::start().await;
    let short = Duration::from_millis(20);
    let pool = Pool::new(Keep { idle: short, sweep: short, ..Keep::USUAL });
    let place = Arc::new(Place::of(&worker.spec.endpoint).unwrap());
    let (link, mut stream) = used(&worker).await;
    pool.keep(&place, link);
    is_closed(&mut stream).await;
    assert!(pool.take(place.endpoint()).is_none(), "nothing is known of it any more");
    // Nor is one used that nobody has looked at in time.
    let never = Duration::from_secs(3_600);
    let pool = Pool::new(Keep { idle: Duration::ZERO, sweep: never, ..Keep::USUAL });
    settles().await;
    let (link, mut stream) = used(&worker).await;
    pool.keep(&place, link);
    assert!(pool.take(place.endpoint()).is_some_and(|(_, link)| link.is_none()));
    is_closed(&mut stream).await;
    // An engine closes its side after five seconds, as a rule.
    assert!(Keep::USUAL.idle < Duration::from_secs(5));
}

#[tokio::test]
async fn connections_end_with_who_uses_them() {
    let worker = Worker::start().await;
    let upstream = upstream();
    let serves = async {
        let mut stream = worker.accepts().await;
        reads(&mut stream).await;
        writes(&mut stream, WHOLE).await;
        is_closed(&mut stream).await;
    };
    let asks = async {
        assert_eq!(asks(&upstream, &worker.spec).await, "ok");
        drop(upstream);
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_told_from_one_that_ends() {
    let worker = Worker::start().await;
    let upstream = upstream();
    let nobody = worker.spec.clone();
    drop(worker);
    let failure = send(&upstream, &nobody).await.unwrap_err();
    assert!(
        matches!(&failure, Failure::Connect(error) if error.kind() == std::io::ErrorKind::ConnectionRefused)
    );
    assert_eq!((failure.kind(), failure.blames_worker()), ("connect", None));
    for endpoint in ["", "no address"] {
        let nowhere = WorkerSpec { endpoint: endpoint.into(), ..nobody.clone() };
        let failure = send(&upstream, &nowhere).await.unwrap_err();
        assert!(matches!(failure, Failure::Endpoint), "{endpoint:?} {failure:?}");
    }
    let late = Failure::connecting(std::io::ErrorKind::TimedOut.into());
    assert_eq!(late.kind(), "connect");
    let ours = Failure::connecting(std::io::Error::from_raw_os_error(24));
    assert_eq!((ours.kind(), ours.blames_worker()), ("exhausted", None));
}
