//! `pointsman policy test`.
//!
//! Owns how cases that are met and aren't look, and when a file of cases is written anew. What is expected,
//! and what came, is `cases`'.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman_build::write_atomically;

use super::subject::{CASES, SubjectArgs};
use crate::author::{Given, Specimen};
use crate::cases::{CaseError, CaseFile, CaseOutcome, Golden, Subject};

/// What `--help` says at its end.
const FORM: &str = "The form of cases is in policies/README.md. Exit code 1 if one isn't met.";

/// Have a policy meet its cases.
#[derive(Debug, Args)]
#[command(after_help = FORM)]
pub(in crate::cli) struct Test {
    #[command(flatten)]
    subject: SubjectArgs,
    /// The cases; a crate's are cases.yaml in its folder
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Write what came in the place of what was expected; comments and layout stay. Read the difference
    /// before you keep it
    #[arg(long)]
    bless: bool,
}

/// A file of cases that was met, or wasn't.
#[derive(Debug)]
struct Met {
    text: String,
    outcomes: Vec<CaseOutcome>,
}

impl Test {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let found = self.subject.find()?;
        let Some(file) = self.cases.or(found.cases) else {
            bail!(
                "there are no cases: write {CASES} beside the crate's Cargo.toml, or name a file with --cases (its form is in policies/README.md)"
            );
        };
        let given = Given { parameters: Arc::default(), from: String::new() };
        let specimen = Specimen::open(&found.file, given)?;
        let component = &specimen.component;
        let subject = Subject {
            policy: component.selects_workers().then(|| component.clone() as _),
            classifier: component.classifies_requests().then(|| component.clone() as _),
        };
        let (text, good) = tested(&file, &subject, self.bless)?;
        super::super::say(&text)?;
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What came of a file of cases, in words, and whether all of it is as expected.
fn tested(file: &Path, subject: &Subject, bless: bool) -> Result<(String, bool)> {
    let mut met = Met::of(file, subject)?;
    let mut written = String::new();
    if bless && !met.is_good() {
        let (text, changes) = met.blessed()?;
        if changes > 0 {
            // It may have been made to say something else than was meant: that isn't kept.
            CaseFile::from_yaml(&file.display().to_string(), &text)
                .context("what came can't be written into the cases; change them by hand")?;
            write_atomically(file, text.as_bytes())
                .with_context(|| format!("can't write {}", file.display()))?;
            let values = if changes == 1 { "value is" } else { "values are" };
            written = format!("{}: {changes} {values} now what came\n", file.display());
            met = Met::of(file, subject)?;
        }
    }
    Ok((met.shown(file, bless) + &written, met.is_good()))
}

impl Met {
    fn of(file: &Path, subject: &Subject) -> Result<Self> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| CaseError::Unreadable { file: name.clone(), error })?;
        let outcomes = CaseFile::from_yaml(&name, &text)?.run(subject);
        Ok(Self { text, outcomes })
    }

    fn is_good(&self) -> bool {
        self.outcomes.iter().all(|case| case.failure.is_none())
    }

    /// The file's text with what came, and how many values that changes.
    fn blessed(&self) -> Result<(String, usize)> {
        let differences = self.outcomes.iter().flat_map(|case| &case.differences);
        let edits: Vec<_> = differences.clone().flat_map(|it| &it.edits).collect();
        let changes = differences.filter(|it| !it.edits.is_empty()).count();
        let (text, left_out) = Golden::new(&self.text).with(edits);
        if left_out > 0 {
            bail!(
                "{left_out} values stand where they can't be written anew, as behind an alias; write them out, or change them by hand"
            );
        }
        Ok((text, changes))
    }

    fn shown(&self, file: &Path, bless: bool) -> String {
        let golden = Golden::new(&self.text);
        let mut text = String::new();
        let (mut unmet, mut can_be_blessed) = (0, false);
        for case in &self.outcomes {
            let mark = if case.failure.is_none() { "ok  " } else { "FAIL" };
            // Writing into a text doesn't fail.
            let _ = writeln!(text, "{mark}  {}", case.name);
            unmet += usize::from(case.failure.is_some());
            for difference in &case.differences {
                let line = golden.line(&difference.path);
                let _ = writeln!(text, "      {}:{line}: {}", file.display(), difference.what);
                if let Some((expected, found)) = &difference.values {
                    let _ = writeln!(text, "      - {expected}\n      + {found}");
                }
                can_be_blessed |= !difference.edits.is_empty();
            }
        }
        let cases = self.outcomes.len();
        let s = if cases == 1 { "" } else { "s" };
        let remedy = match unmet {
            0 => "all met".to_owned(),
            _ if can_be_blessed && !bless => {
                format!("{unmet} not met; mend the policy, or write what came with --bless")
            }
            _ => format!("{unmet} not met; mend the policy, or the cases by hand"),
        };
        text + &format!("{cases} case{s}, {remedy}\n")
    }
}

#[cfg(test)]
mod tests;
