//! Which policy a command is about: a component's file, or a crate's folder, which is built first; and what
//! it is configured by.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use pointsman_core::ids::Role;
use pointsman_core::policy::Limits;
use serde_json::{Map, Value};

use super::build;
use crate::author::{Given, Specimen};
use crate::cases::CaseFile;

/// What a policy's cases are called, beside its source.
pub(super) const CASES: &str = "cases.yaml";

/// A JSON object.
#[derive(Clone, Debug)]
pub(super) struct Parameters(pub(super) Arc<Map<String, Value>>);

/// Reads what stands behind `--parameters`.
pub(super) fn object(text: &str) -> Result<Parameters, String> {
    let object = serde_json::from_str(text).map_err(|error| {
        format!("no JSON object: {error}; write one in single quotes, as in '{{\"key\": 1}}'")
    })?;
    Ok(Parameters(Arc::new(object)))
}

fn role(text: &str) -> Result<Role, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| {
        let known: Vec<_> = Role::ALL.iter().map(ToString::to_string).collect();
        format!("no role; there are: {}", known.join(", "))
    })
}

/// Which one.
#[derive(Debug, Args)]
pub(super) struct SubjectArgs {
    /// A component, or the folder of a crate, which is built first
    #[arg(value_name = "COMPONENT|CRATE", default_value = ".")]
    subject: PathBuf,
    /// Do without the network where a crate is built
    #[arg(long)]
    offline: bool,
}

/// What it is configured by, where that isn't said by cases.
#[derive(Debug, Args)]
pub(super) struct GivenArgs {
    /// Parameters to configure it with, as a JSON object; a crate's are else those of its cases.yaml
    #[arg(long, value_name = "JSON", value_parser = object)]
    parameters: Option<Parameters>,
    /// What its workers do: aggregated, prefill, decode or encode
    #[arg(long, value_name = "ROLE", default_value = "aggregated", value_parser = role)]
    role: Role,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Subject {
    /// The component.
    pub(super) file: PathBuf,
    /// The crate's cases, if it is a crate and has some.
    pub(super) cases: Option<PathBuf>,
}

impl SubjectArgs {
    /// Finds it; a crate is built.
    pub(super) fn find(&self) -> Result<Subject> {
        let subject = &self.subject;
        let found = std::fs::metadata(subject).with_context(|| {
            format!("can't read {}; name a component, or the folder of a crate", subject.display())
        })?;
        if !found.is_dir() {
            return Ok(Subject { file: subject.clone(), cases: None });
        }
        let cases = Some(subject.join(CASES)).filter(|cases| cases.is_file());
        Ok(Subject { file: build::component(subject, self.offline)?, cases })
    }
}

impl GivenArgs {
    /// Opens the component with what was given, or what its cases have.
    pub(super) fn open(self, subject: &Subject, limits: Limits) -> Result<Specimen> {
        let given = match (self.parameters, &subject.cases) {
            (Some(Parameters(parameters)), _) => {
                Given { parameters, from: "--parameters".to_owned() }
            }
            (None, Some(cases)) => of_cases(cases)?,
            (None, None) => {
                Given { parameters: Arc::default(), from: "none were given".to_owned() }
            }
        };
        let specimen = Specimen::open(&subject.file, given)?;
        Ok(Specimen { limits, role: self.role, ..specimen })
    }
}

fn of_cases(cases: &Path) -> Result<Given> {
    let parameters = Arc::new(CaseFile::read(cases)?.parameters);
    Ok(Given { parameters, from: format!("those of {}", cases.display()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_no_object_are_answered_with_an_example() {
        let Err(told) = object("[1]") else { panic!("a list is no object") };
        assert!(told.contains("no JSON object") && told.ends_with(r#"'{"key": 1}'"#), "{told}");
    }

    #[test]
    fn a_role_that_is_none_is_answered_with_those_that_there_are() {
        assert_eq!(role("prefill"), Ok(Role::Prefill));
        let told = role("both").err().unwrap_or_default();
        assert!(told.contains("aggregated, prefill, decode, encode"), "{told}");
    }

    #[test]
    fn what_isnt_there_is_told_before_anything_is_built() {
        let args = SubjectArgs { subject: "/nowhere".into(), offline: true };
        let told = args.find().map(|_| ()).map_err(|error| error.to_string());
        let told = told.err().unwrap_or_default();
        assert!(told.contains("name a component, or the folder of a crate"), "{told}");
    }

    #[test]
    fn a_crates_parameters_are_those_of_its_cases_unless_others_are_given() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let cases = folder.path().join(CASES);
        let text = "parameters: { most: 3 }\ncases: [{ name: a, expect: { pick: 1 } }]";
        std::fs::write(&cases, text)?;
        let given = of_cases(&cases)?;
        assert_eq!(given.parameters.get("most"), Some(&Value::from(3)));
        assert!(given.from.ends_with("cases.yaml"), "{}", given.from);
        std::fs::write(&cases, "cases: 3")?;
        let told = of_cases(&cases).map(|_| ()).map_err(|error| error.to_string());
        assert!(told.is_err_and(|words| words.contains("cases.yaml:1:")));
        Ok(())
    }
}
