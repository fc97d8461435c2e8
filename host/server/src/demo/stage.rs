//! What the tour is played on: the policies built, four mock engines, a router, a policies folder.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pointsman_build::{GuestOptions, Setup, Toolchain, build_many, for_stderr, write_atomically};
use serde_json::Value;

use super::choice::Choice;
use super::invitation::Invitation;
use super::report::{BuiltPolicy, say};
use crate::config::Config;
use crate::load_client::LoadClient;
use crate::mock_engine::{MockConfig, MockEngine, MockRole};
use crate::serve::Server;

/// How many engines there are.
pub(super) const ENGINES: usize = 4;
/// The model that they all claim to serve.
pub(super) const MODEL: &str = "demo";
/// How long the ledger may take to empty after the last answer.
const IDLE_PATIENCE: Duration = Duration::from_secs(5);

/// Builds the policies: first the one that serves, then the one that replaces it.
pub(super) fn build_policies(choice: &Choice) -> Result<Vec<BuiltPolicy>> {
    let progress = for_stderr();
    let toolchain = Toolchain::ensure(&Setup::from_env()?, &*progress)
        .context("no toolchain for WebAssembly could be set up")?;
    let built = build_many(&toolchain, &choice.folders(), &GuestOptions::default(), &*progress)
        .context("the policies could not be built")?;
    let read = built.into_iter().map(|built| {
        let path = built.component;
        let component =
            std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(BuiltPolicy {
            name: built.package,
            digest: built.digest,
            bytes: built.component_bytes,
            component,
        })
    });
    let mut built: Vec<BuiltPolicy> = read.collect::<Result<_>>()?;
    if let [only] = &built[..] {
        let marked = marked(only);
        built.push(marked);
    }
    Ok(built)
}

/// The same component as another file: a custom section stands at its end.
fn marked(policy: &BuiltPolicy) -> BuiltPolicy {
    let mut component = policy.component.clone();
    // Its kind, its length, its name's length, and the name.
    component.extend_from_slice(b"\0\x05\x04demo");
    BuiltPolicy {
        name: format!("{} (marked)", policy.name),
        digest: pointsman_build::digest(&component),
        bytes: component.len() as u64,
        component,
    }
}

/// All that runs.
pub(super) struct Stage {
    pub(super) public: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) choice: Choice,
    server: Server,
    engines: Vec<MockEngine>,
    folder: tempfile::TempDir,
}

impl Stage {
    /// Starts everything. Without `listen`, or if that is taken, the router takes any free port.
    pub(super) async fn set(
        choice: Choice,
        built: &[BuiltPolicy],
        listen: Option<SocketAddr>,
    ) -> Result<Self> {
        let folder = tempfile::TempDir::with_prefix("pointsman-demo-");
        let folder = folder.context("no temporary folder")?;
        let mut engines = Vec::new();
        for number in 1..=ENGINES {
            let config = MockConfig {
                name: format!("engine-{number}"),
                models: vec![MODEL.to_owned()],
                prefill_tokens_per_s: 20_000.0,
                decode_ms: Some(2.0),
                role: role(&choice, number),
                ..MockConfig::default()
            };
            engines.push(MockEngine::start(config).context("starting a mock engine")?);
        }
        let policies = folder.path().join("policies");
        std::fs::create_dir(&policies).context("making the policies folder")?;
        for policy in built {
            let path = folder.path().join("built").join(format!("{}.wasm", policy.name));
            write_atomically(&path, &policy.component).context("keeping a component")?;
        }
        let first = built.first().context("no policy was built")?;
        write_atomically(&policies.join(format!("{}.wasm", choice.name)), &first.component)?;

        let free = |address: &SocketAddr| std::net::TcpListener::bind(address).is_ok();
        let listen = listen.filter(free).unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, yaml(&choice, listen, &engines))
            .context("writing the configuration")?;
        let config = Config::from_path(&file)?;
        let server = Server::start(config, Some(file)).await?;
        Ok(Self {
            public: server.public_addr(),
            admin: server.admin_addr(),
            choice,
            server,
            engines,
            folder,
        })
    }

    /// How many of the engines answer clients: all of them, or those that decode.
    pub(super) fn answering(&self) -> usize {
        if self.choice.is_for_halves() { ENGINES / 2 } else { ENGINES }
    }

    /// Clients of both listeners.
    pub(super) fn clients(&self) -> Clients {
        Clients { public: LoadClient::new(self.public), admin: LoadClient::new(self.admin) }
    }

    /// Writes another version over the component.
    pub(super) fn replace_component(&self, with: &BuiltPolicy) -> Result<()> {
        let path = self.folder.path().join("policies").join(format!("{}.wasm", self.choice.name));
        write_atomically(&path, &with.component).context("replacing the component")?;
        Ok(())
    }

    /// What to try by hand.
    pub(super) fn print_invitation(&self, quiet: bool) -> Result<()> {
        let program = std::env::current_exe().context("this program's path isn't known")?;
        let folder = self.folder.path();
        let invitation = Invitation {
            public: self.public,
            admin: self.admin,
            program: &program,
            policy: &self.choice.name,
            sources: &self.choice.sources,
            config: &folder.join("pointsman.yaml"),
            policies: &folder.join("policies"),
            built: &folder.join("built"),
        };
        say(quiet, &invitation.text());
        Ok(())
    }

    /// Stops everything.
    pub(super) async fn strike(self) {
        self.server.shutdown().await;
        for engine in self.engines {
            engine.shutdown().await;
        }
    }
}

