//! Asking an engine where it publishes.

use std::time::Duration;

use http::StatusCode;
use tokio::time::timeout;

use crate::discovery::probe::{Target, Unasked};
use crate::feeds::Source;
use crate::feeds::sources::{SourcesError, sglang, vllm};

/// The longest answer: SGLang's describes the whole server.
const MOST_BYTES: usize = 4 << 20;

/// What asking has come to.
#[derive(Debug)]
pub(super) enum Found {
    /// There they are.
    Sources(Vec<Source>),
    /// It answers, and tells nothing.
    Nothing(String),
    /// It tells, and that is of no use.
    Useless(String),
    /// It doesn't answer, or not as it would.
    NoAnswer(String),
}

type Reader = fn(&str, &str) -> Result<Vec<Source>, SourcesError>;

/// Where engines tell, and how it is read.
const PLACES: [(&str, Reader); 2] = [("/kv_event_sources", vllm), ("/server_info", sglang)];

/// Asks an engine, as vLLM and as SGLang want it.
pub(super) async fn ask(engine: &Target, limit: Duration) -> Found {
    let (mut silent, mut useless) = (Vec::new(), false);
    for (path, read) in PLACES {
        let answer = timeout(limit, engine.get(path, MOST_BYTES)).await;
        let late = || Err(format!("GET {path} had no answer within {limit:?}").into());
        match answer.unwrap_or_else(|_| late()) {
            Err(Unasked::Worker(error)) => return Found::NoAnswer(error),
            Err(Unasked::Shortage(error)) => return Found::NoAnswer(error.to_string()),
            Ok((status, body)) if status.is_success() => {
                let text = String::from_utf8_lossy(&body);
                match read(&text, engine.host()) {
                    Ok(sources) => return Found::Sources(sources),
                    Err(error) => {
                        useless |= error != SourcesError::Silent;
                        silent.push(format!("GET {path}: {error}"));
                    }
                }
            }
            // It may be starting.
            Ok((status, _)) if is_passing(status) => {
                return Found::NoAnswer(format!("GET {path} answered {status}"));
            }
            Ok((status, _)) => silent.push(format!("GET {path} answered {status}")),
        }
    }
    let why = silent.join("; ");
    if useless { Found::Useless(why) } else { Found::Nothing(why) }
}

fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}
