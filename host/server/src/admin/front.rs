//! What the handlers share: the app, the room for bodies, and the page of metrics.

use axum::extract::FromRef;

use super::meters::Scrapes;
use super::{MOST_BODY, MOST_EVENTS_BODY};
use crate::app::App;
use crate::bodies::Room;

/// Bodies of the largest size that may be held at once.
const BODIES: usize = 4;

/// Other bodies are so small that more of them may.
const SMALL_BODIES: usize = 16;

/// The admin listener's state.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) app: App,
    /// For all pushed events together.
    pub(super) events: Room,
    /// For all other bodies: whoever registers workers doesn't wait for whoever pushes events.
    pub(super) others: Room,
    pub(super) scrapes: Scrapes,
}

impl Front {
    pub(super) fn new(app: App) -> Self {
        let taken = app.metrics.admin_body_bytes();
        Self {
            events: Room::new(BODIES * MOST_EVENTS_BODY, taken.clone()),
            others: Room::new(SMALL_BODIES * MOST_BODY, taken),
            scrapes: Scrapes::default(),
            app,
        }
    }
}

impl FromRef<Front> for App {
    fn from_ref(front: &Front) -> Self {
        front.app.clone()
    }
}

impl FromRef<Front> for Scrapes {
    fn from_ref(front: &Front) -> Self {
        front.scrapes.clone()
    }
}
