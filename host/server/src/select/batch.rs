//! Several selections at once: `POST /select/batch` and `POST /select_and_reserve/batch`.
//!
//! Owns that they are decided in the order in which they stand, each seeing what the ones before it
//! booked, and that each has a result of its own: what is wrong with one is nothing to the others.

use axum::extract::State;
use axum::response::Response;
use futures_util::future::join_all;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::answer::Selection;
use super::ask::{Ask, Purpose, class_of, told};
use super::body::Told;
use super::front::Front;
use super::handed::handed;
use crate::json::Fields;
use crate::json::values::show;
use crate::rest::{Json, RestError};

/// The most requests of one batch.
const MOST: usize = 1_024;

/// What became of all.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    results: Vec<Outcome>,
}

/// What became of one: a selection or an error, with the status that it would have had alone.
#[derive(Debug, Serialize)]
struct Outcome {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<Selection>,
    /// As it would have been the body of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl Outcome {
    fn of(result: Result<Selection, RestError>) -> Self {
        match result {
            Ok(selection) => {
                let status = StatusCode::OK.as_u16();
                Self { status, selection: Some(selection), error: None }
            }
            Err(error) => {
                let (status, body) = error.into_parts();
                Self { status: status.as_u16(), selection: None, error: Some(body) }
            }
        }
    }
}

pub(super) async fn select(
    State(front): State<Front>,
    headers: HeaderMap,
    told: Told,
) -> Result<Json<Results>, RestError> {
    front.takes_new()?;
    let asked = front.asked(told, &headers, Purpose::Select)?;
    // Each comes to its partition's gate in its turn.
    let all = join_all(asked.into_iter().map(async |ask| front.select_once(ask?).await)).await;
    Ok(Json(Results { results: all.into_iter().map(Outcome::of).collect() }))
}

pub(super) async fn select_and_reserve(
    State(front): State<Front>,
    headers: HeaderMap,
    told: Told,
) -> Result<Response, RestError> {
    front.takes_new()?;
    let asked = front.asked(told, &headers, Purpose::Reserve)?;
    let all = join_all(asked.into_iter().map(async |ask| front.reserve_once(ask?).await)).await;
    let mut tells_of = Vec::new();
    let results = all.into_iter().map(|result| {
        Outcome::of(result.map(|(selection, untold)| {
            tells_of.push(untold);
            selection
        }))
    });
    let results = Results { results: results.collect() };
    Ok(handed(Json(results), tells_of).await)
}

impl Front {
    /// What each of a batch asks, or what is wrong with it.
    fn asked(
        &self,
        told: Told,
        headers: &HeaderMap,
        purpose: Purpose,
    ) -> Result<Vec<Result<Ask, RestError>>, RestError> {
        let class = class_of(headers)?;
        let class = class.as_ref();
        told.read(|body| {
            let requests = read(body)?;
            Ok(requests.iter().map(|one| self.ask(one, class, purpose)).collect())
        })
    }
}

fn read(mut body: Value) -> Result<Vec<Value>, RestError> {
    let checked = Fields::of(&body).and_then(|mut fields| {
        let _ = fields.required("requests", |value| {
            let expected = format!("a list of 1 to {MOST} requests");
            match value.as_array().map(Vec::len) {
                Some(1..=MOST) => Ok(()),
                Some(length) => Err(format!("has {length} entries; expected {expected}")),
                None => Err(format!("is {}; expected {expected}", show(value))),
            }
        });
        fields.finish()
    });
    checked.map_err(|problems| told(&problems))?;
    Ok(match body.get_mut("requests").map(Value::take) {
        Some(Value::Array(requests)) => requests,
        // It was found to be one.
        _ => Vec::new(),
    })
}
