//! Answers that are looked up where one may wait.
//!
//! What a view shows is behind locks that a long write holds for a while: a partition's index, a
//! policy that decides. Whoever waits for one on a thread of the listeners keeps others' requests
//! waiting with it, so views are looked up, and written, on a thread of their own.

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::error::RestError;

/// Looks something up on a thread that may wait, and makes the answer there.
pub(crate) async fn aside<A: IntoResponse>(
    look: impl FnOnce() -> Result<A, RestError> + Send + 'static,
) -> Result<Response, RestError> {
    let answer = tokio::task::spawn_blocking(move || look().map(IntoResponse::into_response));
    answer.await.unwrap_or_else(|error| {
        // The runtime ends, or it is a bug of ours.
        tracing::error!(%error, "a view can't be shown");
        let words = "the router can't show this now; see its log";
        Err(RestError::new(StatusCode::INTERNAL_SERVER_ERROR, words))
    })
}
