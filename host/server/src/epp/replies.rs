//! What goes back to a gateway, in the order in which it has to.
//!
//! A body that goes back in pieces is cut only when the gateway takes the next one.

use std::collections::VecDeque;
use std::net::SocketAddr;

use axum::body::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ImmediateResponse,
    ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use http::StatusCode;

use super::head::{self, DESTINATION, ROUTING};
use super::metadata;
use crate::openai::{Pick, Refused};

/// The largest piece of a body: gateways limit the messages that they take to 64 KiB, heads included.
const MOST_PIECE: usize = 62_000;

/// Which way a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the worker.
    Request,
    /// To the client.
    Answer,
}

/// What is to go back.
#[derive(Debug, Default)]
pub(super) struct Replies {
    waiting: VecDeque<Reply>,
}

#[derive(Debug)]
enum Reply {
    Ready(Box<ProcessingResponse>),
    /// So many pieces go on as they are.
    Unchanged {
        way: Way,
        pieces: usize,
    },
    /// A part of a body, and whether it is the last.
    Piece {
        way: Way,
        body: Bytes,
        last: bool,
    },
}

impl Replies {
    /// The next.
    pub(super) fn next(&mut self) -> Option<ProcessingResponse> {
        match self.waiting.pop_front()? {
            Reply::Ready(ready) => Some(*ready),
            Reply::Unchanged { way, pieces } => {
                if pieces > 1 {
                    self.waiting.push_front(Reply::Unchanged { way, pieces: pieces - 1 });
                }
                let body = BodyResponse { response: Some(CommonResponse::default()) };
                Some(response(of_body(way, body)))
            }
            Reply::Piece { way, mut body, last } => {
                let piece = body.split_to(body.len().min(MOST_PIECE));
                let more = !body.is_empty();
                if more {
                    self.waiting.push_front(Reply::Piece { way, body, last });
                }
                Some(streamed(way, piece.into(), last && !more))
            }
        }
    }

    /// A head goes on, with changes if there are any.
    pub(super) fn changed_head(&mut self, way: Way, change: HeaderMutation) {
        let common = CommonResponse { header_mutation: some(change), ..CommonResponse::default() };
        let head = HeadersResponse { response: Some(common) };
        self.respond(match way {
            Way::Request => Response::RequestHeaders(head),
            Way::Answer => Response::ResponseHeaders(head),
        });
    }

    /// So many pieces go on as they are, in a mode in which each is answered.
    pub(super) fn unchanged(&mut self, way: Way, pieces: usize) {
        if pieces > 0 {
            self.waiting.push_back(Reply::Unchanged { way, pieces });
        }
    }

    /// A part of a body goes on, in the mode in which it is sent back.
    pub(super) fn piece(&mut self, way: Way, body: Bytes, last: bool) {
        self.waiting.push_back(Reply::Piece { way, body, last });
    }

    /// Trailers go on.
    pub(super) fn trailers(&mut self, way: Way) {
        let trailers = TrailersResponse::default();
        self.respond(match way {
            Way::Request => Response::RequestTrailers(trailers),
            Way::Answer => Response::ResponseTrailers(trailers),
        });
    }

    /// The request goes to this worker. It is said with the head, or, where that has gone, with the body.
    pub(super) fn picked(&mut self, pick: &Pick, at: SocketAddr, with_head: bool) {
        let at = at.to_string();
        let mut set_headers = head::setting(pick.request_headers());
        set_headers.push(head::set(DESTINATION, at.as_bytes()));
        let change = HeaderMutation { set_headers, remove_headers: hygiene() };
        let common = CommonResponse {
            header_mutation: Some(change),
            clear_route_cache: true,
            ..CommonResponse::default()
        };
        let response = if with_head {
            Response::RequestHeaders(HeadersResponse { response: Some(common) })
        } else {
            Response::RequestBody(BodyResponse { response: Some(common) })
        };
        self.waiting.push_back(Reply::Ready(Box::new(ProcessingResponse {
            response: Some(response),
            dynamic_metadata: Some(metadata::destination(&at)),
            ..ProcessingResponse::default()
        })));
    }

    /// The client gets this, and no worker the request.
    pub(super) fn refused(&mut self, refused: Refused) {
        let Refused { status, headers, body, .. } = refused;
        // The gateway sends lengths, and keeps connections, as it sees fit.
        let headers: Vec<HeaderValueOption> = head::setting(&headers)
            .into_iter()
            .filter(|one| one.header.as_ref().is_none_or(|line| line.key != "connection"))
            .collect();
        let answer = ImmediateResponse {
            status: Some(HttpStatus { code: known(status).as_u16().into() }),
            headers: Some(HeaderMutation { set_headers: headers, ..HeaderMutation::default() }),
            body: body.into(),
            details: refused.kind.to_owned(),
            ..ImmediateResponse::default()
        };
        self.respond(Response::ImmediateResponse(answer));
    }

    fn respond(&mut self, what: Response) {
        self.waiting.push_back(Reply::Ready(Box::new(response(what))));
    }
}

/// Takes out what clients have no business to say.
pub(super) fn hygiene() -> Vec<String> {
    ROUTING.into_iter().filter(|name| *name != DESTINATION).map(str::to_owned).collect()
}

/// The status as gateways know it: by the endpoint picker protocol a request that is dropped under heavy load is
/// told so with 429, and 529 isn't one of theirs.
fn known(status: StatusCode) -> StatusCode {
    if status.as_u16() == 529 { StatusCode::TOO_MANY_REQUESTS } else { status }
}

fn some(change: HeaderMutation) -> Option<HeaderMutation> {
    let empty = change.set_headers.is_empty() && change.remove_headers.is_empty();
    (!empty).then_some(change)
}

fn streamed(way: Way, body: Vec<u8>, end_of_stream: bool) -> ProcessingResponse {
    let piece = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) };
    let common = CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() };
    response(of_body(way, BodyResponse { response: Some(common) }))
}

fn response(what: Response) -> ProcessingResponse {
    ProcessingResponse { response: Some(what), ..ProcessingResponse::default() }
}

fn of_body(way: Way, body: BodyResponse) -> Response {
    match way {
        Way::Request => Response::RequestBody(body),
        Way::Answer => Response::ResponseBody(body),
    }
}
