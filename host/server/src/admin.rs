//! The admin listener's routes.

use axum::Router;

use crate::app::App;

/// The routes of the admin listener.
pub fn router(app: App) -> Router {
    Router::new().with_state(app)
}
