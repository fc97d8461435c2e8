//! The service is what its OpenAPI document says: schemathesis makes up requests, good and bad, and looks at
//! each answer.
//!
//! An answer from 500 on is a failure, but for those that the selection API has for what is no fault of the
//! router's: 503 where nobody may have a request, or nobody is ready, and 501 where replicas would be told of
//! each other. So is each status, header or body that the document doesn't have, and each request that the
//! document forbids and the service takes (in a batch, what is wrong with one request is that one's alone).
//! What isn't looked at is whether all that the document allows is taken: it can't say that two lists have
//! one length, or that a worker doesn't fit its partition.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pointsman::load_client::LoadClient;
use pointsman_tests::python::SCHEMATHESIS;
use pointsman_tests::rig::{Plan, Rig};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{good, start};

const SETTINGS: &str = r#"[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx"]

[[operations]]
include-path = ["/select", "/select_and_reserve", "/ready"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

[[operations]]
include-path-regex = "^/replica_sync/"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501"]

[[operations]]
include-path = ["/select/batch", "/select_and_reserve/batch"]
checks.negative_data_rejection.enabled = false

[phases.stateful]
max-steps = 20
generation.max-examples = 30
"#;

/// A service with two workers of the model that a request is of which names none.
struct Served {
    rig: Rig,
    client: LoadClient,
    python: PathBuf,
    folder: tempfile::TempDir,
}

impl Served {
    async fn start() -> Result<Self> {
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder")?;
        let python = tokio::task::spawn_blocking({
            let target = target.to_owned();
            move || SCHEMATHESIS.interpreter(&target)
        });
        let python = python.await??;
        let (rig, client) = start(Plan::new(2), "").await?;
        for (id, engine) in (101_u64..).zip(&rig.engines) {
            let worker = json!({ "worker_id": id, "endpoint": engine.url() });
            good(&client, "/workers", &worker).await?;
        }
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("schemathesis.toml"), SETTINGS)?;
        Ok(Self { rig, client, python, folder })
    }

    /// Has schemathesis go by this document.
    async fn hold_to(&self, document: &Value, more: &[&str]) -> Result<()> {
        let address = self.rig.server.select_addr().context("it is served")?;
        let name = "openapi.json";
        std::fs::write(self.folder.path().join(name), document.to_string())?;
        let run = Command::new(&self.python)
            .args(["-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", name])
            .args(["--url", &format!("http://{address}")])
            .args(["--exclude-checks", "positive_data_acceptance"])
            // Threads of one interpreter disturb each other in it.
            .args(["--seed", "7", "--generation-deterministic", "--workers", "1", "--no-color"])
            .args(["--suppress-health-check", "all", "--request-timeout", "60"])
            .args(more)
            .current_dir(self.folder.path())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| SCHEMATHESIS.remedy())?;
        let told = String::from_utf8_lossy(&run.stdout).into_owned();
        ensure!(run.status.success(), "{told}{}", String::from_utf8_lossy(&run.stderr));
        Ok(())
    }

    async fn document(&self) -> Result<Value> {
        Ok(self.client.get("/openapi.json").await?.json())
    }

    /// Whether something was asked for and done: else nothing is shown.
    fn has_done(&self, path: &str, status: u16) -> Result<()> {
        let line =
            format!("pointsman_select_requests_total{{path=\"{path}\",status=\"{status}\"}}");
        ensure!(self.rig.server.app().metrics.encode().contains(&line), "no {path} got {status}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_server_error_and_no_answer_that_the_document_has_not() -> Result<()>
{
    let served = Served::start().await?;
    let each = ["--phases", "examples,coverage,fuzzing", "--max-examples", "10"];
    served.hold_to(&served.document().await?, &each).await?;
    for (path, status) in [("/select", 200), ("/select", 400), ("/workers", 201), ("/dump", 200)] {
        served.has_done(path, status)?;
    }
    served.rig.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_wrong_with_what_becomes_of_reservations() -> Result<()> {
    let served = Served::start().await?;
    let document = of_reservations(served.document().await?)?;
    served.hold_to(&document, &["--phases", "stateful", "--mode", "positive"]).await?;
    let of_one = ["", "/prefill_complete", "/output_block", "/heartbeat"];
    for path in of_one {
        served.has_done(&format!("/reservations/{{id}}{path}"), 200)?;
    }
    served.has_done("/reservations", 201)?;
    served.has_done("/reservations/{id}", 404)?;
    served.rig.stop().await;
    Ok(())
}

/// The document's part that is about selections and reservations, each request one that somebody can have:
/// what is made up at random is hardly ever reserved.
fn of_reservations(mut document: Value) -> Result<Value> {
    let schemas = document.pointer_mut("/components/schemas").context("schemas")?;
    let only = ["ModelName", "RoutingGroup"].map(|name| (name, json!({ "const": "default" })));
    let without = [
        "Model",
        "AskedRole",
        "PinnedWorker",
        "AllowedWorkerIds",
        "RoutingConstraints",
        "PolicyClass",
        "DueMs",
        "IsEagle",
    ];
    let without = without.map(|name| (name, json!({ "type": "null" })));
    for (name, schema) in only.into_iter().chain(without) {
        ensure!(!schemas[name].is_null(), "no {name}");
        schemas[name] = schema;
    }
    // What has no id can't be booked.
    schemas["SelectionId"] = json!({ "$ref": "#/components/schemas/Name" });
    schemas["Select"]["required"] = json!(["selection_id"]);
    let paths = document.pointer_mut("/paths").and_then(Value::as_object_mut).context("paths")?;
    paths.retain(|path, _| {
        path.starts_with("/reservations") || ["/select", "/select_and_reserve"].contains(&&**path)
    });
    Ok(document)
}
