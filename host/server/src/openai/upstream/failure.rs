//! How an exchange with a worker fails before there is an answer.

use std::error::Error;
use std::io;

use http::Extensions;
use hyper_util::client::legacy;

use super::connector::Used;
use crate::shortage;

/// Why there is no answer. The words are for the log.
#[derive(Debug, thiserror::Error)]
pub(in crate::openai) enum Failure {
    /// The worker's endpoint and the request's path make no address.
    #[error(
        "the worker's endpoint and the request's path make no address; register it as http://host:port"
    )]
    Endpoint,
    /// No connection.
    #[error("no connection: {0}")]
    Connect(#[source] io::Error),
    /// No connection, and the reason is here rather than there.
    #[error("no connection for want of our own resources: {0}; raise the limit on open files")]
    Exhausted(#[source] io::Error),
    /// The connection ended before there was an answer.
    #[error("closed without an answer: {source}")]
    Closed {
        /// How it shows.
        #[source]
        source: legacy::Error,
        /// Whether the connection had been idle before.
        stale: bool,
    },
    /// The connection ended between the head of the answer and its first byte.
    #[error("closed before the answer's first byte: {0}")]
    Empty(#[source] hyper::Error),
    /// The stream ended without an event.
    #[error("the stream ended without an event")]
    NoEvents,
    /// What came isn't HTTP.
    #[error("not an HTTP answer: {0}")]
    Garbled(#[source] legacy::Error),
    /// It wants to speak another protocol, which nobody asked for.
    #[error("answered 101 Switching Protocols, which it wasn't asked for")]
    Switching,
    /// The answer to a prefill is of no use.
    #[error("an answer to a prefill that can't be used: {0}")]
    Unusable(&'static str),
    /// Nothing came in time.
    #[error("nothing came in time")]
    TimedOut,
}

impl Failure {
    /// Sorts an error of the client.
    pub(super) fn sending(error: legacy::Error) -> Self {
        if error.is_connect() {
            return match io_cause(&error) {
                Some(cause) if shortage::is_ours(&cause) => Self::Exhausted(cause),
                Some(cause) => Self::Connect(cause),
                None => Self::Connect(io::Error::other(error)),
            };
        }
        let parse = hyper_cause(&error).is_some_and(hyper::Error::is_parse);
        if parse {
            return Self::Garbled(error);
        }
        let mut extras = Extensions::new();
        if let Some(connected) = error.connect_info() {
            connected.get_extras(&mut extras);
        }
        let stale = extras.get::<Used>().is_some_and(Used::is_marked);
        Self::Closed { source: error, stale }
    }

    /// Whether an idle connection was closed just when the request went out; that says nothing
    /// about the worker.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, Self::Closed { stale: true, .. })
    }

    /// What a worker that was reached did wrong, in words; none if that isn't to blame.
    pub(in crate::openai) fn blames_worker(&self) -> Option<&'static str> {
        match self {
            Self::Endpoint | Self::Connect(_) | Self::Exhausted(_) => None,
            Self::Closed { .. } => Some("closed the connection without an answer"),
            Self::Empty(_) => Some("closed the connection before the answer's first byte"),
            Self::NoEvents => Some("ended its stream without an event"),
            Self::Garbled(_) => Some("answered with something that isn't HTTP"),
            Self::Switching => Some("answered 101 Switching Protocols unasked"),
            Self::Unusable(_) => Some("answered a prefill with what can't be used"),
            Self::TimedOut => Some("gave no byte of an answer in time"),
        }
    }

    /// The word for it in metrics.
    pub(in crate::openai) fn kind(&self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Connect(_) => "connect",
            Self::Exhausted(_) => "exhausted",
            Self::Closed { .. } | Self::Empty(_) | Self::NoEvents => "closed",
            Self::Garbled(_) | Self::Switching => "garbled",
            Self::Unusable(_) => "unusable",
            Self::TimedOut => "timed_out",
        }
    }
}

/// The input-output error beneath, if one is.
fn io_cause(error: &(dyn Error + 'static)) -> Option<io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            // Errors of the system have a code, ours have words: either makes a whole copy.
            return Some(match found.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(found.kind(), found.to_string()),
            });
        }
        cause = error.source();
    }
    None
}

fn hyper_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a hyper::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<hyper::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
