//! One command of the router's program in a process of its own.
//!
//! The process ends with its [`Program`], also where a test fails: by its own id, and no other does.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a process may take to begin or to end. A component is compiled in it, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running process.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    said: UnboundedReceiver<String>,
    /// What it has said up to now, for whoever asks why it failed.
    heard: Vec<String>,
    /// Its pipes are read to their end, whoever listens, so that it never waits for that.
    _readers: JoinSet<()>,
}

impl Program {
    /// Starts the program with these words.
    pub(super) fn start<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let program = Path::new(env!("CARGO_BIN_EXE_pointsman-in-tests"));
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Whoever runs the tests may have a router of his own.
        let ours = |name: &str| name == "RUST_LOG" || name.starts_with("POINTSMAN_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
            command.env_remove(name);
        }
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let (says, said) = unbounded_channel();
        let mut readers = JoinSet::new();
        readers.spawn(read(child.stdout.take().context("it has no stdout")?, says.clone()));
        readers.spawn(read(child.stderr.take().context("it has no stderr")?, says));
        Ok(Self { child, said, heard: Vec::new(), _readers: readers })
    }

    /// Waits until it says a line that something is found in.
    pub(super) async fn says<T>(
        &mut self,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let listen = async {
            while let Some(line) = self.said.recv().await {
                let found = find(&line);
                self.heard.push(line);
                if found.is_some() {
                    return found;
                }
            }
            None
        };
        match timeout(PATIENCE, listen).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => bail!("it ended without {what}; it said:\n{}", self.heard.join("\n")),
            Err(_) => {
                bail!("waited {PATIENCE:?} for {what}; it said:\n{}", self.heard.join("\n"))
            }
        }
    }

    /// Sends it a signal, such as `TERM`.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().context("it has ended already")?.to_string();
        let done = std::process::Command::new("kill").args([&format!("-{signal}"), &id]).status();
        ensure!(done.context("running kill")?.success(), "kill -{signal} {id} failed");
        Ok(())
    }

    /// Kills it, and waits until it is gone.
    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("killing it")
    }

    /// Tells it to stop, and waits until it has.
    pub(super) async fn stop(mut self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        let ended = timeout(PATIENCE, self.child.wait()).await;
        Ok(ended.with_context(|| format!("waited {PATIENCE:?} for its end"))??)
    }
}

async fn read(from: impl AsyncRead + Unpin, says: UnboundedSender<String>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Nobody listens any more: it is to be able to write all the same.
        drop(says.send(line));
    }
}
