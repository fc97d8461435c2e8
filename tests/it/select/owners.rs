//! Owners of reservations that vanish: processes that are killed.
//!
//! An owner is this test binary once more, told by its environment what to own. It reserves, keeps its
//! leases alive until it is killed, and says nothing then.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pointsman::load_client::LoadClient;
use pointsman_tests::rig::{MODEL, Plan};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{good, start};

/// Where an owner's service is, and what its reservations' names begin with.
const ADDRESS: &str = "POINTSMAN_TEST_OWNER_ADDRESS";
const NAME: &str = "POINTSMAN_TEST_OWNER_NAME";

const OWNERS: usize = 10;
const EACH: usize = 1_000;
/// How long leases may take to end: several times their length.
const PATIENCE: Duration = Duration::from_secs(120);
/// Requests of one batch.
const AT_ONCE: usize = 100;

/// An owner, if this process is one; else nothing.
#[tokio::test]
async fn an_owner_keeps_what_it_has_reserved_alive_until_it_is_killed() -> Result<()> {
    let (Ok(address), Ok(name)) = (std::env::var(ADDRESS), std::env::var(NAME)) else {
        return Ok(());
    };
    let client = LoadClient::new(address.parse()?);
    let ids: Vec<String> = (0..EACH).map(|at| format!("{name}-{at}")).collect();
    for some in ids.chunks(AT_ONCE) {
        let request = |(at, id): (usize, &String)| {
            let tokens: Vec<usize> = (0..40).map(|token| token * (at + 1)).collect();
            json!({ "model_name": MODEL, "selection_id": id, "token_ids": tokens, "lease": "20s" })
        };
        let requests: Vec<Value> = some.iter().enumerate().map(request).collect();
        let done =
            good(&client, "/select_and_reserve/batch", &json!({ "requests": requests })).await?;
        let results = done["results"].as_array().context("results")?;
        ensure!(results.iter().all(|one| one["status"] == 200), "{done}");
        renew(&client, &ids).await?;
    }
    writeln!(std::io::stdout(), "owned")?;
    loop {
        let missing = renew(&client, &ids).await?;
        ensure!(missing == 0, "{missing} were lost");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How many there aren't, of those that are to be kept.
async fn renew(client: &LoadClient, ids: &[String]) -> Result<usize> {
    let renewed = good(client, "/reservations/heartbeat", &json!({ "selection_ids": ids })).await?;
    Ok(renewed["missing"].as_array().map_or(0, Vec::len))
}

async fn owner(address: std::net::SocketAddr, name: &str) -> Result<Child> {
    let test = "select::owners::an_owner_keeps_what_it_has_reserved_alive_until_it_is_killed";
    let mut child = Command::new(std::env::current_exe()?)
        .args([test, "--exact", "--nocapture", "--test-threads", "1"])
        .env(ADDRESS, address.to_string())
        .env(NAME, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("it has a stdout")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.contains("owned") {
            return Ok(child);
        }
    }
    bail!("owner {name} ended before it owned anything")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_reservations_whose_owners_are_killed_are_all_given_back() -> Result<()> {
    let (rig, _) = start(Plan::new(4), "").await?;
    let address = rig.server.select_addr().context("it is served")?;
    let names: Vec<String> = (0..OWNERS).map(|at| format!("owner-{at}")).collect();
    let owners = names.iter().map(|name| owner(address, name));
    let mut owners = futures_util::future::try_join_all(owners).await?;
    let selections = rig.server.app().selections.clone();
    assert_eq!(selections.len(), OWNERS * EACH);
    assert_eq!(rig.active_requests().await?, (OWNERS * EACH) as u64);
    for owner in &mut owners {
        owner.kill().await?;
    }
    // Nobody frees anything: only the leases' ends do.
    let end = async {
        while !selections.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, end).await.context("all leases end")?;
    rig.wait_for_idle().await?;
    let metrics = rig.admin.get("/metrics").await?.text();
    let expired = format!("\npointsman_reservations_expired_total {}\n", OWNERS * EACH);
    ensure!(metrics.contains(&expired), "{metrics}");
    for partition in rig.server.app().dispatcher.router().partitions() {
        let audit = partition.audit();
        assert_eq!((audit.wrong, partition.ledger().live_leases()), (0, 0), "{audit:?}");
    }
    rig.stop().await;
    Ok(())
}
