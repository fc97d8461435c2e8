//! Where a worker's ranks publish, as the engine tells or the operator has written.
//!
//! Owns the reading of engines' own descriptions (vLLM's `/kv_event_sources`, SGLang's
//! `/server_info`) and the rule by which ranks count up from one port. It asks nobody: the answers
//! come in as text.
//!
//! An engine's description is its own view. Where it waits on any of its addresses, we connect to
//! the worker's host; where vLLM names one host, its publisher connects there, so that is where we
//! wait. Replays are always asked for at the engine.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use super::endpoint::{Address, Attach, EndpointError};
use crate::config::shorten;

/// The most ranks that one answer may speak of.
pub const MOST_RANKS: u32 = 4096;

/// Where one rank publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The rank, as the engine counts.
    pub rank: u32,
    /// Which side opens the connection for events.
    pub attach: Attach,
    /// Where events come from.
    pub endpoint: Address,
    /// Where old batches can be asked for.
    pub replay_endpoint: Option<Address>,
    /// How the topics of the events begin.
    pub topic: String,
    /// Tokens in a block, if the engine says so here.
    pub block_size: Option<u32>,
}

/// Why an engine's description is of no use.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SourcesError {
    /// It isn't JSON.
    #[error("the engine's answer isn't JSON ({0}); check the worker's address")]
    Json(String),
    /// Something in it is missing or isn't what it should be.
    #[error(
        "the engine's answer has no {expected} at {place}; give the worker's event endpoint by hand"
    )]
    Shape {
        /// Where.
        place: String,
        /// What should be there.
        expected: &'static str,
    },
    /// It publishes nothing.
    #[error("the engine publishes no events; start it with --kv-events-config")]
    Silent,
    /// An endpoint can't be read.
    #[error("{place}: {source}")]
    Endpoint {
        /// Where.
        place: String,
        /// Why.
        source: EndpointError,
    },
    /// Two sockets would be in one place.
    #[error(
        "{first} and {second} would share {address}; choose ports further apart, such as 5557 and 5657"
    )]
    Collision {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// Where.
        address: String,
    },
}

/// What an operator has written of a worker's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Where the first rank's events come from. Any host stands for the worker's.
    pub endpoint: Address,
    /// Where the first rank's old batches can be asked for.
    pub replay_endpoint: Option<Address>,
    /// Which side opens the connection for events.
    pub attach: Attach,
    /// How the topics of the events begin.
    pub topic: String,
}

impl Configured {
    /// The sources of the given ranks: rank *n* has the *n*-th port from the first on.
    ///
    /// # Errors
    ///
    /// There is no such port, or two sockets would share one.
    pub fn of_ranks(
        &self,
        worker_host: &str,
        ranks: impl IntoIterator<Item = u32>,
    ) -> Result<Vec<Source>, SourcesError> {
        let mut sources = Vec::new();
        for rank in ranks {
            let here = |place| move |source| SourcesError::Endpoint { place, source };
            let endpoint =
                self.endpoint.of_rank(rank).map_err(here(format!("rank {rank}'s endpoint")))?;
            let replay_endpoint = self
                .replay_endpoint
                .as_ref()
                .map(|replay| replay.of_rank(rank))
                .transpose()
                .map_err(here(format!("rank {rank}'s replay endpoint")))?;
            sources.push(Source {
                rank,
                attach: self.attach,
                endpoint: match self.attach {
                    Attach::Connect => endpoint.at_host(worker_host),
                    Attach::Bind => endpoint,
                },
                replay_endpoint: replay_endpoint.map(|replay| replay.at_host(worker_host)),
                topic: self.topic.clone(),
                block_size: None,
            });
        }
        apart(sources)
    }
}

/// Reads vLLM's answer to `GET /kv_event_sources`.
///
/// # Errors
///
/// It can't be read, or says that nothing is published.
pub fn vllm(answer: &str, worker_host: &str) -> Result<Vec<Source>, SourcesError> {
    let answer = json(answer)?;
    let ranks = answer.as_object().filter(|ranks| ranks.len() <= MOST_RANKS as usize);
    let ranks = ranks.ok_or_else(|| shape("the top", "object of up to 4096 ranks"))?;
    let mut sources = Vec::new();
    for (key, config) in ranks {
        let rank: u32 =
            key.parse().map_err(|_| shape(format!("key {:?}", shorten(key)), "rank"))?;
        // However many zeros it is written with.
        let key = &rank.to_string();
        if sources.iter().any(|source: &Source| source.rank == rank) {
            return Err(shape(format!("key {key:?}"), "rank of its own"));
        }
        let enabled = config.get("enable_kv_cache_events").and_then(Value::as_bool);
        let publisher = text(config, "publisher", key)?;
        if enabled == Some(false) || publisher.is_some_and(|publisher| publisher != "zmq") {
            continue;
        }
        let Some(endpoint) = address(config, "endpoint", key)? else {
            return Err(shape(format!("{key}.endpoint"), "endpoint"));
        };
        // The publisher waits on any address and on paths, and connects to a host that is named.
        let attach = match &endpoint {
            Address::Tcp { .. } if !endpoint.is_wildcard() => Attach::Bind,
            Address::Tcp { .. } | Address::Ipc(_) => Attach::Connect,
        };
        sources.push(Source {
            rank,
            attach,
            endpoint: endpoint.at_host(worker_host),
            replay_endpoint: address(config, "replay_endpoint", key)?
                .map(|replay| replay.at_host(worker_host)),
            topic: text(config, "topic", key)?.unwrap_or_default().to_owned(),
            block_size: None,
        });
    }
    sources.sort_by_key(|source| source.rank);
    if sources.is_empty() { Err(SourcesError::Silent) } else { apart(sources) }
}

