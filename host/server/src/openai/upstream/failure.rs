//! How an exchange with a worker fails before there is an answer.

use std::io;

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
        source: hyper::Error,
        /// Whether the connection had been idle before.
        stale: bool,
    },
    /// The same, as whoever carries the request says.
    #[error("closed without an answer")]
    Broken,
    /// The connection ended between the head of the answer and its first byte.
    #[error("closed before the answer's first byte: {0}")]
    Empty(#[source] hyper::Error),
    /// The stream ended without an event.
    #[error("the stream ended without an event")]
    NoEvents,
    /// What came isn't HTTP.
    #[error("not an HTTP answer: {0}")]
    Garbled(#[source] hyper::Error),
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
    /// Sorts an error of connecting.
    pub(super) fn connecting(error: io::Error) -> Self {
        if shortage::is_ours(&error) { Self::Exhausted(error) } else { Self::Connect(error) }
    }

    /// Sorts an error of an exchange. `used`: over a connection that had carried an answer before.
    pub(super) fn sending(error: hyper::Error, used: bool) -> Self {
        if error.is_parse() {
            return Self::Garbled(error);
        }
        Self::Closed { source: error, stale: used }
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
            Self::Closed { .. } | Self::Broken => Some("closed the connection without an answer"),
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
            Self::Closed { .. } | Self::Broken | Self::Empty(_) | Self::NoEvents => "closed",
            Self::Garbled(_) | Self::Switching => "garbled",
            Self::Unusable(_) => "unusable",
            Self::TimedOut => "timed_out",
        }
    }
}
