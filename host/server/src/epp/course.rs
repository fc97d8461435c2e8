//! An answer on its way back through the gateway, and what is told of it to who decided.

use std::net::SocketAddr;

use axum::body::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::{HeaderMutation, HttpHeaders};
use http::response;

use super::head;
use crate::openai::{Passing, Pick, Unanswered};

/// How far an exchange has come. Dropped before its end, it was aborted.
#[derive(Debug)]
pub(super) enum Course {
    /// Nothing is picked, or all is over.
    Nothing,
    /// A worker at this address has the request.
    Out(Box<Pick>, SocketAddr),
    /// It has begun an answer, of which no piece has come.
    Headed(Box<Pick>, response::Parts),
    /// Pieces come.
    Passing(Box<Passing>),
}

impl Course {
    /// An answer has begun. Returns what changes on its head. `details`: where it is from, in the
    /// gateway's words; none if it doesn't say.
    pub(super) fn head(&mut self, headers: &HttpHeaders, details: Option<&str>) -> HeaderMutation {
        let Self::Out(pick, _) = std::mem::replace(self, Self::Nothing) else {
            return HeaderMutation::default();
        };
        let head = head::answer(headers);
        if let Some(why) = details.and_then(unanswered) {
            pick.unanswered(head.status, why);
            return HeaderMutation::default();
        }
        let set_headers = head::setting(&pick.answer_headers());
        *self = Self::Headed(pick, head);
        if headers.end_of_stream {
            self.piece(&Bytes::new(), true);
        }
        HeaderMutation { set_headers, ..HeaderMutation::default() }
    }

    /// A piece goes by, which may be empty. What the client is to be told after the last one, if something
    /// is missing.
    pub(super) fn piece(&mut self, data: &Bytes, last: bool) -> Option<Bytes> {
        *self = match std::mem::replace(self, Self::Nothing) {
            Self::Headed(pick, head) if !data.is_empty() || last => {
                let first = (!data.is_empty()).then(|| data.clone());
                match pick.answered(head, first, last) {
                    Some(passing) => Self::Passing(Box::new(passing)),
                    None => Self::Nothing,
                }
            }
            Self::Passing(mut passing) => {
                passing.see(data, last);
                Self::Passing(passing)
            }
            other => other,
        };
        if last { self.close() } else { None }
    }

    /// The answer has ended.
    pub(super) fn close(&mut self) -> Option<Bytes> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Passing(mut passing) => passing.close(),
            // It had no piece.
            Self::Headed(pick, head) => {
                drop(pick.answered(head, None, true));
                None
            }
            Self::Out(..) | Self::Nothing => None,
        }
    }
}

/// Why there is no answer, if what comes is the gateway's own word.
fn unanswered(details: &str) -> Option<Unanswered> {
    if details == "via_upstream" {
        return None;
    }
    let says = |words: &[&str]| words.iter().any(|word| details.contains(word));
    Some(if says(&["connection_failure", "connection_timeout"]) {
        Unanswered::NoConnection
    } else if says(&["response_timeout", "per_try_timeout"]) {
        Unanswered::TimedOut
    } else if says(&["upstream_reset", "protocol_error"]) {
        Unanswered::Closed
    } else {
        Unanswered::Elsewhere
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_own_answers_are_told_from_the_workers() {
        for (details, why) in [
            ("via_upstream", None),
            (
                "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}",
                Some(Unanswered::NoConnection),
            ),
            (
                "upstream_reset_before_response_started{connection_termination}",
                Some(Unanswered::Closed),
            ),
            ("upstream_response_timeout", Some(Unanswered::TimedOut)),
            ("response_timeout", Some(Unanswered::TimedOut)),
            ("route_not_found", Some(Unanswered::Elsewhere)),
        ] {
            assert_eq!(unanswered(details), why, "{details}");
        }
    }
}
