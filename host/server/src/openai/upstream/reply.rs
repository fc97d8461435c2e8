//! The body of a worker's answer, with the link that it comes over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::link::Link;
use super::place::Place;
use super::pool::Pool;

/// A body. When it is whole its link is kept for another request; dropped before that, it takes the
/// link along.
#[derive(Debug)]
pub(in crate::openai) struct Reply {
    frames: Incoming,
    /// None once it is given back.
    link: Option<(Box<Link>, Arc<Place>)>,
    pool: Arc<Pool>,
}

impl Reply {
    pub(super) fn new(
        frames: Incoming,
        link: Box<Link>,
        place: Arc<Place>,
        pool: &Arc<Pool>,
    ) -> Self {
        let is_whole = frames.is_end_stream();
        let mut this = Self { frames, link: Some((link, place)), pool: pool.clone() };
        if is_whole {
            this.give_back();
        }
        this
    }

    fn give_back(&mut self) {
        if let Some((link, place)) = self.link.take() {
            self.pool.keep(&place, link);
        }
    }

    fn passes(&mut self, frame: Option<hyper::Result<Frame<Bytes>>>) -> PolledFrame {
        match &frame {
            // Whatever may still come is no answer to this request.
            Some(Err(_)) => self.link = None,
            Some(Ok(_)) if self.frames.is_end_stream() => self.give_back(),
            Some(Ok(_)) => {}
            None => self.give_back(),
        }
        Poll::Ready(frame)
    }
}

type PolledFrame = Poll<Option<hyper::Result<Frame<Bytes>>>>;

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let this = &mut *self;
        // One may have come with what was read last.
        let mut quietly = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut this.frames).poll_frame(&mut quietly) {
            return this.passes(frame);
        }
        let Some((link, _)) = &mut this.link else { return Poll::Ready(None) };
        let frames = &mut this.frames;
        match link.drive(cx, |cx| Pin::new(&mut *frames).poll_frame(cx)) {
            Poll::Ready(frame) => this.passes(frame),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.frames.size_hint()
    }
}
