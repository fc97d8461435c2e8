//! `pointsman mock-engine`.

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::mock_engine::{Control, MockConfig, MockEngine};

/// What `--help` says of the switches.
const SWITCHES: &str = r#"Failure switches, at the start by --control, later over HTTP (ENGINE is its address):
  curl ENGINE/mock/control                                    shows all of them
  curl ENGINE/mock/control -d '{"refuse":{"status":503}}'     sets some; null turns one off
  curl -X DELETE ENGINE/mock/control                          turns all of them off

  frozen               true: nothing is answered, running streams stand still, probes too (SIGSTOP)
  refuse               {"status":503,"retry_after":1,"times":3}: answers with an error
  cut_before_headers   {"times":1}: resets the connection before the answer
  hang_before_headers  true: reads the request and never answers
  delay_headers_ms     milliseconds before the answer's headers
  stream               {"kind":KIND,"after_chunks":3,"times":1}: breaks an answer that has begun
                       KIND: hang, reset, close, end, malformed_event, malformed_chunk, error_event
  health               "ok", "unhealthy" or "hang": what /health says
  close_idle           true: closes each connection after its answer without having said so
  two_cookies          true: two Set-Cookie headers on every answer
  hop_headers          true: hop-by-hop headers on every answer
`times` says for how many requests a switch holds; left out, until it is turned off.
Also there: /mock/stats, /mock/last-request, /health, /metrics, /version, /load and /v1/models."#;

/// Run a mock engine.
#[derive(Debug, Args)]
#[command(after_long_help = SWITCHES, after_help = "The failure switches: see --help")]
pub(super) struct MockEngineArgs {
    #[command(flatten)]
    config: MockConfig,
    /// Failure switches that are on from the start, as a JSON object (below)
    #[arg(long, value_name = "JSON", value_parser = switches)]
    control: Option<Control>,
}

fn switches(text: &str) -> Result<Control, String> {
    let handle = crate::mock_engine::ControlHandle::default();
    handle.merge(text.as_bytes()).map_err(|error| error.to_string())
}

impl MockEngineArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { config, control } = self;
        config.check().context("can't run such an engine")?;
        super::block_on(async {
            let mut signals =
                crate::serve::Signals::listen().context("can't listen for signals")?;
            let address = config.addr;
            let engine = MockEngine::start(config).map_err(|error| {
                let remedy = remedy(&error);
                let what = format!("can't run an engine on {address}; {remedy}");
                anyhow::Error::new(error).context(what)
            })?;
            if let Some(switches) = control {
                engine.control().update(|control| *control = switches)?;
            }
            super::say(&format!("mock engine {} at {}\n", engine.name(), engine.url()))?;
            signals.next().await;
            engine.shutdown().await;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// What to do about an address that can't be had.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "stop what listens there, or choose another port: --addr 127.0.0.1:0 takes any free one"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine doesn't have that address: choose another with --addr"
        }
        ErrorKind::PermissionDenied => "ports below 1024 need rights: choose another with --addr",
        _ => "choose another address with --addr",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_help_shows_every_switch_as_it_can_be_set() {
        let keys = serde_json::to_value(Control::default()).unwrap();
        for key in keys.as_object().unwrap().keys() {
            let line = SWITCHES.lines().find(|line| line.trim_start().starts_with(key));
            let value = line.unwrap_or_else(|| panic!("{key} is missing")).trim_start();
            let value = value.strip_prefix(key).unwrap().trim_start();
            let value = match value.split_once([':', ' ']).unwrap().0 {
                "milliseconds" => "5",
                word if word.starts_with('{') => value.split_once("}:").unwrap().0,
                word => word.trim_end_matches(','),
            };
            let brace = if value.starts_with('{') { "}" } else { "" };
            let kinds = [
                "hang",
                "reset",
                "close",
                "end",
                "malformed_event",
                "malformed_chunk",
                "error_event",
            ];
            for kind in kinds {
                let value = value.replace("KIND", &format!("{kind:?}"));
                let set = format!("{{\"{key}\": {value}{brace}}}");
                switches(&set).unwrap_or_else(|error| panic!("{set}: {error}"));
            }
            assert!(kinds.iter().all(|kind| SWITCHES.contains(kind)));
        }
    }

    #[test]
    fn a_taken_port_is_named_with_a_remedy() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let config = MockConfig { addr, ..MockConfig::default() };
        let error = MockEngineArgs { config, control: None }.run().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("can't run an engine on {addr}; stop what listens there")),
            "{error}"
        );
        assert!(error.contains("--addr 127.0.0.1:0"), "{error}");
    }
}
