//! Answers that somebody must get: what they tell of is given back if nobody does.
//!
//! A client that hangs up while its reservation is made would never know of it, and leave its load until
//! the lease ends. What is reserved is therefore taken back unless the answer has been handed to the
//! connection; what happens behind that is for the lease.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use super::selections::{Number, Selections};

/// A reservation of which nobody has been told yet. Dropping it gives the load back.
#[derive(Debug)]
pub(super) struct Untold {
    selections: Arc<Selections>,
    id: Arc<str>,
    number: Number,
    told: bool,
}

impl Untold {
    pub(super) fn new(selections: Arc<Selections>, id: Arc<str>, number: Number) -> Self {
        Self { selections, id, number, told: false }
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        if !self.told {
            self.selections.abandon(&self.id, self.number);
        }
    }
}

/// An answer's body, in one piece, with what it tells of.
#[derive(Debug)]
struct Handed {
    bytes: Option<Bytes>,
    tells_of: Vec<Untold>,
}

impl http_body::Body for Handed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        self.tells_of.iter_mut().for_each(|untold| untold.told = true);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// An answer that tells of these reservations.
pub(super) async fn handed(answer: impl IntoResponse, tells_of: Vec<Untold>) -> Response {
    let (head, body) = answer.into_response().into_parts();
    // It is there already.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Response::from_parts(head, Body::new(Handed { bytes: Some(bytes), tells_of }))
}
