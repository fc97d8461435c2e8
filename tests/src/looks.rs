//! What a test looks at over HTTP, and how it waits for what must come of it.
//!
//! It doesn't know where the router is: in this process, or in one of its own.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use pointsman::load_client::LoadClient;
use serde_json::Value;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gets a path as JSON.
pub async fn json(client: &LoadClient, path: &str) -> Result<Value> {
    let answer = client.get(path).await.with_context(|| format!("GET {path}"))?;
    if !answer.is_good() {
        bail!("GET {path} answered {}: {}", answer.status, answer.text());
    }
    Ok(answer.json())
}

/// Every row of an admin listener's `/v1/loads`.
pub async fn load_rows(admin: &LoadClient) -> Result<Vec<Value>> {
    let loads = json(admin, "/v1/loads").await?;
    let partitions = loads["partitions"].as_array().context("/v1/loads has no partitions")?;
    Ok(partitions.iter().filter_map(|p| p["rows"].as_array()).flatten().cloned().collect())
}

/// Whether every column of every row is zero.
pub async fn is_idle(admin: &LoadClient) -> Result<bool> {
    let zero = |row: &Value| {
        ["active_requests", "active_prefill_tokens", "active_decode_blocks"]
            .iter()
            .all(|column| row[*column] == 0)
    };
    Ok(load_rows(admin).await?.iter().all(zero))
}

/// Waits for what must come; an error if it doesn't.
pub async fn wait_for(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let wait = async {
        while !is_so().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(done) => done,
        Err(_) => bail!("waited {PATIENCE:?} for {what}"),
    }
}
