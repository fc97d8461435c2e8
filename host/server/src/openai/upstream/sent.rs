//! Whether a request has gone out.
//!
//! A client's connection is made, and its body asked for, in one step that can end at any point. The
//! body tells when somebody has begun to send it: not before there is a connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

/// Whether a request's body has begun to go out; of several tries at one worker, any.
#[derive(Clone, Debug, Default)]
pub(in crate::openai) struct Sent(Arc<AtomicBool>);

impl Sent {
    /// Whether it has. An empty body never does.
    pub(in crate::openai) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It does now.
    pub(in crate::openai) fn begins(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A body that tells when it is asked for.
#[derive(Debug)]
pub(super) struct Announced {
    body: Full<Bytes>,
    sent: Sent,
}

impl Announced {
    pub(super) fn new(body: Bytes, sent: &Sent) -> Self {
        Self { body: Full::new(body), sent: sent.clone() }
    }
}

impl Body for Announced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.sent.begins();
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
