//! Which room a request's body takes, and how large it may be.

use axum::extract::{FromRequest, Request};

use super::front::Front;
use super::{MOST_BODY, MOST_EVENTS_BODY};
use crate::rest::{JsonBody, JsonBytes, RestError};

impl FromRequest<Front> for JsonBytes {
    type Rejection = RestError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, RestError> {
        let pushes_events = request.uri().path().ends_with("/kv_events");
        let (room, most) = match pushes_events {
            true => (&front.events, MOST_EVENTS_BODY),
            false => (&front.others, MOST_BODY),
        };
        Self::read(request, room, most, &front.app.config.proxy).await
    }
}

impl FromRequest<Front> for JsonBody {
    type Rejection = RestError;

    async fn from_request(request: Request, front: &Front) -> Result<Self, RestError> {
        Self::of(JsonBytes::from_request(request, front).await?)
    }
}
