//! `pointsman policy check`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use pointsman_core::policy::Limits;

use super::subject::{GivenArgs, SubjectArgs};
use crate::author::examine::{Examination, Mark, examine};

/// What `--help` says at its end.
const MARKS: &str = "\
What is `wrong` is to be mended, and makes the exit code 1. A `note` is worth knowing: a policy may keep state, draw
chance and break ties by the order of rows, as long as it declares nothing else. A router's YAML is checked by
`pointsman check`.";

/// Check a component.
#[derive(Debug, Args)]
#[command(after_help = MARKS)]
pub(in crate::cli) struct CheckPolicy {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    given: GivenArgs,
    /// Units of fuel that a call may use; by the component's size unless set
    #[arg(long, value_name = "UNITS")]
    fuel: Option<u64>,
    /// Bytes of memory that it may have; by the component's size unless set
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl CheckPolicy {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let subject = self.subject.find()?;
        let limits = Limits { fuel: self.fuel, memory: self.memory, ..Limits::default() };
        let found = examine(&self.given.open(&subject, limits)?);
        let text = match self.json {
            true => serde_json::to_string_pretty(&found)? + "\n",
            false => table(&found),
        };
        super::super::say(&text)?;
        Ok(if found.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn table(found: &Examination) -> String {
    let mut text = format!("{}  sha256 {}\n", found.policy_type, found.digest);
    for finding in &found.findings {
        let mark = match finding.mark {
            Mark::Good => "ok",
            Mark::Note => "note",
            Mark::Wrong => "WRONG",
        };
        // Writing into a text doesn't fail.
        let _ = writeln!(text, "{:<11} {mark:<6} {}", finding.check, finding.what);
    }
    let wrong = found.findings.iter().filter(|finding| finding.mark == Mark::Wrong).count();
    text + &match wrong {
        0 => "nothing is wrong\n".to_owned(),
        1 => "1 thing is wrong\n".to_owned(),
        wrong => format!("{wrong} things are wrong\n"),
    }
}