/// Reads SGLang's answer to `GET /server_info`.
///
/// # Errors
///
/// It can't be read, or says that nothing is published.
pub fn sglang(answer: &str, worker_host: &str) -> Result<Vec<Source>, SourcesError> {
    let answer = json(answer)?;
    let at = "kv_events";
    let config = match answer.get(at) {
        None | Some(Value::Null) => return Err(SourcesError::Silent),
        Some(config) => config,
    };
    if text(config, "publisher", at)?.is_some_and(|publisher| publisher != "zmq") {
        return Err(SourcesError::Silent);
    }
    let host = text(config, "endpoint_host", at)?.unwrap_or("*");
    let Some(port) = number(config, "endpoint_port_base", at)? else {
        return Err(shape(format!("{at}.endpoint_port_base"), "port"));
    };
    let endpoint = tcp(host, port, format!("{at}.endpoint_host"))?;
    let replay_endpoint = number(config, "replay_endpoint_port_base", at)?
        .map(|port| tcp(host, port, format!("{at}.replay_endpoint_port_base")))
        .transpose()?;
    let ranks = number(config, "dp_size", at)?.unwrap_or(1).max(1);
    if ranks > MOST_RANKS {
        return Err(shape(format!("{at}.dp_size"), "number of ranks up to 4096"));
    }
    let attach = match config.get("bind").and_then(Value::as_bool) {
        Some(false) => Attach::Bind,
        Some(true) | None => Attach::Connect,
    };
    let topic = text(config, "topic", at)?.unwrap_or_default().to_owned();
    let configured = Configured { endpoint, replay_endpoint, attach, topic };
    let mut sources = configured.of_ranks(worker_host, 0..ranks)?;
    let block_size = number(config, "block_size", at)?.filter(|&size| size > 0);
    for source in &mut sources {
        source.block_size = block_size;
    }
    Ok(sources)
}

/// The sources, if no two sockets are in one place.
fn apart(sources: Vec<Source>) -> Result<Vec<Source>, SourcesError> {
    let mut known = std::collections::HashMap::new();
    for source in &sources {
        let events = (format!("rank {}'s events", source.rank), Some(&source.endpoint));
        let replays = (format!("rank {}'s replays", source.rank), source.replay_endpoint.as_ref());
        for (second, address) in [events, replays] {
            let Some(address) = address else { continue };
            if let Some(first) = known.insert(address, second.clone()) {
                return Err(SourcesError::Collision {
                    first,
                    second,
                    address: address.to_string(),
                });
            }
        }
    }
    Ok(sources)
}

fn json(answer: &str) -> Result<Value, SourcesError> {
    serde_json::from_str(answer).map_err(|error| SourcesError::Json(error.to_string()))
}

fn shape(place: impl Into<String>, expected: &'static str) -> SourcesError {
    SourcesError::Shape { place: place.into(), expected }
}

fn text<'a>(config: &'a Value, key: &str, at: &str) -> Result<Option<&'a str>, SourcesError> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(shape(format!("{at}.{key}"), "text")),
    }
}

fn number(config: &Value, key: &str, at: &str) -> Result<Option<u32>, SourcesError> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(shape(format!("{at}.{key}"), "number")),
        },
    }
}

fn address(config: &Value, key: &str, at: &str) -> Result<Option<Address>, SourcesError> {
    let Some(text) = text(config, key, at)? else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|source| SourcesError::Endpoint { place: format!("{at}.{key}"), source })
}

fn tcp(host: &str, port: u32, place: String) -> Result<Address, SourcesError> {
    let brackets = host.contains(':') && !host.starts_with('[');
    let text =
        if brackets { format!("tcp://[{host}]:{port}") } else { format!("tcp://{host}:{port}") };
    text.parse().map_err(|source| SourcesError::Endpoint { place, source })
}
