//! The body of every answer: nothing, a whole document, or a stream of events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connection::{Ending, Link};
use super::control::FaultKind;
use super::error::Broken;
use super::generation::Generation;
use super::visit::{Finish, Visit};

/// An answer's body.
#[derive(Debug)]
pub(super) struct Answer {
    content: Content,
    link: Arc<Link>,
    close_after: bool,
}

/// What an answer consists of.
#[derive(Debug)]
pub(super) enum Content {
    /// A document, or nothing when empty.
    Whole(Whole),
    /// Events.
    Stream(Box<Generation>),
}

impl Content {
    /// A document that no visit ends with.
    pub(super) fn plain(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Whole {
            bytes: bytes.into(),
            missing: 0,
            visit: None,
            fault: None,
            flushed: false,
        })
    }

    /// The document that ends a visit, or breaks off in its middle.
    pub(super) fn of_visit(
        mut bytes: Bytes,
        visit: Visit,
        finish: Finish,
        fault: Option<FaultKind>,
    ) -> Self {
        let mut missing = 0;
        if let Some(kind) = fault {
            let rest = bytes.split_off(bytes.len() / 2);
            // Faults of the events' content become a document that is cut short; the others leave its promised length unmet.
            if !matches!(kind, FaultKind::End | FaultKind::MalformedEvent | FaultKind::ErrorEvent) {
                missing = rest.len() as u64;
            }
        }
        Self::Whole(Whole { bytes, missing, visit: Some((visit, finish)), fault, flushed: false })
    }
}

/// A document.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: Bytes,
    /// Bytes that are promised and never come.
    missing: u64,
    visit: Option<(Visit, Finish)>,
    fault: Option<FaultKind>,
    flushed: bool,
}

impl Whole {
    fn is_over(&self) -> bool {
        self.bytes.is_empty() && self.missing == 0
    }

    fn poll(&mut self, link: &Link, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if !self.bytes.is_empty() {
            if self.missing == 0
                && let Some((mut visit, finish)) = self.visit.take()
            {
                if self.fault.is_some() { visit.fail() } else { visit.complete(finish) }
            }
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.bytes))));
        }
        let Some(kind) = self.fault.filter(|_| self.missing > 0) else { return Poll::Ready(None) };
        if kind == FaultKind::Hang {
            return Poll::Pending;
        }
        // One turn of the connection first, in which it writes out the half that was sent.
        if !std::mem::replace(&mut self.flushed, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some((mut visit, _)) = self.visit.take() {
            visit.fail();
        }
        link.end_with(Ending::of(kind));
        Poll::Ready(Some(Err(Broken)))
    }
}

impl Answer {
    /// `close_after` closes the connection, unannounced, once the answer has been sent.
    pub(super) fn new(content: Content, link: Arc<Link>, close_after: bool) -> Self {
        Self { content, link, close_after }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Self { content, link, .. } = &mut *self;
        let polled = match content {
            Content::Whole(whole) => whole.poll(link, cx),
            Content::Stream(generation) => generation.poll_event(cx),
        };
        polled.map(|event| event.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(whole) => whole.is_over(),
            Content::Stream(generation) => generation.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(whole) => SizeHint::with_exact(whole.bytes.len() as u64 + whole.missing),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.close_after {
            self.link.close_after_answer();
        }
    }
}
