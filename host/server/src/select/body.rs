//! A request's body as JSON.

use axum::extract::{FromRequest, Request};
use http_body::Body as _;
use serde_json::{Value, json};

use super::ask::told;
use super::front::Front;
use crate::admin::{AdminError, JsonBody, JsonBytes};
use crate::json::Fields;

/// A JSON body that says nothing twice.
#[derive(Debug)]
pub(super) struct Told(pub(super) Value);

impl FromRequest<Front> for Told {
    type Rejection = AdminError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, AdminError> {
        let (most, proxy) = (front.config.max_body, &front.app.config.proxy);
        let bytes = JsonBytes::read(request, &front.room, most, proxy).await?;
        JsonBody::of(bytes)?.once().map(Self)
    }
}

/// The same, or none at all, which says as much as an empty object.
#[derive(Debug)]
pub(super) struct MaybeTold(pub(super) Value);

impl FromRequest<Front> for MaybeTold {
    type Rejection = AdminError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, AdminError> {
        // Some clients name a type and send nothing with it.
        if request.body().is_end_stream() {
            return Ok(Self(json!({})));
        }
        Told::from_request(request, front).await.map(|Told(value)| Self(value))
    }
}

/// A body that says nothing: none, or an empty object.
#[derive(Debug)]
pub(super) struct Nothing;

impl FromRequest<Front> for Nothing {
    type Rejection = AdminError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, AdminError> {
        let MaybeTold(body) = MaybeTold::from_request(request, front).await?;
        let nothing = Fields::of(&body).and_then(Fields::finish);
        nothing.map(|()| Self).map_err(|problems| told(&problems))
    }
}
