//! What went wrong, as callers of the selection service are told: the one place where an error becomes a
//! status here.
//!
//! The statuses are those of the selection API of other routers, so not in all cases those of the public
//! listener: who asks here has no engine's answer to pass on. `details.type` is the stable kind, the same
//! everywhere.

use http::StatusCode;
use pointsman_core::RouteError;
use pointsman_core::classifier::ClassificationError;
use pointsman_core::eligibility::PinProblem;
use pointsman_core::ids::WorkerRank;
use pointsman_core::ledger::ReserveError;
use pointsman_core::partition::DirectError;
use serde_json::json;

use crate::dispatch::DispatchError;
use crate::rest::{RestError, clipped};
use crate::stays::Unsettled;

/// When somebody who was turned away may come again, in seconds.
const COME_AGAIN: u16 = 1;

fn of_kind(status: StatusCode, kind: &str, words: String) -> RestError {
    let error = RestError::new(status, words).with_details(json!({ "type": kind }));
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            error.again_in(COME_AGAIN)
        }
        _ => error,
    }
}

/// Nothing was decided.
pub(super) fn undecided(error: &DispatchError) -> RestError {
    let error = match error {
        DispatchError::Route(error) => error,
        DispatchError::Abandoned(_) => {
            let words = "the router failed; its log says more".to_owned();
            return of_kind(StatusCode::INTERNAL_SERVER_ERROR, "internal", words);
        }
    };
    of_kind(status(error), error.kind(), error.to_string())
}

fn status(error: &RouteError) -> StatusCode {
    match error {
        RouteError::NoPartition(_) => StatusCode::NOT_FOUND,
        RouteError::NoEndpoints { .. } | RouteError::AllEligibleWorkersFiltered { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        RouteError::PinnedWorker { problem, .. } => match problem {
            PinProblem::NotAllowed => StatusCode::BAD_REQUEST,
            PinProblem::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        },
        RouteError::NoTarget { .. } => StatusCode::BAD_REQUEST,
        RouteError::Policy(_) => StatusCode::INTERNAL_SERVER_ERROR,
        RouteError::AllEligibleWorkersOverloaded(_)
        | RouteError::QueueRejected { .. }
        | RouteError::DoNotQueue { .. }
        | RouteError::DeadlineExceeded { .. } => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// All the time that a request may take went by.
pub(super) fn too_late() -> RestError {
    let words = "no worker was chosen in time; try again later".to_owned();
    of_kind(StatusCode::TOO_MANY_REQUESTS, "decision_timeout", words)
}

/// The request classifier doesn't let it in.
pub(super) fn not_admitted(error: &ClassificationError) -> RestError {
    let status = match error {
        ClassificationError::Rejected => StatusCode::SERVICE_UNAVAILABLE,
        ClassificationError::Duplicate(_) => StatusCode::CONFLICT,
        ClassificationError::Failed(_) | ClassificationError::LifecycleEnded => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    of_kind(status, error.kind(), error.to_string())
}

/// It has no stay with its session.
pub(super) fn unsettled(error: &Unsettled) -> RestError {
    match error {
        Unsettled::Conflict(conflict) => {
            of_kind(StatusCode::CONFLICT, "session_affinity_conflict", conflict.to_string())
        }
        Unsettled::Late(late) => undecided(&late.clone().into()),
        Unsettled::TooLate => too_late(),
    }
}

/// It isn't reserved.
pub(super) fn unreserved(error: &ReserveError) -> RestError {
    match error {
        ReserveError::Duplicate { request_id, worker } => duplicate(request_id, worker),
        ReserveError::Full { .. } => {
            of_kind(StatusCode::SERVICE_UNAVAILABLE, "reservations_full", error.to_string())
        }
    }
}

/// Its id is taken.
pub(super) fn duplicate(id: &str, worker: &WorkerRank) -> RestError {
    let id = clipped(id);
    let words =
        format!("{id:?} is reserved on {worker} already; free that first, or use another id");
    of_kind(StatusCode::CONFLICT, "duplicate_reservation", words)
}

/// It can't be booked where its owner wants it.
pub(super) fn not_booked(error: &DirectError) -> RestError {
    of_kind(StatusCode::NOT_FOUND, "no_such_worker", error.to_string())
}

/// There is no such reservation.
pub(super) fn no_reservation(id: &str) -> RestError {
    let id = clipped(id);
    let words = format!(
        "{id:?} isn't reserved: it was freed, or nobody spoke of it for as long as its lease; reserve again"
    );
    of_kind(StatusCode::NOT_FOUND, "no_such_reservation", words)
}

/// There is no selection of that id to be booked.
pub(super) fn no_selection(id: &str, why: &str) -> RestError {
    let id = clipped(id);
    let words =
        format!("no selection {id:?} can be booked: {why}; select again, or name the worker");
    of_kind(StatusCode::NOT_FOUND, "no_such_selection", words)
}
