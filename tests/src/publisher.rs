//! A real pyzmq publisher in a process of its own: `tests/engines/publisher.py`.
//!
//! It needs Python with pyzmq and msgpack: see [`crate::python`].

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::python::PUBLISHER;

/// The publisher. Its process ends with it.
#[derive(Debug)]
pub struct Publisher {
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Where its events are.
    pub endpoint: String,
    /// Where old ones are asked for.
    pub replay_endpoint: String,
    keeps: usize,
}

impl Publisher {
    /// Starts one that keeps so many batches, at any ports.
    pub async fn start(target: &Path, keeps: usize) -> Result<Self> {
        Self::at(&PUBLISHER.interpreter(target)?, keeps, "0", "0").await
    }

    async fn at(python: &Path, keeps: usize, port: &str, replay_port: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/publisher.py");
        let mut process = Command::new(python)
            .arg(script)
            .args([&keeps.to_string(), port, replay_port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", python.display()))?;
        let commands = process.stdin.take().context("the publisher has no stdin")?;
        let stdout = process.stdout.take().context("the publisher has no stdout")?;
        let mut answers = BufReader::new(stdout).lines();
        let Some(line) = answers.next_line().await? else {
            bail!("the publisher didn't start; {}", PUBLISHER.remedy());
        };
        let at: Value = serde_json::from_str(&line)?;
        let text = |key: &str| at[key].as_str().map(str::to_owned).context("it doesn't say where");
        let (endpoint, replay_endpoint) = (text("endpoint")?, text("replay_endpoint")?);
        Ok(Self { process, commands, answers, endpoint, replay_endpoint, keeps })
    }

    /// Publishes a batch.
    pub async fn publish(&mut self, events: Value) -> Result<()> {
        self.tell(json!({ "do": "publish", "events": events })).await.map(drop)
    }

    /// Numbers and keeps a batch that it doesn't send.
    pub async fn lose(&mut self, events: Value) -> Result<()> {
        self.tell(json!({ "do": "lose", "events": events })).await.map(drop)
    }

    /// Where replays were asked for from.
    pub async fn asked(&mut self) -> Result<Value> {
        Ok(self.tell(json!({ "do": "asked" })).await?["asked"].take())
    }

    /// Kills it, and starts another in its place.
    pub async fn restart(mut self, target: &Path) -> Result<Self> {
        self.process.kill().await?;
        let port = |endpoint: &str| endpoint.rsplit(':').next().unwrap_or("0").to_owned();
        let ports = (port(&self.endpoint), port(&self.replay_endpoint));
        Self::at(&PUBLISHER.interpreter(target)?, self.keeps, &ports.0, &ports.1).await
    }

    async fn tell(&mut self, command: Value) -> Result<Value> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        let answer = self.answers.next_line().await?.context("the publisher has ended")?;
        Ok(serde_json::from_str(&answer)?)
    }
}
