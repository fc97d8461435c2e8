//! `pointsman policy bench`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use pointsman_core::policy::Limits;
use serde_json::json;

use super::subject::{GivenArgs, SubjectArgs};
use crate::author::examine::grouped;
use crate::author::race::{BESIDE, Heat, race};

/// What times of an unoptimised program are worth.
const UNOPTIMISED: &str =
    "this program was built without optimisation: its times say little (cargo build --release)";

/// Measure decisions.
#[derive(Debug, Args)]
#[command(
    after_help = "A decision is: rows loaded, all stages asked, answers checked. Both take turns over the same decisions; the middle turn counts.
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
        if !specimen.component.selects_workers() {
            bail!(
                "{} selects no workers, so that there is no decision to measure; `pointsman policy check` shows what its calls use",
                specimen.file.display()
            );
        }
        let heats = race(&specimen).map_err(|words| anyhow!("it can't be measured: {words}"))?;
        let optimised = !cfg!(debug_assertions);
        let digest = specimen.component.content_digest();
        let text = if self.json {
            let document = json!({ "digest": digest, "beside": BESIDE, "optimised": optimised, "rows": heats });
            serde_json::to_string_pretty(&document)? + "\n"
        } else {
            let stem = specimen.file.file_stem().unwrap_or_default().to_string_lossy();
            table(&stem, &heats, optimised)
        };
        super::super::say(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn table(name: &str, heats: &[Heat], optimised: bool) -> String {
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
    if optimised { text } else { format!("{text}{UNOPTIMISED}\n") }
}

/// Bytes as people read them: components have pages of 64 KiB.
fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}
