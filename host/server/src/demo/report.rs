//! What the demo prints: the same facts as prose and as one JSON document.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

/// Prints a line of prose, unless JSON is wanted. A closed terminal is no reason to stop.
pub(super) fn say(quiet: bool, text: &str) {
    if !quiet {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

/// A policy that was built.
#[derive(Clone, Debug, Serialize)]
pub struct BuiltPolicy {
    /// Its name.
    pub name: String,
    /// SHA-256 of the component.
    pub digest: String,
    /// The component's size.
    pub bytes: u64,
    /// The component.
    #[serde(skip)]
    pub component: Vec<u8>,
}

/// One decision.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The decision's number.
    pub decision_id: u64,
    /// The chosen worker's id.
    pub worker_id: u64,
    /// The instance that chose it.
    pub policy: String,
    /// Its component.
    pub digest: Option<String>,
    /// The chosen worker's cost.
    pub cost: f64,
    /// Workers that might have had it.
    pub eligible: u64,
    /// Fuel used by the component.
    pub fuel: u64,
    /// Microseconds for the whole decision.
    pub micros: f64,
    /// Why the built-in decided instead, if it did.
    pub fallback: Option<Value>,
}

impl Row {
    pub(super) fn from_receipt(receipt: &Value) -> Self {
        let stages = receipt["stages"].as_array();
        let fuel = stages.into_iter().flatten().filter_map(|stage| stage["fuel"].as_u64()).sum();
        Self {
            decision_id: receipt["decision_id"].as_u64().unwrap_or_default(),
            worker_id: receipt["worker_id"].as_u64().unwrap_or_default(),
            policy: receipt["policy"]["name"].as_str().unwrap_or_default().to_owned(),
            digest: receipt["policy"]["digest"].as_str().map(str::to_owned),
            cost: receipt["cost"].as_f64().unwrap_or_default(),
            eligible: receipt["eligible"].as_u64().unwrap_or_default(),
            fuel,
            micros: receipt["micros"].as_f64().unwrap_or_default(),
            fallback: Some(&receipt["fallback"]).filter(|value| !value.is_null()).cloned(),
        }
    }
}

/// How the replacement went.
#[derive(Clone, Debug, Serialize)]
pub struct Swap {
    /// The component before.
    pub old_digest: String,
    /// The component after.
    pub new_digest: String,
    /// Requests sent around it.
    pub requests: usize,
    /// Of those, decided by the old one.
    pub by_old: usize,
    /// By the new one.
    pub by_new: usize,
    /// By another, which should not be.
    pub by_neither: usize,
    /// What failed.
    pub failed: Vec<String>,
    /// From writing the file to the new one deciding; none if that never came.
    pub took_ms: Option<u64>,
}

impl Swap {
    /// Of a policy that `decides`, how many answers are of each version.
    pub(super) fn print(&self, decides: bool) {
        let took = self.took_ms.map_or("never".to_owned(), |ms| format!("{ms} ms after the write"));
        if !decides {
            let failed = self.failed.len();
            say(false, &format!("{} requests ({took}); {failed} failed", self.requests));
            return;
        }
        say(
            false,
            &format!(
                "{} requests: {} by {}, then {} by {} ({took}); {} failed",
                self.requests,
                self.by_old,
                &self.old_digest[..12],
                self.by_new,
                &self.new_digest[..12],
                self.failed.len()
            ),
        );
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether all held.
    pub ok: bool,
    /// What didn't.
    pub problems: Vec<String>,
    /// The policies.
    pub policies: Vec<BuiltPolicy>,
    /// Requests of the first part.
    pub requests: usize,
    /// Of those, failed.
    pub failed: usize,
    /// Good answers by worker.
    pub requests_by_worker: BTreeMap<String, usize>,
    /// The first part's decisions, newest first.
    pub decisions: Vec<Row>,
    /// The replacement.
    pub swap: Swap,
    /// Whether nothing was left in the ledger.
    pub loads_zero_afterwards: bool,
}

impl Report {
    pub(super) fn print_verdict(&self) {
        if self.ok {
            say(
                false,
                "\nAll held: no failed request, every answer from a policy that was written, no load left over.",
            );
        } else {
            say(false, "\nNot all held:");
            self.problems.iter().for_each(|problem| say(false, &format!("  - {problem}")));
        }
    }
}

pub(super) fn print_table(rows: &[Row]) {
    say(
        false,
        &format!(
            "\n{:>8}  {:>6}  {:<12} {:<12}  {:>6}  {:>8}  {:>7}",
            "decision", "worker", "policy", "digest", "cost", "fuel", "us"
        ),
    );
    for row in rows {
        let digest =
            row.digest.as_deref().map_or("built-in", |digest| &digest[..digest.len().min(12)]);
        say(
            false,
            &format!(
                "{:>8}  {:>6}  {:<12} {:<12}  {:>6}  {:>8}  {:>7.1}",
                row.decision_id, row.worker_id, row.policy, digest, row.cost, row.fuel, row.micros
            ),
        );
    }
    say(
        false,
        "(newest first: which worker the component chose, its SHA-256, the chosen row's cost, the fuel that its \
         stages used, about one per instruction, and the microseconds that the whole decision took)\n",
    );
}

pub(super) fn print_json(report: &Report) -> Result<()> {
    let text = serde_json::to_string_pretty(report).context("the report is not JSON")?;
    writeln!(std::io::stdout(), "{text}").context("writing the report")
}
