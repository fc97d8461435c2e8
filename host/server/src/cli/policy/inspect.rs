//! `pointsman policy inspect`: what a component is, whether it selects workers, classifies requests or
//! does both.
//!
//! Owns what is told and how it looks. A policy is made, configured and put to made-up rows; what is
//! tried of a request classifier is `classifier`'s.

mod classifier;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use pointsman_core::policy::{
    Declaration, Digest, InstantiateError, PolicyEnvironment, PolicyProvider,
    Stage as DeclaredStage,
};
use pointsman_wasm::{Description, SizeClass};
use serde::Serialize;
use serde_json::{Map, Value};

use super::subject::{Parameters, object};
use crate::author::{Given, Specimen};
use crate::policies::ParametersSchema;
use classifier::Classifier;

/// Look into a component.
#[derive(Debug, Args)]
pub(in crate::cli) struct Inspect {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Parameters to configure it with, as a JSON object: what stands under `parameters` in the YAML
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    parameters: Parameters,
}

/// What there is to say of a component.
#[derive(Debug, Serialize)]
pub struct Findings {
    #[serde(rename = "type")]
    policy_type: String,
    digest: Digest,
    bytes: u64,
    class: SizeClass,
    /// The version of the contract that it was built for.
    contract: String,
    /// The interfaces that it exports: what it is.
    exports: Vec<String>,
    imports: Vec<String>,
    /// What it says of itself; none when it says nothing.
    about: Option<Description>,
    /// What its schema has against the parameters.
    unfit: Vec<String>,
    /// Why its schema is of no use.
    schema_error: Option<String>,
    /// None when it refuses to be configured, or selects no workers.
    stages: Option<Stages>,
    /// Why it refuses to be configured.
    refusal: Option<String>,
    /// What to do about that.
    suggestion: Option<String>,
    /// The most fuel that one decision over made-up rows took; none when it failed to decide.
    fuel_per_decision: Option<u64>,
    /// Why it fails to decide over made-up rows.
    failure: Option<String>,
    /// None when it classifies no requests.
    classifier: Option<Classifier>,
}

