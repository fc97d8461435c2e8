//! A real router before real mock engines, all on loopback and in this process.
//!
//! Owns what a test starts, and stops it. A test writes YAML and sends HTTP, as a user would.

use std::path::PathBuf;

use anyhow::{Context, Result};
use pointsman::config::Config;
use pointsman::load_client::LoadClient;
use pointsman::mock_engine::{MockConfig, MockEngine};
use pointsman::serve::Server;
use pointsman_build::write_atomically;
use serde_json::Value;

use crate::looks;

/// The model that the rig's engines serve.
pub const MODEL: &str = "test-model";

/// What a rig is made of. Change what the test is about.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One engine each.
    pub engines: Vec<MockConfig>,
    /// The policies folder: (file name, bytes). The folder exists even when it is empty.
    pub policies: Vec<(String, Vec<u8>)>,
    /// `worker_selection`, as YAML under that key, indented by two.
    pub selection: String,
    /// Further top-level YAML.
    pub more: String,
    /// Further keys of each worker, in flow style: `, taints: [fast]`. `{port}` is its engine's.
    pub worker_keys: Vec<String>,
}

impl Plan {
    /// `engines` instant engines, the built-in default policy, quick probes.
    #[must_use]
    pub fn new(engines: usize) -> Self {
        let engine = |number| MockConfig {
            name: format!("engine-{number}"),
            models: vec![MODEL.to_owned()],
            max_num_seqs: 1_024,
            ..MockConfig::default()
        };
        Self {
            engines: (1..=engines).map(engine).collect(),
            policies: Vec::new(),
            selection: String::new(),
            more: "health: { interval: 200ms, timeout: 2s }\n".to_owned(),
            worker_keys: vec![String::new(); engines],
        }
    }

    /// The same with a component as `type` in the folder, deciding for the aggregated role.
    #[must_use]
    pub fn with_policy(mut self, policy_type: &str, component: Vec<u8>, parameters: &str) -> Self {
        self.policies.push((format!("{policy_type}.wasm"), component));
        self.selection = format!(
            "  aggregated: it\n  instances:\n    - {{ name: it, type: {policy_type}, parameters: {parameters} }}\n"
        );
        self
    }

    /// The same with a built-in policy.
    #[must_use]
    pub fn with_builtin(mut self, policy_type: &str) -> Self {
        self.selection =
            format!("  aggregated: it\n  instances:\n    - {{ name: it, type: {policy_type} }}\n");
        self
    }

    /// The same with least-busy's component.
    pub fn with_least_busy(self) -> Result<Self> {
        let component = std::fs::read(crate::guests::least_busy())?;
        Ok(self.with_policy("least-busy", component, "{ min_device_overlap_blocks: 0 }"))
    }

    /// Starts all of it.
    pub async fn start(self) -> Result<Rig> {
        Rig::start(self).await
    }
}

/// What runs.
#[derive(Debug)]
pub struct Rig {
    /// The router.
    pub server: Server,
    /// The engines; worker n is engine n - 1.
    pub engines: Vec<MockEngine>,
    /// A client of the public listener.
    pub public: LoadClient,
    /// A client of the admin listener.
    pub admin: LoadClient,
    folder: tempfile::TempDir,
}

impl Rig {
    async fn start(plan: Plan) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let policies = folder.path().join("policies");
        std::fs::create_dir(&policies)?;
        for (name, bytes) in &plan.policies {
            std::fs::write(policies.join(name), bytes)?;
        }
        let engines: Vec<MockEngine> =
            plan.engines.iter().cloned().map(MockEngine::start).collect::<std::io::Result<_>>()?;
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, yaml(&plan, &engines))?;
        let config = Config::from_path(&file)?;
        let server = Server::start(config, Some(file)).await?;
        let (public, admin) =
            (LoadClient::new(server.public_addr()), LoadClient::new(server.admin_addr()));
        Ok(Self { server, engines, public, admin, folder })
    }

    /// Where the policies are.
    #[must_use]
    pub fn policies_dir(&self) -> PathBuf {
        self.folder.path().join("policies")
    }

    /// The YAML file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("pointsman.yaml")
    }

    /// Writes a component over a type's, whole at once.
    pub fn write_policy(&self, policy_type: &str, component: &[u8]) -> Result<()> {
        write_atomically(&self.policies_dir().join(format!("{policy_type}.wasm")), component)?;
        Ok(())
    }

    /// Gets an admin path as JSON.
    pub async fn admin_json(&self, path: &str) -> Result<Value> {
        looks::json(&self.admin, path).await
    }

    /// Every row of `/v1/loads`.
    pub async fn load_rows(&self) -> Result<Vec<Value>> {
        looks::load_rows(&self.admin).await
    }

    /// Requests in the ledger, over all rows.
    pub async fn active_requests(&self) -> Result<u64> {
        let rows = self.load_rows().await?;
        Ok(rows.iter().filter_map(|row| row["active_requests"].as_u64()).sum())
    }

    /// Waits until every column of every row is zero.
    pub async fn wait_for_idle(&self) -> Result<()> {
        self.wait_for("the ledger to be empty", async || looks::is_idle(&self.admin).await).await
    }

    /// What `/v1/policies` says of a type.
    pub async fn policy_type(&self, policy_type: &str) -> Result<Value> {
        let all = self.admin_json("/v1/policies").await?;
        let types = all["types"].as_array().context("/v1/policies has no types")?;
        let found = types.iter().find(|entry| entry["type"] == policy_type);
        found.cloned().with_context(|| format!("/v1/policies doesn't know {policy_type}: {all}"))
    }

    /// Waits until a type's component of this digest decides.
    pub async fn wait_for_digest(&self, policy_type: &str, digest: &str) -> Result<()> {
        self.wait_for(&format!("{policy_type} to be {digest}"), async || {
            Ok(self.policy_type(policy_type).await?["active_digest"] == digest)
        })
        .await
    }

    /// Waits for what must come; an error if it doesn't.
    pub async fn wait_for(&self, what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        looks::wait_for(what, is_so).await
    }

    /// Stops all of it.
    pub async fn stop(self) {
        self.server.shutdown().await;
        for engine in self.engines {
            engine.shutdown().await;
        }
    }
}

fn yaml(plan: &Plan, engines: &[MockEngine]) -> String {
    let selection = if plan.selection.is_empty() {
        String::new()
    } else {
        format!("worker_selection:\n{}", plan.selection)
    };
    let workers: String = engines
        .iter()
        .zip(&plan.worker_keys)
        .zip(1..)
        .map(|((engine, keys), id)| {
            let url = engine.url();
            let keys = keys.replace("{port}", &engine.addr().port().to_string());
            format!("  - {{ worker_id: {id}, endpoint: \"{url}\", model: {MODEL}{keys} }}\n")
        })
        .collect();
    let workers = match workers.as_str() {
        "" => "workers: []\n".to_owned(),
        list => format!("workers:\n{list}"),
    };
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies_dir: policies\n{selection}{workers}{}",
        plan.more
    )
}
