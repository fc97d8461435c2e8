//! A router and its engines, each a process, as an operator starts them.
//!
//! All ports are free ones: an engine says on standard output which it has, the router in its log.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use pointsman::load_client::LoadClient;
use pointsman_tests::looks;
use pointsman_tests::rig::MODEL;
use serde_json::{Value, json};

use super::program::Program;

/// An engine in a process of its own.
#[derive(Debug)]
pub(super) struct Engine {
    program: Program,
    pub(super) address: SocketAddr,
    client: LoadClient,
}

impl Engine {
    /// Starts `pointsman mock-engine` with these words beside those that all have.
    pub(super) async fn start(name: &str, address: &str, words: &[&str]) -> Result<Self> {
        let all = ["mock-engine", "--addr", address, "--name", name, "--model", MODEL];
        let mut program = Program::start(all.into_iter().chain(words.iter().copied()))?;
        let prefix = format!("mock engine {name} at http://");
        let address = program.says("its address", |line| line.strip_prefix(&prefix)?.parse().ok());
        let address = address.await.with_context(|| format!("starting engine {name}"))?;
        Ok(Self { program, address, client: LoadClient::new(address) })
    }

    /// What it has counted.
    pub(super) async fn counts(&self, what: &str) -> Result<u64> {
        let stats = looks::json(&self.client, "/mock/stats").await?;
        stats[what].as_u64().with_context(|| format!("no {what} in {stats}"))
    }

    /// Turns its failure switches.
    pub(super) async fn turn(&self, switches: Value) -> Result<()> {
        let answer = self.client.post("/mock/control", &switches).await?;
        ensure!(answer.is_good(), "{}", answer.text());
        Ok(())
    }

    pub(super) async fn kill(self) -> Result<()> {
        self.program.kill().await
    }

    pub(super) async fn stop(self) -> Result<()> {
        let status = self.program.stop().await?;
        ensure!(status.success(), "an engine ended with {status}");
        Ok(())
    }
}

/// A router in a process of its own.
#[derive(Debug)]
pub(super) struct Router {
    program: Program,
    pub(super) public: LoadClient,
    pub(super) admin: LoadClient,
    folder: tempfile::TempDir,
}

impl Router {
    /// Starts `pointsman serve` with this YAML beside its listeners, and these files in the policies'
    /// folder; returns when it is ready.
    pub(super) async fn start(yaml: &str, policies: &[(&str, &std::path::Path)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let components = folder.path().join("policies");
        std::fs::create_dir(&components)?;
        for (name, component) in policies {
            std::fs::copy(component, components.join(name))?;
        }
        let file = folder.path().join("pointsman.yaml");
        let listeners = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies_dir: policies\n";
        std::fs::write(&file, format!("{listeners}{yaml}"))?;
        let file = file.to_str().context("the folder's path is not UTF-8")?;
        let mut program = Program::start(["--log-format", "json", "serve", "--config", file])?;
        let addresses = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let listens = line["message"] == "the router is listening";
            let address = |key: &str| line[key].as_str()?.parse::<SocketAddr>().ok();
            listens.then_some(())?;
            Some((address("public")?, address("admin")?))
        };
        let addresses = program.says("its addresses", addresses).await;
        let (public, admin) = addresses.context("starting the router")?;
        let (public, admin) = (LoadClient::new(public), LoadClient::new(admin));
        looks::wait_for("the router to be ready", async || {
            Ok(admin.get("/ready").await?.status.is_success())
        })
        .await?;
        Ok(Self { program, public, admin, folder })
    }

    /// Every row of its loads.
    pub(super) async fn load_rows(&self) -> Result<Vec<Value>> {
        looks::load_rows(&self.admin).await
    }

    /// Waits until every column of every row is zero.
    pub(super) async fn wait_for_idle(&self) -> Result<()> {
        looks::wait_for("the loads to be zero", async || looks::is_idle(&self.admin).await).await
    }

    /// Stops it as an operator does.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { program, folder, .. } = self;
        let status = program.stop().await?;
        ensure!(status.success(), "the router ended with {status}");
        drop(folder);
        Ok(())
    }
}

/// The YAML of workers: worker n is the nth engine, with further keys in flow style.
pub(super) fn workers(engines: &[Engine], keys: impl Fn(usize, SocketAddr) -> String) -> String {
    let mut yaml = "workers:\n".to_owned();
    for (at, engine) in engines.iter().enumerate() {
        let (id, address) = (at + 1, engine.address);
        let endpoint = json!(format!("http://{address}"));
        let keys = keys(at, address);
        yaml += &format!("  - {{ worker_id: {id}, endpoint: {endpoint}, model: {MODEL}{keys} }}\n");
    }
    yaml
}
