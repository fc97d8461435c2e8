//! A request's body as JSON.

use axum::body::Bytes;
use axum::extract::Request;
use http::{StatusCode, header};
use serde_json::Value;
use tokio::time::Instant;

use super::error::{RestError, clipped};
use crate::bodies::{self, BodyError, Bounds, Room};
use crate::config::ProxyConfig;
use crate::json::{self, Told, without_lone_surrogates};

/// So much of a body that is too large is read and thrown away, since a client that still sends
/// doesn't read the answer.
const MOST_DISCARDED: usize = 64 << 20;

/// A JSON body.
///
/// It must say that it is one: a page in an operator's browser can send any other type across
/// origins without asking. What the JSON must be is its reader's to say.
#[derive(Debug)]
pub(crate) struct JsonBody {
    told: Told,
    /// Whether halves of surrogate pairs were replaced in what it is told to say.
    mended: bool,
    /// As it came.
    pub(crate) bytes: Bytes,
}

/// A body that says that it is JSON, unread.
#[derive(Debug)]
pub(crate) struct JsonBytes(pub(crate) Bytes);

impl JsonBytes {
    /// Reads a body of at most so many bytes, as soon as there is room.
    pub(crate) async fn read(
        request: Request,
        room: &Room,
        most: usize,
        proxy: &ProxyConfig,
    ) -> Result<Self, RestError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
            return Err(RestError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be JSON; send content-type: application/json",
            ));
        }
        let end = Instant::now() + proxy.total_timeout;
        let bounds = Bounds { most, client_timeout: proxy.client_timeout, end };
        let mut body = request.into_body();
        match bodies::whole(&mut body, room, bounds).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(error) => {
                if matches!(error, BodyError::TooLarge | BodyError::NoRoom) {
                    let bounds = Bounds { most: MOST_DISCARDED.max(most), ..bounds };
                    bodies::discard(&mut body, bounds).await;
                }
                Err(RestError::of_body(&error, most))
            }
        }
    }
}

impl JsonBody {
    /// Reads what a body says.
    pub(crate) fn of(JsonBytes(bytes): JsonBytes) -> Result<Self, RestError> {
        let mut mended = false;
        let parsed = json::read(&bytes).or_else(|error| {
            // As the public listener takes clients' bodies.
            let copy = without_lone_surrogates(&bytes).ok_or(error)?;
            mended = true;
            json::read(&copy)
        });
        let told = parsed.map_err(|error| {
            RestError::bad_request(format!("the body is not JSON: {error}; send one JSON object"))
        })?;
        Ok(Self { told, mended, bytes })
    }

    /// What it says, to look at.
    pub(crate) fn value(&self) -> &Value {
        &self.told.value
    }

    /// What it says, if it says nothing twice, and all of it is text: it is nobody else's to read.
    pub(crate) fn once(self) -> Result<Value, RestError> {
        if self.mended {
            let error = "the body has half of a surrogate pair in a text; send whole characters";
            return Err(RestError::bad_request(error));
        }
        let Told { value, twice } = self.told;
        match twice {
            None => Ok(value),
            Some(field) => {
                let field = clipped(&field);
                let error = format!("the body has the field {field:?} twice; send it once");
                Err(RestError::bad_request(error))
            }
        }
    }
}
