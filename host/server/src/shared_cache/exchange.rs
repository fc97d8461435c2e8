//! One question and its answer, over HTTP.
//!
//! Owns the connections, what is sent and how an exchange fails. The contract is that of the shared
//! cache that users of linked policies know: `POST /check_blocks` with `{"block_hashes": [..]}`, of
//! which the router sends a prompt's sequence hashes, each of them the name of a block and of all
//! before it; answered by `{"ranges": [[0, 3], [5, 6]]}`. What is in the cache, its owners tell it
//! (`/store`, `/remove`), and the router only asks. Who asks bounds the time.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;

use super::{SharedHits, hits};
use crate::shortage;

/// The path that is asked.
pub(super) const PATH: &str = "/check_blocks";

/// Of a longer prompt, so many blocks are asked for: 262,144 tokens at the usual block size, in a
/// question of at most 345 KB; the web servers that are in use take 1 to 2 MB.
pub(super) const MOST_BLOCKS: usize = 16_384;

/// How long an unused connection is kept: not longer than most web servers keep it.
const IDLE: Duration = Duration::from_secs(4);

#[derive(Serialize)]
struct Question<'a> {
    block_hashes: &'a [u64],
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// The time is up.
    #[error("no answer within {0:?}; see why it is slow, or raise shared_cache_timeout")]
    Timeout(Duration),
    /// No connection, or one that broke.
    #[error("it can't be reached: {0}; check that it runs at shared_cache_url")]
    Unreachable(String),
    /// No connection, and the reason is here.
    #[error("no connection for want of our own resources: {0}; raise the limit on open files")]
    Shortage(String),
    /// Not 200.
    #[error("it answered {0}; check that a shared cache is at shared_cache_url")]
    Status(StatusCode),
    /// More than any answer to the question can have.
    #[error("its answer has more than {0} bytes; check that a shared cache is at shared_cache_url")]
    TooLong(usize),
    /// Not what an answer is.
    #[error("its answer can't be read: {0}; check that a shared cache is at shared_cache_url")]
    BadAnswer(String),
}

impl Unanswered {
    /// A word for it in metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Shortage(_) => "shortage",
            Self::Status(_) => "status",
            Self::TooLong(_) => "too_long",
            Self::BadAnswer(_) => "bad_answer",
        }
    }

    /// Whether asking it again soon is no use.
    pub(super) fn is_its_fault(&self) -> bool {
        !matches!(self, Self::Shortage(_))
    }
}

/// Takes questions to the cache, over connections that are kept.
#[derive(Clone, Debug)]
pub(super) struct Messenger {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Messenger {
    pub(super) fn new(connect_timeout: Duration, most_idle: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_nodelay(true);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
        builder.pool_idle_timeout(IDLE).pool_max_idle_per_host(most_idle);
        Self { client: builder.build(connector) }
    }

    /// Which of a prompt's blocks the cache holds.
    pub(super) async fn check_blocks(
        &self,
        uri: &Uri,
        chain: &[u64],
    ) -> Result<SharedHits, Unanswered> {
        let block_hashes = chain.get(..MOST_BLOCKS).unwrap_or(chain);
        let bad = |error: &dyn Error| Unanswered::BadAnswer(error.to_string());
        let question =
            serde_json::to_vec(&Question { block_hashes }).map_err(|error| bad(&error))?;
        let request = Request::post(uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(question)))
            .map_err(|error| bad(&error))?;
        let response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::OK {
            return Err(Unanswered::Status(response.status()));
        }
        let most = most_answer_bytes(block_hashes.len());
        if response.body().size_hint().lower() > most as u64 {
            return Err(Unanswered::TooLong(most));
        }
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Unanswered::TooLong(most),
            false => unreachable(&*error),
        })?;
        hits::read(&body.to_bytes(), block_hashes.len()).map_err(Unanswered::BadAnswer)
    }
}

/// At worst every other block is there, and each of those ranges takes `[16380,16381],`: 14 bytes for
/// two blocks. The rest is for those who write their JSON at length.
fn most_answer_bytes(blocks: usize) -> usize {
    4_096 + 32 * blocks
}

fn unreachable(error: &(dyn Error + 'static)) -> Unanswered {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        if error.downcast_ref::<io::Error>().is_some_and(shortage::is_ours) {
            return Unanswered::Shortage(words);
        }
        cause = error.source();
    }
    Unanswered::Unreachable(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_answer_that_can_be_right_is_let_through() {
        for blocks in [0, 1, 6, 1_000, MOST_BLOCKS] {
            let every_other = (0..blocks).step_by(2).map(|at| [at, at + 1]);
            let ranges: Vec<[usize; 2]> = every_other.collect();
            let answer = serde_json::json!({ "ranges": ranges });
            let answer = serde_json::to_string_pretty(&answer).expect("it is JSON");
            assert!(answer.len() <= most_answer_bytes(blocks), "{blocks}: {}", answer.len());
        }
    }

    #[test]
    fn what_the_router_lacks_is_not_the_caches_fault() {
        #[derive(Debug, thiserror::Error)]
        #[error("no connection")]
        struct Outer(#[source] io::Error);
        let of = |error: io::Error| unreachable(&Outer(error));
        let ours = of(io::Error::from_raw_os_error(24));
        assert!(!ours.is_its_fault() && ours.reason() == "shortage", "{ours}");
        let refused = of(io::ErrorKind::ConnectionRefused.into());
        assert!(refused.is_its_fault() && refused.reason() == "unreachable", "{refused}");
    }
}
