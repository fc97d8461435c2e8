//! The service is what its OpenAPI document says: schemathesis makes up requests, good and bad, and looks at
//! each answer.
//!
//! 503 and 501 are answers that the document names: a request may ask for workers that there aren't, and
//! replicas aren't told anything in this version. Any other status from 500 on is a failure, as is each
//! status, header or body that the document doesn't have.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pointsman_tests::python::SCHEMATHESIS;
use pointsman_tests::rig::Plan;
use tokio::process::Command;

use super::start;

const SETTINGS: &str = "[checks]
not_a_server_error.expected-statuses = [\"2xx\", \"3xx\", \"4xx\", \"501\", \"503\"]
";

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_server_error_and_no_answer_that_the_document_has_not() -> Result<()>
{
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder")?;
    let python = tokio::task::spawn_blocking({
        let target = target.to_owned();
        move || SCHEMATHESIS.interpreter(&target)
    });
    let python = python.await??;
    let (rig, client) = start(Plan::new(2), "").await?;
    // The workers of the rig are of a model of its own; most requests are of the one that none names.
    for (id, engine) in (101_u64..).zip(&rig.engines) {
        let worker = serde_json::json!({ "worker_id": id, "endpoint": engine.url() });
        super::good(&client, "/workers", &worker).await?;
    }
    let address = rig.server.select_addr().context("it is served")?;
    let folder = tempfile::tempdir()?;
    let settings = folder.path().join("schemathesis.toml");
    std::fs::write(&settings, SETTINGS)?;
    let run = Command::new(&python)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(&settings)
        .args(["run", &format!("http://{address}/openapi.json")])
        .args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10"])
        .args(["--seed", "7", "--generation-deterministic", "--workers", "2", "--no-color"])
        .args(["--suppress-health-check", "all", "--request-timeout", "60"])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| SCHEMATHESIS.remedy())?;
    let told =
        String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{told}");
    let select = rig.server.app().metrics.encode();
    let selected = "pointsman_select_requests_total{path=\"/select\",status=\"200\"}";
    ensure!(select.contains(selected), "nothing was selected: {told}");
    rig.stop().await;
    Ok(())
}
