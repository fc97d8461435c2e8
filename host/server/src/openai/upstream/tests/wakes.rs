//! Who waits is woken, by whatever he waits for, and by nothing else.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::{JoinSet, coop};

use super::*;

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }

    /// Within the time that there is.
    async fn rings(&self) {
        let rings = async {
            while self.rung() == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, rings).await.expect("it rings");
    }
}

fn poll(reply: &mut Reply, bell: &Arc<Bell>) -> Poll<Option<Bytes>> {
    let waker = Waker::from(bell.clone());
    let polled = Pin::new(reply).poll_frame(&mut Context::from_waker(&waker));
    polled.map(|frame| frame.map(|frame| frame.unwrap().into_data().unwrap()))
}

/// An answer that has begun, and the engine's side.
async fn begun(upstream: &Upstream, worker: &Worker) -> (Reply, TcpStream) {
    let serves = async {
        let mut stream = worker.accepts().await;
        reads(&mut stream).await;
        writes(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        stream
    };
    let (answer, stream) = tokio::join!(send(upstream, &worker.spec), serves);
    (answer.unwrap().into_body(), stream)
}

#[tokio::test]
async fn a_silent_engine_wakes_nobody_and_each_word_whoever_asked_last() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let (mut reply, mut stream) = begun(&upstream, &worker).await;
    let (before, bell) = (Arc::<Bell>::default(), Arc::<Bell>::default());
    assert!(poll(&mut reply, &before).is_pending());
    before.rung();
    for _ in 0..3 {
        assert!(poll(&mut reply, &bell).is_pending());
        settles().await;
        assert_eq!(bell.rung(), 0, "nothing has come");
        writes(&mut stream, "2\r\nok\r\n").await;
        bell.rings().await;
        assert_eq!(poll(&mut reply, &bell), Poll::Ready(Some("ok".into())));
        bell.rung();
    }
    writes(&mut stream, "0\r\n\r\n").await;
    let mut end = poll(&mut reply, &bell);
    if end.is_pending() {
        bell.rings().await;
        end = poll(&mut reply, &bell);
    }
    assert_eq!(end, Poll::Ready(None));
    assert_eq!(before.rung(), 0, "who asks no more is left alone");
}

#[tokio::test]
async fn a_task_that_has_done_too_much_at_once_comes_to_its_answer_later() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let (mut reply, mut stream) = begun(&upstream, &worker).await;
    let bell = Arc::<Bell>::default();
    assert!(poll(&mut reply, &bell).is_pending());
    writes(&mut stream, "2\r\nok\r\n").await;
    bell.rings().await;
    let tired = std::future::poll_fn(|cx| {
        while coop::has_budget_remaining() {
            let _ = std::pin::pin!(coop::consume_budget()).poll(cx);
        }
        Poll::Ready(poll(&mut reply, &bell))
    });
    assert!(tired.await.is_pending());
    // It is to be asked again, though nothing more comes.
    bell.rings().await;
    assert_eq!(poll(&mut reply, &bell), Poll::Ready(Some("ok".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_wake_up_is_lost_among_threads() {
    const STREAMS: usize = 6;
    const WORDS: usize = 3_000;
    let upstream = upstream();
    let mut tasks = JoinSet::new();
    for _ in 0..STREAMS {
        let worker = Worker::start().await;
        let spec = worker.spec.clone();
        tasks.spawn(async move {
            let mut stream = worker.accepts().await;
            stream.set_nodelay(true).unwrap();
            for _ in 0..2 {
                reads(&mut stream).await;
                writes(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                for _ in 0..WORDS {
                    writes(&mut stream, "2\r\nok\r\n").await;
                    tokio::task::yield_now().await;
                }
                writes(&mut stream, END).await;
            }
            is_closed(&mut stream).await;
        });
        let upstream = upstream.clone();
        tasks.spawn(async move {
            for _ in 0..2 {
                assert_eq!(asks(&upstream, &spec).await.len(), 2 * WORDS);
            }
        });
    }
    drop(upstream);
    timeout(3 * PATIENCE, tasks.join_all()).await.expect("nobody waits for ever");
}