#[derive(Debug, Serialize)]
struct Stages {
    filters: Vec<Stage>,
    scorers: Vec<Stage>,
    picker: Option<Stage>,
    properties: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Stage {
    name: String,
    inputs: Vec<&'static str>,
}

impl Inspect {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let Parameters(parameters) = self.parameters;
        let findings = look(&self.file, parameters)?;
        let text = if self.json {
            serde_json::to_string_pretty(&findings)? + "\n"
        } else {
            findings.show()?
        };
        super::super::say(&text)?;
        Ok(if findings.are_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Looks into a component, and tries it with parameters as the YAML would give them. Slow: it is compiled.
///
/// # Errors
///
/// It can't be read, or is no component that this host takes.
pub fn look(file: &Path, parameters: Arc<Map<String, Value>>) -> Result<Findings> {
    let given = Given { parameters, from: "--parameters".to_owned() };
    let specimen = Specimen::open(file, given)?;
    let policy = &specimen.component;
    let policy_type = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let environment =
        PolicyEnvironment { limits: policy.class().limits(), ..specimen.environment() };
    let about = policy.describe();
    let (unfit, schema_error) = against_schema(about.as_ref(), &environment.parameters);
    let made = policy.selects_workers().then(|| {
        PolicyProvider::instantiate(&**policy, &environment)
            .map(|instance| Stages::of(instance.declaration()))
    });
    let (stages, refused) = apart(made);
    let (classifier, refused_too) =
        policy.classifies_requests().then(|| Classifier::of(policy, &environment)).unzip();
    let suggestion = [&refused, &refused_too.flatten()].into_iter().flatten().find_map(|error| {
        let refuses = matches!(error, InstantiateError::Refused { .. });
        refuses.then(|| suggestion(file, &error.to_string()))
    });
    let refusal = refused.map(|error| error.to_string());
    let tried = stages.is_some().then(|| policy.probe(&environment));
    let (fuel_per_decision, failure) = match tried {
        Some(Ok(report)) => (Some(report.most_fuel_per_decision), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    Ok(Findings {
        policy_type,
        digest: policy.content_digest().clone(),
        bytes: policy.size(),
        class: policy.class(),
        contract: policy.built_for().to_string(),
        exports: policy.exports().to_vec(),
        imports: policy.imports().to_vec(),
        about,
        unfit,
        schema_error,
        stages,
        refusal,
        suggestion,
        fuel_per_decision,
        failure,
        classifier,
    })
}

/// What was made, and why it wasn't.
fn apart<T, E>(made: Option<Result<T, E>>) -> (Option<T>, Option<E>) {
    match made {
        None => (None, None),
        Some(Ok(made)) => (Some(made), None),
        Some(Err(error)) => (None, Some(error)),
    }
}

/// What a component's schema has against parameters; and why it is of no use, if it is of none.
fn against_schema(
    about: Option<&Description>,
    parameters: &Map<String, Value>,
) -> (Vec<String>, Option<String>) {
    let schema = about.map(|about| about.parameters_schema.trim());
    let Some(schema) = schema.filter(|schema| !schema.is_empty()) else {
        return Default::default();
    };
    match ParametersSchema::read(schema).check(parameters) {
        Ok(violations) => (violations.iter().map(ToString::to_string).collect(), None),
        Err(why) => (Vec::new(), Some(format!("its schema {why}"))),
    }
}

/// A schema as people read it, or as it was written if it is no JSON.
fn pretty(schema: &str) -> String {
    let value = serde_json::from_str::<Value>(schema)
        .and_then(|value| serde_json::to_string_pretty(&value));
    value.map_or_else(|_| schema.to_owned(), |text| text.replace('\n', "\n            "))
}

/// The command with the parameters that a refusal asks for, as far as it names them as the SDK does.
fn suggestion(file: &Path, refusal: &str) -> String {
    let plain = refusal.replace('\\', "");
    let missing =
        plain.split("missing parameter \"").skip(1).filter_map(|rest| rest.split_once('"'));
    let mut keys: Vec<&str> = missing.map(|(key, _)| key).collect();
    if keys.is_empty() {
        keys.push("KEY");
    }
    let given: Vec<_> = keys.iter().map(|key| format!("\"{key}\": VALUE")).collect();
    format!(
        "configure it as the YAML would: pointsman policy inspect {} --parameters '{{{}}}'",
        file.display(),
        given.join(", ")
    )
}

impl Stages {
    fn of(declaration: &Declaration) -> Self {
        let all = |stages: &[DeclaredStage]| stages.iter().map(Stage::of).collect();
        Self {
            filters: all(&declaration.filters),
            scorers: all(&declaration.scorers),
            picker: declaration.picker.as_ref().map(Stage::of),
            properties: declaration.properties.names().collect(),
        }
    }
}

impl Stage {
    fn of(stage: &DeclaredStage) -> Self {
        let inputs = stage.inputs.iter().map(|input| input.name()).collect();
        Self { name: stage.name.clone(), inputs }
    }
}

impl Findings {
    /// Whether it can serve, told so; of one that is two, either part may be what the parameters are for.
    #[must_use]
    pub fn are_good(&self) -> bool {
        let classifies = self.classifier.as_ref().is_some_and(|one| one.refusal.is_none());
        let fails = self.classifier.as_ref().is_some_and(|one| one.failure.is_some());
        let made = self.stages.is_some() || classifies;
        made && !fails && self.failure.is_none() && self.unfit.is_empty()
    }

    /// For people to read, a line for each thing.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn show(&self) -> Result<String> {
        let mut text = String::new();
        let mut line =
            |key: &str, value: &dyn std::fmt::Display| writeln!(text, "{key:<12}{value}");
        if let Some(about) = &self.about {
            line("name", &format!("{} {}", about.name, about.version))?;
            line("summary", &about.summary)?;
        }
        line("type", &self.policy_type)?;
        line("sha256", &self.digest)?;
        line("size", &format!("{} bytes", self.bytes))?;
        line("contract", &self.contract)?;
        for (key, interfaces) in [("exports", &self.exports), ("imports", &self.imports)] {
            let shown = interfaces.join(", ");
            line(key, if shown.is_empty() { &"nothing" } else { &shown })?;
        }
        if let Some(Stages { filters, scorers, picker, properties }) = &self.stages {
            let kinds = [("filter", filters), ("scorer", scorers)];
            let stages =
                kinds.iter().flat_map(|(kind, stages)| stages.iter().map(move |s| (*kind, s)));
            for (kind, Stage { name, inputs }) in stages.chain(picker.iter().map(|s| ("picker", s)))
            {
                let inputs =
                    if inputs.is_empty() { "nothing".to_owned() } else { inputs.join(", ") };
                line(kind, &format!("{name}, reads {inputs}"))?;
            }
            let properties = properties.join(", ");
            line("properties", if properties.is_empty() { &"none" } else { &properties })?;
        }
        if let Some(refusal) = &self.refusal {
            line("stages", &format!("not known: {refusal}"))?;
        }
        for text in self.classifier.iter().flat_map(Classifier::lines) {
            line("classifier", &text)?;
        }
        if let Some(suggestion) = &self.suggestion {
            line("try", suggestion)?;
        }
        for unfit in &self.unfit {
            line("unfit", unfit)?;
        }
        if let Some(error) = &self.schema_error {
            line("schema", error)?;
        }
        if let Some(fuel) = self.fuel_per_decision {
            line("fuel", &format!("at most {fuel} a decision, over made-up rows"))?;
        }
        if let Some(failure) = &self.failure {
            line("failure", failure)?;
        }
        if let Some(about) = self.about.as_ref().filter(|about| !about.parameters_schema.is_empty())
        {
            line("parameters", &pretty(&about.parameters_schema))?;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_component_is_answered_with_the_parameter_that_it_lacks() {
        let command = |refusal| suggestion("p/least-busy.wasm".as_ref(), refusal);
        let quoted = r#"type "a" refuses to be configured: "missing parameter \"min_blocks\"""#;
        assert!(
            command(quoted).ends_with(
                r#"policy inspect p/least-busy.wasm --parameters '{"min_blocks": VALUE}'"#
            ),
            "{}",
            command(quoted)
        );
        let two = r#"configured: "missing parameter \"a\""; "missing parameter \"b\"""#;
        assert!(command(two).ends_with(r#"--parameters '{"a": VALUE, "b": VALUE}'"#));
        assert!(command("no").ends_with(r#"--parameters '{"KEY": VALUE}'"#));
    }

    #[test]
    fn parameters_are_held_to_the_schema_and_a_schema_is_read_with_ease() {
        let about = |schema: &str| Description {
            parameters_schema: schema.to_owned(),
            ..Description::default()
        };
        let Ok(Parameters(given)) = object(r#"{"a": "x"}"#) else { panic!("it is an object") };
        let of = |schema: &str| against_schema(Some(&about(schema)), &given);
        let told = "parameters at \"/a\": expected a number, found \"x\"";
        assert_eq!(of(r#"{"properties":{"a":{"type":"number"}}}"#), (vec![told.to_owned()], None));
        let (unfit, error) = of("[1");
        assert!(unfit.is_empty() && error.is_some_and(|why| why.contains("no JSON")));
        assert_eq!(of(" "), (vec![], None));
        assert_eq!(pretty(r#"{"a":1}"#), "{\n              \"a\": 1\n            }");
        assert_eq!(pretty("[1"), "[1");
    }

    #[test]
    fn a_component_of_another_contract_is_told_with_both_versions() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("p.wasm");
        let told = |version: &str| -> Result<String> {
            let selection = format!("pointsman:policy/worker-selection@{version}");
            let text = format!("(component (instance $i) (export \"{selection}\" (instance $i)))");
            std::fs::write(&file, wat::parse_str(text)?)?;
            let Err(refusal) = look(&file, Arc::default()) else {
                anyhow::bail!("{version} was taken")
            };
            let folder = format!("{}/", folder.path().display());
            Ok(format!("{refusal:#}").replace(&folder, ""))
        };
        let takes = "this host takes 0.1.x; rebuild it with";
        assert_eq!(
            told("0.0.3")?,
            format!("p.wasm: built for pointsman:policy 0.0.3; {takes} a current SDK")
        );
        assert_eq!(
            told("0.2.0")?,
            format!(
                "p.wasm: built for pointsman:policy 0.2.0; {takes} this host's SDK, or take a newer host"
            )
        );
        Ok(())
    }
}
