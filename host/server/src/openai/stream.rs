//! A worker's answer on its way to the client, with the booking that ends with it.
//!
//! [`AnswerBody`] passes frames on as they come, without a copy. It knows when the first token came,
//! what the engine says of the prompt's tokens, whether a stream ended with its terminator, and for
//! how long nothing may come; whatever way it ends, and also when it is dropped in the middle, the
//! booking is given back.

mod course;
mod patience;
mod said;
mod usage;
mod watcher;

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::upstream::Reply;
use crate::telemetry::Outcome;
use patience::Impatience;

pub(super) use course::{Course, Shape, Stakes};
pub(super) use patience::Patience;
pub use said::{Said, said};

/// The body of an answer.
#[derive(Debug)]
pub(super) struct AnswerBody {
    /// A frame that was waited for before the client got the head.
    first: Option<Frame<Bytes>>,
    /// None when it is over.
    rest: Option<Reply>,
    course: Course,
    patience: Patience,
    /// It is broken off with the next look: whoever serves it sends what it has when nothing comes, and
    /// throws it away with a failure.
    breaks: bool,
}

/// Breaks the client's connection off, which is how HTTP says that an answer isn't whole.
#[derive(Debug, thiserror::Error)]
#[error("the worker's answer broke off")]
pub(super) struct BrokenOff;

impl AnswerBody {
    /// An answer whose first frame has come; none if it has no body.
    pub(super) fn new(
        first: Option<Frame<Bytes>>,
        rest: Reply,
        shape: Shape,
        patience: Patience,
        stakes: Stakes,
    ) -> Self {
        let mut course = Course::new(shape, stakes);
        let rest = first.is_some().then_some(rest);
        if rest.is_none() {
            course.settle_whole();
        }
        Self { rest, first, course, patience, breaks: false }
    }

    /// Passes a frame on, and looks at it on the way.
    fn pass(&mut self, frame: Frame<Bytes>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(data) = frame.data_ref() {
            self.course.see(data);
        }
        // Settled before the client has the last byte, so that one who has it finds the load gone.
        let last = self.rest.as_ref().is_none_or(Body::is_end_stream);
        self.course.settle_if_whole(last);
        Poll::Ready(Some(Ok(frame)))
    }

    /// The worker's answer did not end as HTTP wants it.
    fn break_off(
        &mut self,
        cx: &Context<'_>,
        outcome: Outcome,
        message: &str,
        fault: Option<&str>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.rest = None;
        // After its terminator nothing was to come anyway.
        if self.course.is_settled() {
            return Poll::Ready(None);
        }
        self.course.settle(outcome, fault);
        self.complain(cx, outcome, message)
    }

    /// Tells the client: in a stream by a last event, else by breaking off, once what came before is on
    /// its way.
    fn complain(
        &mut self,
        cx: &Context<'_>,
        outcome: Outcome,
        message: &str,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(event) = self.course.complaint(outcome, message) else {
            self.breaks = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        if std::mem::take(&mut this.breaks) {
            return Poll::Ready(Some(Err(BrokenOff)));
        }
        if let Some(first) = this.first.take() {
            return this.pass(first);
        }
        if this.course.poll_prefill_failed(cx) && this.rest.is_some() {
            let message = "the prefill worker failed before it had handed the prompt over";
            return this.break_off(cx, Outcome::Truncated, message, None);
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        match Pin::new(rest).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.patience.renew();
                this.pass(frame)
            }
            Poll::Ready(Some(Err(error))) => {
                this.course.note_break(&error);
                let message = "the worker closed the connection in the middle";
                let fault = "closed the connection in the middle of an answer";
                this.break_off(cx, Outcome::Truncated, message, Some(fault))
            }
            Poll::Ready(None) => {
                this.rest = None;
                match this.course.close() {
                    Some(message) => this.complain(cx, Outcome::Truncated, message),
                    None => Poll::Ready(None),
                }
            }
            Poll::Pending => match this.patience.poll(cx) {
                Poll::Ready(why) => {
                    // A request that takes long isn't its worker's fault.
                    let fault = (why == Impatience::Idle).then_some("fell silent in an answer");
                    this.break_off(cx, Outcome::TimedOut, why.as_str(), fault)
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        let over = |rest: &Reply| !self.course.is_of_events() && rest.is_end_stream();
        !self.breaks && self.first.is_none() && self.rest.as_ref().is_none_or(over)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(rest) = &self.rest else { return SizeHint::with_exact(0) };
        // An event may follow the worker's own.
        if self.course.is_of_events() {
            return SizeHint::default();
        }
        let first =
            self.first.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        let mut hint = rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint.set_lower(hint.lower().saturating_add(first));
        hint
    }
}
