//! A request's body, as a gateway sends it piece by piece.
//!
//! Owns where it ends for who reads it: at the last piece, or as soon as its JSON object is whole. What
//! may still come is no more than white space, or for the worker to judge. A body that names a model which
//! nobody serves isn't read on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use pointsman_core::clock::Stopwatch;
use tonic::{Code, Status};

use super::scan::Scan;
use crate::bodies::BodyError;
use crate::openai::NoSuchModel;

/// Messages as they come. One that isn't for who reads a body can be put back.
pub(super) trait Incoming: Stream<Item = Result<ProcessingRequest, Status>> + Unpin {
    /// The next reader gets it first.
    fn put_back(&mut self, message: ProcessingRequest);
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    /// Messages.
    pub(super) pieces: usize,
    /// The last piece was among them.
    pub(super) last: bool,
    /// Trailers came after it.
    pub(super) trailers: bool,
    /// The gateway has answered by itself meanwhile.
    pub(super) answered: bool,
    /// Since all of it was there that is needed; none before.
    pub(super) whole: Option<Stopwatch>,
}

/// A body on its way in.
pub(super) struct Chunks<'a, S, F> {
    messages: &'a mut S,
    /// Whether somebody serves a model.
    serves: F,
    scan: Scan,
    named: bool,
    came: &'a mut Came,
    over: bool,
    /// As the head says; none if it doesn't.
    length: Option<u64>,
}

impl<'a, S, F> Chunks<'a, S, F> {
    /// Of messages that come, with a word on how far it has come.
    pub(super) fn new(
        messages: &'a mut S,
        came: &'a mut Came,
        length: Option<u64>,
        serves: F,
    ) -> Self {
        let scan = Scan::default();
        Self { messages, serves, scan, named: false, came, over: false, length }
    }

    fn look(&mut self, piece: &[u8]) -> Result<(), NoSuchModel>
    where
        F: Fn(&str) -> bool,
    {
        self.scan.see(piece);
        self.over |= self.scan.has_ended();
        if !self.named
            && let Some(model) = self.scan.model()
        {
            self.named = true;
            if !model.is_empty() && !(self.serves)(model) {
                return Err(NoSuchModel(model.to_owned()));
            }
        }
        Ok(())
    }
}

impl<S, F> Body for Chunks<'_, S, F>
where
    S: Incoming,
    F: Fn(&str) -> bool + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = this.poll_piece(cx);
        if this.over && this.came.whole.is_none() {
            this.came.whole = Some(Stopwatch::start());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.length.filter(|_| !self.over).unwrap_or_default());
        hint
    }
}

impl<S, F> Chunks<'_, S, F>
where
    S: Incoming,
    F: Fn(&str) -> bool,
{
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self;
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            let message = match ready!(Pin::new(&mut *this.messages).poll_next(cx)) {
                Some(Ok(message)) => message,
                Some(Err(status)) => return Poll::Ready(Some(Err(broke_off(status)))),
                None => return Poll::Ready(Some(Err("the gateway ended the stream".into()))),
            };
            match message.request {
                Some(Request::RequestBody(piece)) => {
                    this.came.pieces += 1;
                    this.came.last = piece.end_of_stream;
                    this.over = piece.end_of_stream;
                    if let Err(error) = this.look(&piece.body) {
                        return Poll::Ready(Some(Err(error.into())));
                    }
                    return Poll::Ready(Some(Ok(Frame::data(piece.body.into()))));
                }
                Some(Request::RequestTrailers(_)) => {
                    (this.came.trailers, this.over) = (true, true);
                }
                // Some gateways answer before a request is whole, such as one that comes too slowly.
                Some(
                    Request::ResponseHeaders(_)
                    | Request::ResponseBody(_)
                    | Request::ResponseTrailers(_),
                ) => {
                    (this.came.answered, this.over) = (true, true);
                    this.messages.put_back(message);
                    return Poll::Ready(Some(Err("the gateway has answered by itself".into())));
                }
                // A word on flow control, or what has no place here.
                _ => {}
            }
        }
    }
}

/// Why no more comes, for who reads a body.
fn broke_off(status: Status) -> BoxError {
    match status.code() {
        Code::ResourceExhausted => BodyError::NoRoom.into(),
        Code::DeadlineExceeded => BodyError::TooSlow.into(),
        _ => status.into(),
    }
}
