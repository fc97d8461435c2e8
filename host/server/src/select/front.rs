//! What the handlers share: the app, the settings, and the room for bodies; and the count of requests.

use std::sync::Arc;

use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;

use super::body::Parsing;
use super::incomplete::Incomplete;
use crate::app::App;
use crate::bodies::Room;
use crate::config::SelectConfig;

/// Stands for paths that there aren't.
const NO_PATH: &str = "unknown";

/// The selection service's state.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) app: App,
    pub(super) config: SelectConfig,
    /// For all bodies together.
    pub(super) room: Room,
    /// For what they are read into.
    pub(super) parsing: Parsing,
    /// Workers that wait for their endpoint.
    pub(super) incomplete: Arc<Mutex<Incomplete>>,
}

impl Front {
    pub(super) fn new(app: App, config: SelectConfig) -> Self {
        let room = Room::new(config.body_budget, app.metrics.selections().body_bytes());
        Self { app, config, room, parsing: Parsing::default(), incomplete: Arc::default() }
    }
}

impl FromRef<Front> for App {
    fn from_ref(front: &Front) -> Self {
        front.app.clone()
    }
}

/// Counts a request by its path and status.
pub(super) async fn count(State(front): State<Front>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let path = path.as_ref().map_or(NO_PATH, MatchedPath::as_str);
    front.app.metrics.selections().answered(path, response.status().as_str());
    response
}
