//! The streams of an HTTP/2 connection that are worked on in the connection's own task.
//!
//! They end with the connection. It knows nothing of what they are.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use hyper::rt::Executor;
use parking_lot::Mutex;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Those that have begun since the connection last looked.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<Stream>>>);

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Begun").field(&self.0.lock().len()).finish()
    }
}

impl<F> Executor<F> for Begun
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let guarded = AssertUnwindSafe(future).catch_unwind();
        let stream = Box::pin(async move {
            // A bug of ours in one of them is not to end the others.
            if guarded.await.is_err() {
                tracing::error!("a stream of a connection has panicked, and is reset");
            }
        });
        self.0.lock().push(stream);
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Streams {
    begun: Begun,
    open: FuturesUnordered<Stream>,
}

impl Streams {
    /// Where new ones are put.
    pub(super) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// Works on those that can go on. What they have to send, they tell the connection by its waker.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        self.open.extend(self.begun.0.lock().drain(..));
        while let Poll::Ready(Some(())) = self.open.poll_next_unpin(cx) {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;

    #[test]
    fn one_that_panics_leaves_the_others_to_end() {
        let (mut streams, ended) = (Streams::default(), Arc::<AtomicUsize>::default());
        for nth in 0..5 {
            let ended = ended.clone();
            streams.begun().execute(async move {
                tokio::task::yield_now().await;
                assert_ne!(nth, 2, "the bug");
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        for _ in 0..3 {
            streams.poll(&mut Context::from_waker(Waker::noop()));
        }
        assert_eq!((ended.load(Ordering::Relaxed), streams.open.len()), (4, 0));
    }
}
