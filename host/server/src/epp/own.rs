//! How long a piece of work keeps its thread: its own time, without what it waits for.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use pointsman_core::clock::Stopwatch;

/// Does a piece of work. Returns its own time, too.
pub(super) async fn own<F: Future>(work: F) -> (F::Output, Duration) {
    let (mut work, mut took) = (pin!(work), Duration::ZERO);
    let outcome = poll_fn(|cx| {
        let watch = Stopwatch::start();
        let outcome = work.as_mut().poll(cx);
        took += watch.elapsed();
        outcome
    });
    (outcome.await, took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_waited_for_is_not_the_works_own() {
        let (watch, pause) = (Stopwatch::start(), Duration::from_millis(5));
        // Between the work's two polls, in the same task.
        let others = async { std::thread::sleep(pause) };
        let (((), took), ()) = tokio::join!(own(tokio::task::yield_now()), others);
        assert!(watch.elapsed() >= took + pause, "{took:?}");
    }
}
