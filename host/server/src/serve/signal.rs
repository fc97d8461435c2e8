//! Serving until the process is told to stop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Server;
use crate::config::Config;

/// How long what isn't a request may take to end, once the drain is over.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Starts the router, serves until SIGTERM, SIGINT or SIGHUP, and drains. A second signal cuts the drain
/// short.
///
/// # Errors
///
/// It could not start.
pub async fn run(config: Config, config_path: Option<PathBuf>) -> Result<()> {
    // Signals first: one that comes during the start must not kill half a router.
    let mut signals = Signals::listen().context("can't listen for signals")?;
    let server = tokio::select! {
        started = Server::start(config, config_path) => started?,
        name = signals.next() => {
            tracing::info!(signal = name, "told to stop before the start was over");
            return Ok(());
        }
    };
    let name = signals.next().await;
    tracing::info!(signal = name, "told to stop");
    let limit = server.app().config.drain_timeout;
    let draining = server.app().draining.clone();
    let served = server.served.clone();
    draining.cancel();
    served.close();
    tokio::select! {
        _ = tokio::time::timeout(limit, served.wait()) => {}
        name = signals.next() => tracing::warn!(signal = name, "told again: not waiting any longer"),
    }
    let stopped = tokio::time::timeout(LAST_PATIENCE, server.shutdown_within(Duration::ZERO));
    if stopped.await.is_err() {
        tracing::warn!("something doesn't end, such as the compilation of a component; leaving it");
    }
    Ok(())
}

/// The signals that tell a process to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on they don't end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one's name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
