//! A mock engine: an OpenAI-shaped server that answers as a vLLM does, without a model.
//!
//! Owns one listening address, its connections, its FIFO of sequences and its failure switches. `pointsman mock-engine`, the
//! demo and the integration tests start it, the tests many times in one process. Bodies, SSE events, error bodies and metric
//! names follow recordings of a real vLLM 0.32; the text it generates, its tokenizer and its vectors are made up.
//! It knows nothing of the router: whatever it reports, it reports over HTTP or through [`MockEngine`].

mod answer;
mod chunks;
mod config;
mod connection;
mod control;
mod embedding;
mod engine;
mod error;
mod generation;
mod handover;
mod metrics;
mod models;
mod prefix_cache;
mod prompt;
mod request;
mod routes;
mod stats;
mod tokenize;
mod visit;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use config::{ConfigError, MockConfig, MockProtocol, MockRole};
pub use control::{
    Control, ControlError, ControlHandle, Cut, FaultKind, Health, Refuse, StreamFault,
};
pub use stats::{LastRequest, StatsSnapshot};

use engine::Engine;

/// How many connections the kernel may hold for us before they are accepted. A thousand clients can arrive at the same instant.
const BACKLOG: u32 = 4096;

/// How long accepting rests after an error such as "too many open files", which does not go away by trying again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A running mock engine. Dropping it stops the engine and cuts its connections.
#[derive(Debug)]
pub struct MockEngine {
    addr: SocketAddr,
    engine: Arc<Engine>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl MockEngine {
    /// Binds the configured address (port 0 takes any free one) and starts to answer. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the configuration is one that [`MockConfig::check`] refuses.
    pub fn start(config: MockConfig) -> io::Result<Self> {
        config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let socket =
            if config.addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(config.addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;

        let engine = Arc::new(Engine::new(config, addr)?);
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        tasks.spawn(accept(listener, engine.clone(), tasks.clone(), stop.clone()));
        Ok(Self { addr, engine, tasks, stop: stop.drop_guard() })
    }

    /// The address it listens on, with the port it really got.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The name it signs its answers with: in the header `x-mock-engine`, and at the end of `system_fingerprint`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.engine.config.name
    }

    /// What it has counted up to now.
    #[must_use]
    pub fn stats(&self) -> StatsSnapshot {
        self.engine.snapshot()
    }

    /// The last request that was not a probe: see [`LastRequest`].
    #[must_use]
    pub fn last_request(&self) -> Option<LastRequest> {
        self.engine.stats.last_request()
    }

    /// Its failure switches.
    #[must_use]
    pub fn control(&self) -> ControlHandle {
        self.engine.control.clone()
    }

    /// Stops listening, cuts all connections (as a killed process does) and waits until the address is free again.
    pub async fn shutdown(self) {
        let Self { tasks, stop, .. } = self;
        drop(stop);
        tasks.close();
        tasks.wait().await;
    }
}

async fn accept(
    listener: TcpListener,
    engine: Arc<Engine>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(connection::serve(stream, engine.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::debug!(engine = %engine.config.name, %error, "the mock engine could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
