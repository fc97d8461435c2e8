//! Calling the tools: with captured output, with a limit, with a clear word when one is missing or fails.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How many lines of a failed tool's output an error carries.
const TAIL: usize = 40;
/// How often a running tool is looked at; short against every step that is watched.
const POLL: Duration = Duration::from_millis(50);

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It isn't there.
    #[error("`{program}` was not found: install it, or put it on PATH")]
    NotFound {
        /// The tool's name.
        program: String,
    },
    /// The system would not start or watch it.
    #[error(
        "`{program}` could not be run ({source}): check its permissions and the free memory and disk space"
    )]
    Start {
        /// The tool's name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended badly.
    #[error("`{program}` failed ({status}):\n{log}")]
    Failed {
        /// The tool's name with its first argument.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        log: String,
    },
    /// It was stopped at its limit.
    #[error("`{program}` was stopped after {} s:\n{log}", limit.as_secs())]
    TimedOut {
        /// The tool's name with its first argument.
        program: String,
        /// The limit.
        limit: Duration,
        /// The last lines that it wrote.
        log: String,
    },
}

impl CommandError {
    /// What the tool wrote, where it ran at all.
    pub(crate) fn log(&self) -> &str {
        match self {
            Self::NotFound { .. } | Self::Start { .. } => "",
            Self::Failed { log, .. } | Self::TimedOut { log, .. } => log,
        }
    }

    /// Whether the trouble is a full disk, which the tools report in words only.
    pub(crate) fn is_full_disk(&self) -> bool {
        match self {
            Self::Start { source, .. } => is_full(source),
            other => {
                let log = other.log();
                log.contains("No space left on device")
                    || log.contains("don't have enough free space")
                    || log.contains("Disk quota exceeded")
            }
        }
    }
}

/// Whether an input/output error means that no more can be written.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The tool and its first argument, as a person would name the call.
pub(crate) fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let is_verb = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let verb = command
        .get_args()
        .filter_map(|argument| argument.to_str())
        .find(|argument| is_verb(argument));
    match verb {
        Some(verb) => format!("{program} {verb}"),
        None => program.into_owned(),
    }
}

/// The last lines of a text.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// Turns a failed start into the error that names the tool.
pub(crate) fn start_error(command: &Command, source: io::Error) -> CommandError {
    let program = Path::new(command.get_program()).to_string_lossy().into_owned();
    match source.kind() {
        io::ErrorKind::NotFound => CommandError::NotFound { program },
        _ => CommandError::Start { program, source },
    }
}

/// Runs a tool to its end and returns what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<String, CommandError> {
    tracing::debug!(command = ?command, "calling a tool");
    let output =
        command.stdin(Stdio::null()).output().map_err(|source| start_error(command, source))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let log = tail(&format!("{stdout}{}", String::from_utf8_lossy(&output.stderr)));
    Err(CommandError::Failed { program: name(command), status: output.status, log })
}

/// Runs a tool with all its output in one log, and calls `watch` while it works. Returns the log.
pub(crate) fn logged(command: &mut Command, watch: impl FnMut()) -> Result<String, CommandError> {
    run(command, None, watch)
}

/// The same in a process group of its own, all of which is killed at the limit: tools like rustup start others.
pub(crate) fn limited(command: &mut Command, limit: Duration) -> Result<String, CommandError> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    run(command, Some(limit), || {})
}

fn run(
    command: &mut Command,
    limit: Option<Duration>,
    mut watch: impl FnMut(),
) -> Result<String, CommandError> {
    tracing::debug!(command = ?command, "calling a tool");
    let mut log = tempfile::tempfile().map_err(|source| start_error(command, source))?;
    let writer = || log.try_clone().map(Stdio::from);
    let (out, err) = match (writer(), writer()) {
        (Ok(out), Ok(err)) => (out, err),
        (Err(source), _) | (_, Err(source)) => {
            return Err(CommandError::Start { program: name(command), source });
        }
    };
    let started = now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|source| start_error(command, source))?;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if limit.is_some_and(|limit| started.elapsed() >= limit) => {
                kill_group(&mut child);
                break None;
            }
            Ok(None) => std::thread::sleep(POLL),
            Err(source) => {
                return Err(CommandError::Start { program: name(command), source });
            }
        }
        watch();
    };
    let text = read_back(&mut log);
    match (ended, limit) {
        (Some(status), _) if status.success() => Ok(text),
        (None, Some(limit)) => {
            Err(CommandError::TimedOut { program: name(command), limit, log: tail(&text) })
        }
        (status, _) => Err(CommandError::Failed {
            program: name(command),
            status: status.unwrap_or_default(),
            log: tail(&text),
        }),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool's limit is wall-clock time; no decision depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

/// Ends a child that leads a process group, with everything it started, and reaps it. Errors mean that it is already gone.
fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn read_back(log: &mut File) -> String {
    let mut bytes = Vec::new();
    // The log only explains; a run whose log can't be read has still succeeded or failed as its status says.
    let _ = log.rewind().and_then(|()| log.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_missing_tool_is_named() {
        let error = output(&mut Command::new("no-such-tool-of-ours")).unwrap_err();
        assert!(
            matches!(&error, CommandError::NotFound { program } if program == "no-such-tool-of-ours"),
            "{error}"
        );
    }

    #[test]
    fn a_failed_tools_last_lines_are_in_the_error() {
        let error = logged(&mut shell("seq 100; echo broken >&2; exit 3"), || {}).unwrap_err();
        assert_eq!(error.log().lines().count(), TAIL);
        assert!(error.log().ends_with("broken"), "{error}");
        assert!(error.to_string().starts_with("`sh` failed (exit status: 3)"), "{error}");
    }

    #[test]
    fn a_tool_past_its_limit_is_killed_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > '{}'; wait", pid.display());
        let started = now();
        let error = limited(&mut shell(&script), Duration::from_millis(500)).unwrap_err();
        assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));

        let grandchild: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let is_running = || {
            let state =
                std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
        };
        while is_running() && started.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert!(!is_running());
    }

    #[test]
    fn a_full_disk_is_recognised_in_a_tools_words() {
        let error = logged(
            &mut shell("echo 'error: No space left on device (os error 28)'; exit 1"),
            || {},
        )
        .unwrap_err();
        assert!(error.is_full_disk());
    }
}
