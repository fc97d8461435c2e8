//! The command line.
//!
//! Owns the commands' words, their exit codes and how an error looks in a terminal; what the
//! commands do belongs to the modules that they call. Exit code 0: all went well; 1: it didn't; 2:
//! the command line was wrong.

pub mod check;
mod demo;
mod epp;
mod mock_engine;
pub mod policy;
mod select;
mod serve;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::telemetry::logging::{self, LogFormat};

/// Where to read on.
const DOCUMENTS: &str = "To see it work: pointsman demo (in the source tree)
Every key of the configuration is in host/server/CONFIG.md, the admin listener in host/server/ADMIN.md, how to write
a policy in README.md.";

/// A router for LLM inference whose policies are sandboxed components.
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, arg_required_else_help = true, after_help = DOCUMENTS)]
struct Cli {
    /// Log lines as text or as json, on standard error; RUST_LOG says which
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "POINTSMAN_LOG_FORMAT",
        value_name = "FORMAT",
        hide_possible_values = true,
        display_order = 1_000
    )]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve requests until SIGTERM or Ctrl-C, then drain
    Serve(serve::Serve),
    /// Serve worker selection alone, to those who send requests themselves
    Select(select::Select),
    /// Serve the endpoint picker alone, to gateways that carry the requests
    Epp(epp::Epp),
    /// Do all that `serve` does at start, without serving, and tell every mistake
    Check(check::CheckArgs),
    /// Run one OpenAI-shaped engine without a model, for trying things out
    MockEngine(mock_engine::MockEngineArgs),
    /// Take the tour: bundled policies, mock engines, real traffic, a policy replaced under load
    Demo(demo::Demo),
    /// Write a policy, build, check, test and measure it; look into a built one, pull one out of a registry, or make recorded decisions again
    #[command(subcommand)]
    Policy(policy::Policy),
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub(crate) struct ConfigArg {
    /// The configuration file
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "pointsman.yaml",
        env = "POINTSMAN_CONFIG"
    )]
    pub(crate) config: PathBuf,
}

/// Runs the command that the command line names.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            // Help and the version come as errors too, for standard output and with code 0.
            let shown = message.print();
            let code = u8::try_from(message.exit_code()).unwrap_or(2);
            return if shown.is_ok() { ExitCode::from(code) } else { ExitCode::FAILURE };
        }
    };
    // Commands that end by themselves say what matters on standard output.
    let usual = match cli.command {
        Command::Serve(_) | Command::Select(_) | Command::Epp(_) | Command::MockEngine(_) => "info",
        // What policies are refused for is told once, with its place; the log would say it again.
        Command::Check(_) => "off,pointsman_wasm::engine=warn",
        _ => "warn",
    };
    logging::start(cli.log_format, usual);
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Select(select) => select.run(),
        Command::Epp(epp) => epp.run(),
        Command::Check(check) => check.run(),
        Command::MockEngine(engine) => engine.run(),
        Command::Demo(demo) => demo.run(),
        Command::Policy(policy) => policy.run(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with all that led to it, one cause a line.
fn report(error: &anyhow::Error) {
    let mut text = format!("pointsman: {error}\n");
    let mut last = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // An error that says what its cause says needs no second line.
        if !last.contains(&cause) {
            text += &format!("  because: {cause}\n");
        }
        last = cause;
    }
    // Nobody is left to tell if that fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes to standard output. A reader that hung up (`| head`) is no error.
fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("can't write to standard output"),
    }
}

/// How long blocking work may go on after all else has ended.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Runs async work to its end. Blocking work that doesn't end, such as the compilation of a
/// component, is left behind.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("can't start the async runtime")?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_PATIENCE);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
