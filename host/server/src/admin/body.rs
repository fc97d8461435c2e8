//! A request's body as JSON.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::{StatusCode, header};
use serde_json::Value;

use super::error::{AdminError, clipped};
use crate::json::{self, Told, without_lone_surrogates};

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

    async fn from_request(request: Request, state: &S) -> Result<Self, AdminError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
            return Err(AdminError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be JSON; send content-type: application/json",
            ));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| AdminError::new(rejection.status(), rejection.body_text()))?;
        Ok(Self(bytes))
    }
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
