//! A request's body as JSON.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use http::{StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::error::{AdminError, clipped};
use super::{MOST_BODY, MOST_EVENTS_BODY};
use crate::json::{self, Told, without_lone_surrogates};

/// So much of a body that is too large is read and thrown away, since a client that still sends
/// doesn't read the answer.
const MOST_DISCARDED: usize = 64 << 20;

/// A JSON body.
///
/// It must say that it is one: a page in an operator's browser can send any other type across
/// origins without asking. What the JSON must be is its reader's to say.
#[derive(Debug)]
pub(super) struct JsonBody {
    told: Told,
    /// As it came.
    pub(super) bytes: Bytes,
}

/// A body that says that it is JSON, unread.
#[derive(Debug)]
pub(super) struct JsonBytes(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonBytes {
    type Rejection = AdminError;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
            return Err(AdminError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be JSON; send content-type: application/json",
            ));
        }
        let pushes_events = request.uri().path().ends_with("/kv_events");
        let most = if pushes_events { MOST_EVENTS_BODY } else { MOST_BODY };
        whole(request.into_body(), most).await.map(Self)
    }
}

/// A body, if it isn't too large.
async fn whole(mut body: Body, most: usize) -> Result<Bytes, AdminError> {
    let (mut bytes, mut length) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            AdminError::bad_request(format!("the body broke off: {error}; send it again"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length <= most {
            bytes.extend_from_slice(&data);
        } else if length > MOST_DISCARDED.max(most) {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    if length > most {
        let error =
            format!("the body has more than the {most} bytes that are taken here; send less");
        return Err(AdminError::new(StatusCode::PAYLOAD_TOO_LARGE, error));
    }
    Ok(bytes.into())
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = AdminError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AdminError> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, state).await?;
        let parsed = json::read(&bytes).or_else(|error| {
            // As the public listener takes them.
            let copy = without_lone_surrogates(&bytes).ok_or(error)?;
            json::read(&copy)
        });
        let told = parsed.map_err(|error| {
            AdminError::bad_request(format!("the body is not JSON: {error}; send one JSON object"))
        })?;
        Ok(Self { told, bytes })
    }
}

impl JsonBody {
    /// What it says, to look at.
    pub(super) fn value(&self) -> &Value {
        &self.told.value
    }

    /// What it says, if it says nothing twice.
    pub(super) fn once(self) -> Result<Value, AdminError> {
        let Told { value, twice } = self.told;
        match twice {
            None => Ok(value),
            Some(field) => {
                let field = clipped(&field);
                let error = format!("the body has the field {field:?} twice; send it once");
                Err(AdminError::bad_request(error))
            }
        }
    }
}
