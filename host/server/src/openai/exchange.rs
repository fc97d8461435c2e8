//! One request as telemetry sees it, from its head to the end of its answer.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use pointsman_core::clock::Stopwatch;
use tracing::Span;

use super::Route;
use crate::telemetry::{Metrics, names};

/// Counts the request when it is dropped, wherever that happens.
#[derive(Debug)]
pub(super) struct Exchange {
    metrics: Arc<Metrics>,
    route: Route,
    watch: Stopwatch,
    /// When that began, in milliseconds on the router's clock.
    began_ms: u64,
    /// Set once it is known to be one that the router knows.
    model: Option<Arc<str>>,
    /// None until there is something to send.
    status: Option<StatusCode>,
    span: Span,
}

impl Exchange {
    pub(super) fn begin(metrics: Arc<Metrics>, route: Route, span: Span, now_ms: u64) -> Self {
        metrics.request_began();
        let (watch, began_ms) = (Stopwatch::start(), now_ms);
        Self { metrics, route, watch, began_ms, model: None, status: None, span }
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    pub(super) fn concerns(&mut self, model: Arc<str>) {
        self.model = Some(model);
    }

    pub(super) fn answers(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// The first token, or the first byte of an answer that doesn't stream.
    pub(super) fn first_token(&self) {
        self.metrics.first_token(self.model(), self.route.as_str(), self.watch.elapsed());
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Milliseconds on the router's clock.
    pub(super) fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.watch.elapsed().as_millis());
        self.began_ms.saturating_add(since.unwrap_or(u64::MAX))
    }

    fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(names::NO_MODEL)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // As other proxies count a client that didn't wait.
        let status = self.status.as_ref().map_or("499", StatusCode::as_str);
        let took = self.watch.elapsed();
        self.metrics.request_ended(self.model(), self.route.as_str(), status, took);
        tracing::debug!(
            parent: &self.span,
            status,
            seconds = took.as_secs_f64(),
            "the exchange ended"
        );
    }
}
