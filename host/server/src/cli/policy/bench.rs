//! `pointsman policy bench`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use pointsman_core::policy::Limits;
use serde_json::json;

use super::subject::{GivenArgs, SubjectArgs};
use crate::author::examine::grouped;
use crate::author::race::{BESIDE, Heat, race};
use crate::author::timing::{Toll, time};

/// What times of an unoptimised program are worth.
const UNOPTIMISED: &str =
    "this program was built without optimisation: its times say little (cargo build --release)";

/// Measure decisions; of a request classifier, its calls.
#[derive(Debug, Args)]
#[command(
    after_help = "A decision is: rows loaded, all stages asked, answers checked. Both take turns over the same decisions; the middle turn counts.
Of a request classifier: so many made-up requests come before the first one ends; a call is one question or one event.
Memory is the instance's linear memory at its largest, which is what `limits.memory` bounds."
)]
pub(in crate::cli) struct Bench {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    given: GivenArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let subject = self.subject.find()?;
        let specimen = self.given.open(&subject, Limits::default())?;
        let optimised = !cfg!(debug_assertions);
        let digest = specimen.component.content_digest();
        let stem = specimen.file.file_stem().unwrap_or_default().to_string_lossy();
        let failed = |words| anyhow!("it can't be measured: {words}");
        let heats = match specimen.component.selects_workers() {
            true => race(&specimen).map_err(failed)?,
            false => Vec::new(),
        };
        let tolls = match specimen.component.classifies_requests() {
            true => time(&specimen).map_err(failed)?,
            false => Vec::new(),
        };
        let text = if self.json {
            let document = json!({
                "digest": digest, "beside": BESIDE, "optimised": optimised, "rows": heats, "requests": tolls,
            });
            serde_json::to_string_pretty(&document)? + "\n"
        } else {
            let tables = [table(&stem, &heats), calls(&stem, &tolls)].concat();
            if optimised { tables } else { format!("{tables}{UNOPTIMISED}\n") }
        };
        super::super::say(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Decisions, if there are any.
fn table(name: &str, heats: &[Heat]) -> String {
    if heats.is_empty() {
        return String::new();
    }
    let beside = format!("built-in {BESIDE}");
    let mut text = format!(
        "{:>6}  {name:>24}  {:>12}  {:>10}  {beside:>18}  times\n",
        "rows", "fuel", "memory"
    );
    for Heat { rows, policy, default, times } in heats {
        let rows = grouped(*rows as u64);
        let fuel = policy.fuel.map_or("-".to_owned(), grouped);
        let memory = policy.memory_bytes.map_or("-".to_owned(), mebibytes);
        let (us, them) = (format!("{:.2} us", policy.us), format!("{:.2} us", default.us));
        // Writing into a text doesn't fail.
        let _ =
            writeln!(text, "{rows:>6}  {us:>24}  {fuel:>12}  {memory:>10}  {them:>18}  {times:.2}");
    }
    text
}

/// Calls of a request classifier, if it is one.
fn calls(name: &str, tolls: &[Toll]) -> String {
    if tolls.is_empty() {
        return String::new();
    }
    let mut text =
        format!("{:>8}  {name:>24}  {:>12}  {:>10}\n", "requests", "fuel a call", "memory");
    for Toll { requests, us, fuel, memory_bytes } in tolls {
        let requests = grouped(*requests as u64);
        let us = format!("{us:.2} us a call");
        let fuel = fuel.map_or("-".to_owned(), grouped);
        let memory = memory_bytes.map_or("-".to_owned(), mebibytes);
        // Writing into a text doesn't fail.
        let _ = writeln!(text, "{requests:>8}  {us:>24}  {fuel:>12}  {memory:>10}");
    }
    text
}

/// Bytes as people read them: components have pages of 64 KiB.
fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}
