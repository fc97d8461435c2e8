//! The log: lines on standard error, for people or for machines.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Starts to log. `RUST_LOG` says what is written; without it, `usual` does, in the same form. A log
/// that a caller has already set up is left as it is.
pub fn start(format: LogFormat, usual: &str) {
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let fallback = || EnvFilter::new(usual);
    let (filter, refused) = if wanted.trim().is_empty() {
        (fallback(), None)
    } else {
        match EnvFilter::try_new(&wanted) {
            Ok(filter) => (filter, None),
            Err(error) => (fallback(), Some(error)),
        }
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(error, "the log was set up already");
    }
    if let Some(error) = refused {
        tracing::warn!(%error, wanted, "RUST_LOG isn't understood; logging as if it were not set");
    }
}
