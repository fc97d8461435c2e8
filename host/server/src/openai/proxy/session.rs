//! A request's stay with its session ([`crate::stays`]), as far as its client is told of it.

use std::pin::pin;
use std::sync::Arc;

use pointsman_core::ids::PartitionKey;
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};

use super::attempt::Attempt;
use crate::dispatch::DispatchError;
use crate::openai::error::ApiError;
use crate::openai::{Front, Route};
use crate::prompts::Prompt;
use crate::stays::{self, Unsettled};

/// A request's stay with its session.
#[derive(Debug)]
pub(super) struct Stay {
    stay: stays::Stay,
    /// The header or field by which the client itself asks for a worker.
    pinned_by: Option<&'static str>,
}

impl Stay {
    /// See [`stays::Stay::begin`].
    pub(super) async fn begin(
        front: &Front,
        request: &mut RouteRequest,
        pinned_by: Option<&'static str>,
        end: Instant,
    ) -> Result<Self, ApiError> {
        let stay = stays::Stay::begin(&front.app.dispatcher, request, end).await;
        let stay = stay.map_err(|error| front.unsettled(&error, pinned_by))?;
        Ok(Self { stay, pinned_by })
    }

    /// Has a request decided and booked, by the worker of its session if it is bound to one. An error of
    /// the outer kind is the last word.
    pub(super) async fn decide(
        &mut self,
        front: &Front,
        route: Route,
        request: &mut Arc<RouteRequest>,
        prompt: &Prompt,
        end: Instant,
    ) -> Result<Result<Attempt, DispatchError>, ApiError> {
        loop {
            let decided = Attempt::decide(front, route, request.clone(), prompt);
            let decided = timeout_at(end, pin!(decided)).await;
            match decided.map_err(|_| front.decided_too_late())? {
                Ok(attempt) if self.lost_by_decision(attempt.receipt()) => drop(attempt),
                Err(error) if self.lost_by_error(&error) => {}
                Ok(attempt) => return Ok(Ok(attempt)),
                Err(error) => return Ok(Err(self.in_words(error, &request.partition))),
            }
            self.renew(front, Arc::make_mut(request), end).await?;
        }
    }

    /// See [`stays::Stay::lost_by_error`].
    pub(super) fn lost_by_error(&self, error: &DispatchError) -> bool {
        self.stay.lost_by_error(error)
    }

    /// See [`stays::Stay::in_words`].
    pub(super) fn in_words(&self, error: DispatchError, partition: &PartitionKey) -> DispatchError {
        self.stay.in_words(error, partition)
    }

    /// See [`stays::Stay::lost_by_decision`].
    pub(super) fn lost_by_decision(&self, receipt: &Receipt) -> bool {
        self.stay.lost_by_decision(receipt)
    }

    /// See [`stays::Stay::holds`].
    pub(super) fn holds(&self, was_overload: bool) -> bool {
        self.stay.holds(was_overload)
    }

    /// See [`stays::Stay::renew`].
    pub(super) async fn renew(
        &mut self,
        front: &Front,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<(), ApiError> {
        let renewed = self.stay.renew(&front.app.dispatcher, request, end).await;
        renewed.map_err(|error| front.unsettled(&error, self.pinned_by))
    }

    /// An answer is to be passed on: if it has begun well, the session is bound to its worker, and
    /// the stay ends with it.
    pub(super) fn end(self, attempt: &mut Attempt) {
        if attempt.has_begun() {
            attempt.session = self.stay.started(attempt.receipt());
        }
    }
}

impl Front {
    fn unsettled(&self, error: &Unsettled, pinned_by: Option<&'static str>) -> ApiError {
        match error {
            Unsettled::Conflict(conflict) => ApiError::bound_elsewhere(conflict, pinned_by),
            Unsettled::Late(late) => ApiError::undecided(&late.clone().into(), None),
            Unsettled::TooLate => self.decided_too_late(),
        }
    }
}

#[cfg(test)]
mod tests;
