//! `/metrics`: what was counted on the way, and what is read from the router at the scrape.
//!
//! What the router knows anyway is not counted a second time: its state is read and written down for
//! each scrape, so that a worker or a component that left leaves no stale series. Of a large fleet
//! that is much, so one page is made at a time, and who waits for it meanwhile gets the next one
//! together.

mod caches;
mod classifiers;
mod families;
mod page;
mod queue;
mod reports;
mod rollouts;
mod sessions;

use std::sync::{Arc, Weak};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::app::App;
use crate::rest::RestError;
use page::{Page, Written};

/// The page that was made last, as long as it is being sent; locked while the next one is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrapes(Arc<Mutex<Weak<Written>>>);

pub(super) async fn metrics(
    State(app): State<App>,
    State(scrapes): State<Scrapes>,
) -> Result<Response, RestError> {
    let page = scrapes.page(move || read(&app)).await.map_err(|error| {
        RestError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the metrics can't be read: {error}; please report this"),
        )
    })?;
    let kind = [(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)];
    Ok((kind, Body::new(page.send())).into_response())
}

impl Scrapes {
    /// A page that was begun after this call.
    async fn page(
        &self,
        read: impl FnOnce() -> Written + Send + 'static,
    ) -> Result<Arc<Written>, tokio::task::JoinError> {
        let asked = Instant::now();
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some(page) = last.upgrade().filter(|page| page.begun >= asked) {
            return Ok(page);
        }
        // Large indexes take a while to count, so that takes a thread. It has the lock, too: a client
        // that goes away doesn't end it.
        tokio::task::spawn_blocking(move || {
            let page = Arc::new(read());
            *last = Arc::downgrade(&page);
            page
        })
        .await
    }
}

/// The router's state as Prometheus reads it.
fn read(app: &App) -> Written {
    let (begun, mut page) = (Instant::now(), Page::default());
    let router = app.dispatcher.router();
    let workers = router.workers();
    families::workers(&mut page, &workers);
    families::ejections(&mut page, &workers, &app.workers.ejections());
    reports::scrapes(&mut page, &workers, &app.workers.load_scrapes());
    families::policies(&mut page, &app.policies.status());
    let feeds = app.workers.cache_feeds();
    for worker in &workers {
        for feed in feeds.get(&worker.spec.worker_id).into_iter().flatten() {
            caches::feed(&mut page, worker, feed);
        }
    }
    let now_ms = app.dispatcher.clock().now_ms();
    for partition in router.partitions() {
        families::partition(&mut page, &partition, now_ms);
        reports::partition(&mut page, &partition, now_ms);
        queue::partition(&mut page, partition.key(), &app.dispatcher.classes(partition.key()));
        rollouts::partition(&mut page, &partition);
        classifiers::partition(&mut page, &partition);
        sessions::partition(&mut page, &partition);
        caches::partition(&mut page, &partition, app.cache_alarm.rings(partition.key()));
    }
    rollouts::recording(&mut page, &app.recorder);
    caches::shared_cache(&mut page, app.shared_cache.rests());
    page.written(begun, app.metrics.encode())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn who_asks_while_a_page_is_made_gets_the_next_one_together() {
        let scrapes = Scrapes::default();
        let made = Arc::new(AtomicUsize::new(0));
        let page = |on_the_way: Box<dyn FnOnce() + Send>| {
            let made = Arc::clone(&made);
            move || {
                let begun = Instant::now();
                on_the_way();
                made.fetch_add(1, Ordering::SeqCst);
                Page::default().written(begun, String::new())
            }
        };
        let at_once = || page(Box::new(|| ()));
        let (go_on, goes_on) = channel();
        let (begins, begun) = channel();
        let mut first = Box::pin(scrapes.page(page(Box::new(move || {
            begins.send(()).unwrap();
            goes_on.recv().unwrap();
        }))));
        assert!(futures_util::poll!(&mut first).is_pending());
        begun.recv().unwrap();
        let mut others: Vec<_> = (0..8).map(|_| Box::pin(scrapes.page(at_once()))).collect();
        for other in &mut others {
            assert!(futures_util::poll!(other).is_pending());
        }
        // One that goes away leaves the others as they are.
        drop(others.pop());
        go_on.send(()).unwrap();
        let first = first.await.unwrap();
        let others = futures_util::future::join_all(others).await;
        let others: Vec<_> = others.into_iter().map(Result::unwrap).collect();
        assert_eq!(made.load(Ordering::SeqCst), 2);
        assert!(others.iter().all(|page| Arc::ptr_eq(page, &others[0])));
        assert!(!Arc::ptr_eq(&first, &others[0]));
        // Nothing of it is kept for later.
        let old = Arc::downgrade(&first);
        drop((first, others));
        assert!(old.upgrade().is_none());
        scrapes.page(at_once()).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }
}
