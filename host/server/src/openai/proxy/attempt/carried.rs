//! What is particular to a try whose request somebody else carries to the worker, and the answer back.

use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, response};
use http_body::Frame;

use super::{Answer, Attempt, Failed, shape};
use crate::openai::Front;
use crate::openai::exchange::Exchange;
use crate::openai::stream::Course;
use crate::openai::upstream::{Failure, rank_header};

impl Attempt {
    /// Where the worker is.
    pub(in crate::openai) fn endpoint(&self) -> &str {
        &self.spec.endpoint
    }

    /// How long the request waited in the line.
    pub(in crate::openai) fn queued(&self) -> Duration {
        Duration::from_millis(self.record.queued_ms().unwrap_or_default())
    }

    /// Tells the worker which of its ranks is meant.
    pub(in crate::openai) fn name_rank(&self, headers: &mut HeaderMap) {
        rank_header(headers, &self.spec, self.receipt().worker);
    }

    /// Whoever carries the request has it.
    pub(in crate::openai) fn is_carried(&mut self, front: &Front) {
        self.witness = Some(self.begin(front));
        self.booking.sent().begins();
    }

    /// An answer has come as far as its first piece; none if it has no body.
    pub(in crate::openai) fn is_answered(
        &mut self,
        mut head: response::Parts,
        first: Option<Bytes>,
    ) {
        let shape = shape(self.route, &mut head);
        if !head.status.is_success() {
            self.booking.refused();
        }
        self.answer = Some(Answer { head, first: first.map(Frame::data), rest: None, shape });
    }

    /// There is no answer.
    pub(in crate::openai) fn left_unanswered(mut self, failure: Failure) -> Failed {
        if !matches!(failure, Failure::TimedOut) {
            self.booking.refused();
        }
        if let Some(reporter) = self.reporter.take() {
            reporter.end(pointsman_core::outcome::Ending::failed(failure.kind()));
        }
        Failed { attempt: self, failure }
    }

    /// How the answer goes on. None if there is no answer.
    pub(in crate::openai) fn into_course(mut self, mut exchange: Exchange) -> Option<Course> {
        let Answer { head, first, shape, .. } = self.answer.take()?;
        exchange.answers(head.status);
        let mut course = Course::new(shape, self.into_stakes(head.status, exchange));
        match first.and_then(|first| first.into_data().ok()) {
            Some(data) => course.see(&data),
            // What is missing of it is nobody's to be told: it has ended.
            None => _ = course.close(),
        }
        Some(course)
    }
}
