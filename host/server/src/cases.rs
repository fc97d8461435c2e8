//! Cases of a policy: fleets and requests with the verdicts, costs and picks that are expected, as YAML
//! beside the policy's source (`cases.yaml`).
//!
//! Owns the file's form and who meets it. The form is explained in `policies/README.md`, under "Cases"; it
//! stands in `decision` and `admission`, key by key. Whether a policy is a component or linked is the
//! provider's to know, and who calls this (a test, a command) is not known here. What isn't met is a
//! [`Difference`]; [`Golden`] is the file's text, in which it has a line and can be put right.

mod admission;
mod admit;
mod cell;
mod decide;
mod decision;
mod difference;
mod golden;
mod names;
mod place;
mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::policy::PolicyProvider;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

pub use admission::{AdmissionCase, AdmissionStep, ExpectedVerdict, KvCapacity};
pub use decision::{CaseOutcomeEvent, CaseRow, DecisionCase, DecisionStep, Expected, Question};
pub use difference::{Difference, Edit, Key};
pub use golden::Golden;
pub use names::{RowName, TargetName};
pub use place::CasePlace;

/// A file of cases, as it stands on disk.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The `parameters` of every case that has none of its own.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Of a policy: decisions.
    #[serde(default)]
    pub cases: Vec<DecisionCase>,
    /// Of a request classifier: who is admitted, held or refused.
    #[serde(default)]
    pub admissions: Vec<AdmissionCase>,
}

/// Why a file of cases can't be used.
#[derive(Debug, Error)]
pub enum CaseError {
    /// The file can't be read.
    #[error("{file}: {error}; give a file of cases")]
    Unreadable {
        /// Which.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// It isn't of the form.
    #[error("{file}:{line}:{column}: {what}")]
    Form {
        /// Which.
        file: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong, with the path of keys that leads there.
        what: String,
    },
    /// It says something that makes no sense.
    #[error("{file}: {what}")]
    Sense {
        /// Which.
        file: String,
        /// What, and what to do about it.
        what: String,
    },
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseOutcome {
    /// The case's name.
    pub name: String,
    /// Where the case begins in the file.
    pub path: Vec<Key>,
    /// What wasn't as expected, with the step; none if all was.
    pub failure: Option<String>,
    /// All that wasn't as expected.
    pub differences: Vec<Difference>,
}

impl CaseOutcome {
    fn new(list: &'static str, at: usize, name: &str, found: Vec<Difference>) -> Self {
        let path = vec![Key::Name(list), Key::At(at)];
        let failure = found.first().map(|difference| difference.what.clone());
        let differences = found.into_iter().map(|difference| difference.under(&path)).collect();
        Self { name: name.to_owned(), path, failure, differences }
    }
}

/// Who is to meet the cases: one type, as a policy, as a classifier, or both.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Meets `cases`.
    pub policy: Option<Arc<dyn PolicyProvider>>,
    /// Meets `admissions`.
    pub classifier: Option<Arc<dyn ClassifierProvider>>,
}

impl CaseFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::from_yaml(&file, &text),
            Err(error) => Err(CaseError::Unreadable { file, error }),
        }
    }

    /// Reads a text; `file` is its name in errors.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, CaseError> {
        let cases: Self = serde_yaml::from_str(text).map_err(|error| {
            let at = error.location();
            CaseError::Form {
                file: file.to_owned(),
                line: at.as_ref().map_or(1, serde_yaml::Location::line),
                column: at.as_ref().map_or(1, serde_yaml::Location::column),
                what: without_place(&error.to_string()).to_owned(),
            }
        })?;
        cases.check().map_err(|what| CaseError::Sense { file: file.to_owned(), what })?;
        Ok(cases)
    }

    fn check(&self) -> Result<(), String> {
        let names = self.cases.iter().map(|case| &case.name);
        let names: Vec<_> = names.chain(self.admissions.iter().map(|case| &case.name)).collect();
        if names.is_empty() {
            return Err(
                "it has no case; give at least one under \"cases\" or \"admissions\"".into()
            );
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(format!("two cases are named {twice:?}; give each a name of its own"));
        }
        let decisions = self.cases.iter().map(|case| (&case.name, case.check()));
        let admissions = self.admissions.iter().map(|case| (&case.name, case.check()));
        for (name, checked) in decisions.chain(admissions) {
            checked.map_err(|what| format!("case {name:?}: {what}"))?;
        }
        Ok(())
    }

    /// Has the subject meet every case, in order.
    #[must_use]
    pub fn run(&self, subject: &Subject) -> Vec<CaseOutcome> {
        let missing =
            |what| vec![Difference::plain(format!("it is no {what}, and this is a case of one"))];
        let decisions = self.cases.iter().enumerate().map(|(at, case)| {
            let found = match &subject.policy {
                Some(policy) => decide::run(policy, case, &self.parameters),
                None => missing("policy"),
            };
            CaseOutcome::new("cases", at, &case.name, found)
        });
        let admissions = self.admissions.iter().enumerate().map(|(at, case)| {
            let found = match &subject.classifier {
                Some(classifier) => admit::run(classifier, case, &self.parameters),
                None => missing("request classifier"),
            };
            CaseOutcome::new("admissions", at, &case.name, found)
        });
        decisions.chain(admissions).collect()
    }
}

/// Whether an error has these words. What a component says stands in quotes in it, with its own escaped.
fn says(error: &str, words: &str) -> bool {
    error.contains(words) || error.replace("\\\"", "\"").contains(words)
}

/// serde_yaml's message, whose end repeats the place.
fn without_place(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |end| &message[..end])
}

#[cfg(test)]
mod tests;
