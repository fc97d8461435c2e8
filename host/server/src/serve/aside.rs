//! A future beside another that is looked at far more often: polled only when it has been woken
//! itself.
//!
//! A connection's task is woken for bytes, and each time it would ask all that can end the connection,
//! most of it behind locks, whether it has.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Such a future.
pub(super) struct Aside<F> {
    future: F,
    rung: Arc<Rung>,
    waker: Waker,
}

/// Whether it has been woken, and who is to be woken then.
#[derive(Debug)]
struct Rung {
    task: AtomicWaker,
    woken: AtomicBool,
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

impl<F: Future + Unpin> Aside<F> {
    pub(super) fn new(future: F) -> Self {
        // The first time it is asked.
        let rung = Arc::new(Rung { task: AtomicWaker::new(), woken: AtomicBool::new(true) });
        let waker = Waker::from(rung.clone());
        Self { future, rung, waker }
    }
}

impl<F: Future + Unpin> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, rung, waker } = &mut *self;
        rung.task.register(cx.waker());
        if rung.woken.swap(false, Ordering::SeqCst) {
            return Pin::new(future).poll(&mut Context::from_waker(waker));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::poll;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn it_is_asked_at_first_and_when_it_was_woken_and_not_otherwise() {
        let (bell, mut asked) = (Notify::new(), 0);
        let mut rings = Box::pin(bell.notified());
        let counted = poll_fn(|cx| {
            asked += 1;
            rings.as_mut().poll(cx)
        });
        let mut aside = Aside::new(counted);
        for _ in 0..3 {
            assert!(poll!(&mut aside).is_pending());
        }
        bell.notify_one();
        assert!(poll!(&mut aside).is_ready());
        drop(aside);
        assert_eq!(asked, 2);
    }
}
