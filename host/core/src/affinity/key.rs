//! What a binding is kept under.

use std::sync::Arc;

use serde::Serialize;

use crate::request::Session;

/// A session, or all that one session has started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum SessionKey {
    /// A session by its own id.
    Session(Arc<str>),
    /// The sessions that this one started: they share a binding, which isn't its own.
    SubagentsOf(Arc<str>),
}

impl SessionKey {
    /// What a request of a session goes by: subagents go together, unless they are pinned one by
    /// one.
    #[must_use]
    pub fn of(session: &Session, pinned: bool) -> Self {
        match &session.parent_id {
            Some(parent) if !pinned => Self::SubagentsOf(parent.clone()),
            _ => Self::Session(session.id.clone()),
        }
    }

    /// The id in it.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        match self {
            Self::Session(id) | Self::SubagentsOf(id) => id,
        }
    }

    /// Whether several sessions share it.
    #[must_use]
    pub fn is_group(&self) -> bool {
        matches!(self, Self::SubagentsOf(_))
    }
}
