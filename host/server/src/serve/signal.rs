//! Serving until the process is told to stop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Doors, Server};
use crate::config::Config;

/// How long what isn't a request may take to end, once the drain is over.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Starts the router, serves until SIGTERM or SIGINT, and drains. A second one cuts the drain short.
/// SIGHUP reloads, as `POST /v1/policies/reload` does; before the start is over and during the drain
/// it means nothing.
///
/// # Errors
///
/// It could not start.
pub async fn run(config: Config, config_path: Option<PathBuf>, doors: Doors) -> Result<()> {
    // Signals first: one that comes during the start must not kill half a router.
    let mut signals = Signals::listen().context("can't listen for signals")?;
    let server = tokio::select! {
        started = Server::start_with(config, config_path, doors) => started?,
        name = signals.end() => {
            tracing::info!(signal = name, "told to stop before the start was over");
            return Ok(());
        }
    };
    let name = loop {
        match signals.next().await {
            HANG_UP => {
                tracing::info!(signal = HANG_UP, "told to reload");
                let policies = server.app().policies.clone();
                server.tasks.spawn(async move {
                    // What it did and what it refused is the keeper's to tell.
                    if policies.reload().await.is_some_and(|report| report.is_idle()) {
                        tracing::info!("nothing has changed");
                    }
                });
            }
            name => break name,
        }
    };
    tracing::info!(signal = name, "told to stop");
    server.begin_drain();
    let limit = server.app().config.drain_timeout;
    let served = server.served.clone();
    tokio::select! {
        _ = tokio::time::timeout(limit, served.wait()) => {}
        name = signals.end() => tracing::warn!(signal = name, "told again: not waiting any longer"),
    }
    let stopped = tokio::time::timeout(LAST_PATIENCE, server.shutdown_within(Duration::ZERO));
    if stopped.await.is_err() {
        tracing::warn!("something doesn't end, such as the compilation of a component; leaving it");
    }
    Ok(())
}

/// The signal that a terminal sends when it goes, and an operator to have a server read its
/// configuration.
const HANG_UP: &str = "SIGHUP";

/// The signals that tell a process to stop, or to look at its configuration.
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
            _ = self.hang_up.recv() => HANG_UP,
        }
    }

    /// The name of the next one that tells it to stop.
    async fn end(&mut self) -> &'static str {
        loop {
            match self.next().await {
                HANG_UP => tracing::info!(signal = HANG_UP, "nothing to reload now"),
                name => return name,
            }
        }
    }
}