/// What the nth engine does for a prompt.
fn role(choice: &Choice, number: usize) -> MockRole {
    match (choice.is_for_halves(), number.is_multiple_of(2)) {
        (false, _) => MockRole::Aggregated,
        (true, true) => MockRole::Decode,
        (true, false) => MockRole::Prefill,
    }
}

fn yaml(choice: &Choice, listen: SocketAddr, engines: &[MockEngine]) -> String {
    let worker = |(engine, id): (&MockEngine, usize)| {
        let role = match role(choice, id) {
            MockRole::Aggregated => "",
            MockRole::Prefill => ", role: prefill, disaggregation: { protocol: vllm }",
            MockRole::Decode => ", role: decode, disaggregation: { protocol: vllm }",
        };
        let url = engine.url();
        format!(
            "  - {{ worker_id: {id}, endpoint: \"{url}\", model: {MODEL}, total_kv_blocks: 65536{role} }}\n"
        )
    };
    let workers: String = engines.iter().zip(1..).map(worker).collect();
    format!("listen: {listen}\nadmin: 127.0.0.1:0\n{}workers:\n{workers}", choice.yaml)
}

/// Clients of both listeners.
pub(super) struct Clients {
    pub(super) public: LoadClient,
    admin: LoadClient,
}

impl Clients {
    async fn admin(&self, path: &str) -> Result<Value> {
        let answer = self.admin.get(path).await.with_context(|| format!("GET {path}"))?;
        if !answer.is_good() {
            bail!("GET {path} answered {}: {}", answer.status, answer.text());
        }
        Ok(answer.json())
    }

    /// The latest receipts, newest first.
    pub(super) async fn receipts(&self, most: usize) -> Result<Vec<Value>> {
        let answer = self.admin(&format!("/v1/receipts?limit={most}")).await?;
        let receipts = answer.get("receipts").and_then(Value::as_array).cloned();
        receipts.context("GET /v1/receipts has no list of receipts")
    }

    /// The digest that decides for a type now.
    pub(super) async fn active_digest(&self, policy_type: &str) -> Result<Option<String>> {
        let answer = self.admin("/v1/policies").await?;
        let types = answer.get("types").and_then(Value::as_array).context("no list of types")?;
        let found = types.iter().find(|entry| entry["type"] == policy_type);
        Ok(found.and_then(|entry| entry["active_digest"].as_str()).map(str::to_owned))
    }

    /// Waits until no row carries anything. False if that doesn't come.
    pub(super) async fn wait_for_idle(&self) -> Result<bool> {
        let watch = pointsman_core::clock::Stopwatch::start();
        loop {
            let loads = self.admin("/v1/loads").await?;
            let partitions = loads["partitions"].as_array().context("no list of partitions")?;
            let rows = partitions.iter().filter_map(|p| p["rows"].as_array()).flatten();
            let idle = rows.into_iter().all(|row| {
                ["active_requests", "active_prefill_tokens", "active_decode_blocks"]
                    .iter()
                    .all(|column| row[*column] == 0)
            });
            if idle || watch.elapsed() > IDLE_PATIENCE {
                return Ok(idle);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
