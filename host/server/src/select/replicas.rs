//! Replicas that tell each other their load: not in this version.

use http::StatusCode;

use crate::rest::RestError;

/// Says so.
pub(super) async fn not_here() -> RestError {
    RestError::new(
        StatusCode::NOT_IMPLEMENTED,
        "replicas don't tell each other their load in this version; send all requests of a model to one \
         router",
    )
}
