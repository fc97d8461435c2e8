//! A request's body as JSON.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use http_body::Body as _;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ask::told;
use super::front::Front;
use crate::json::Fields;
use crate::rest::{JsonBody, JsonBytes, RestError};

/// The most bytes of bodies that are trees of values at a time: such a tree takes up to some thirty times as
/// much, and half a millisecond for each hundred kilobytes.
const MOST_PARSED: usize = 8 << 20;

/// A JSON body that says nothing twice. What it is read into is many times as large as itself, so that only
/// so many bytes are in this state at a time: see [`Front::parsing`].
#[derive(Debug)]
pub(super) struct Told {
    value: Value,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Told {
    /// What is made of it, at once: who waits for anything holds only that.
    pub(super) fn read<T>(self, read: impl FnOnce(Value) -> T) -> T {
        let Self { value, _turn } = self;
        read(value)
    }
}

impl FromRequest<Front> for Told {
    type Rejection = RestError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, RestError> {
        let (most, proxy) = (front.config.max_body, &front.app.config.proxy);
        let bytes = JsonBytes::read(request, &front.room, most, proxy).await?;
        let _turn = front.parsing.turn(bytes.0.len()).await;
        let value = JsonBody::of(bytes)?.once()?;
        Ok(Self { value, _turn })
    }
}

/// How many bytes of bodies may be trees of values at a time.
#[derive(Clone, Debug)]
pub(super) struct Parsing(Arc<Semaphore>);

impl Default for Parsing {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_PARSED)))
    }
}

impl Parsing {
    /// When there is room for so many; for more than there can be, when there is all. None if nobody counts
    /// any more.
    async fn turn(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.min(MOST_PARSED)).unwrap_or(u32::MAX);
        self.0.clone().acquire_many_owned(bytes).await.ok()
    }
}

/// The same, or none at all, which says as much as an empty object.
#[derive(Debug)]
pub(super) struct MaybeTold(Told);

impl MaybeTold {
    /// As [`Told::read`].
    pub(super) fn read<T>(self, read: impl FnOnce(Value) -> T) -> T {
        self.0.read(read)
    }
}

impl FromRequest<Front> for MaybeTold {
    type Rejection = RestError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, RestError> {
        // Some clients name a type and send nothing with it.
        if request.body().is_end_stream() {
            return Ok(Self(Told { value: json!({}), _turn: None }));
        }
        Told::from_request(request, front).await.map(Self)
    }
}

/// A body that says nothing: none, or an empty object.
#[derive(Debug)]
pub(super) struct Nothing;

impl FromRequest<Front> for Nothing {
    type Rejection = RestError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, RestError> {
        let body = MaybeTold::from_request(request, front).await?;
        let nothing = body.read(|body| Fields::of(&body).and_then(Fields::finish));
        nothing.map(|()| Self).map_err(|problems| told(&problems))
    }
}
