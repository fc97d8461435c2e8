//! `pointsman policy inspect`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use pointsman_core::fleet::DEFAULT_BLOCK_SIZE;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};
use pointsman_core::policy::{
    Declaration, Digest, PolicyEnvironment, PolicyProvider, Stage as DeclaredStage,
};
use pointsman_wasm::{ComponentPolicy, Description, EngineConfig, PolicyEngine, SizeClass};
use serde::Serialize;
use serde_json::{Map, Value};

/// Look into a component.
#[derive(Debug, Args)]
pub(in crate::cli) struct Inspect {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Parameters to configure it with, as a JSON object: its stages may depend on them
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    parameters: Parameters,
}

/// A JSON object.
#[derive(Clone, Debug)]
struct Parameters(Arc<Map<String, Value>>);

fn object(text: &str) -> Result<Parameters, serde_json::Error> {
    serde_json::from_str(text).map(|object| Parameters(Arc::new(object)))
}

/// What there is to say of a component.
#[derive(Debug, Serialize)]
struct Findings {
    #[serde(rename = "type")]
    policy_type: String,
    digest: Digest,
    bytes: u64,
    class: SizeClass,
    imports: Vec<String>,
    /// What it says of itself; none when it says nothing.
    about: Option<Description>,
    /// None when it refuses to be configured.
    stages: Option<Stages>,
    /// Why it refuses to be configured.
    refusal: Option<String>,
    /// The most fuel that one decision over made-up rows took; none when it failed to decide.
    fuel_per_decision: Option<u64>,
    /// Why it fails to decide over made-up rows.
    failure: Option<String>,
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
        let findings = look(&self.file, self.parameters)?;
        let text = if self.json {
            serde_json::to_string_pretty(&findings)? + "\n"
        } else {
            findings.show()?
        };
        super::super::say(&text)?;
        let fit = findings.refusal.is_none() && findings.failure.is_none();
        Ok(if fit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn look(file: &Path, Parameters(parameters): Parameters) -> Result<Findings> {
    let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    // One instance, once: a pool would be set up for nothing.
    let engine = PolicyEngine::new(EngineConfig { pooled_instances: 0, ..EngineConfig::default() })
        .context("can't run components here")?;
    let policy_type = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let policy = ComponentPolicy::load(&engine, &policy_type, file, &bytes)?;
    let environment = PolicyEnvironment {
        instance: policy_type.as_str().into(),
        partition: PartitionKey {
            model: "default".into(),
            routing_group: DEFAULT_GROUP.into(),
            role: Role::Aggregated,
        },
        block_size: DEFAULT_BLOCK_SIZE.get(),
        parameters,
        settings: Arc::default(),
        limits: policy.class().limits(),
        seed: 0,
    };
    let (stages, refusal) = match policy.instantiate(&environment) {
        Ok(instance) => (Some(Stages::of(instance.declaration())), None),
        Err(error) => (None, Some(error.to_string())),
    };
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
        imports: policy.imports().to_vec(),
        about: policy.describe(),
        stages,
        refusal,
        fuel_per_decision,
        failure,
    })
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
    fn show(&self) -> Result<String> {
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
        let imports = self.imports.join(", ");
        line("imports", if imports.is_empty() { &"nothing" } else { &imports })?;
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
        if let Some(fuel) = self.fuel_per_decision {
            line("fuel", &format!("at most {fuel} a decision, over made-up rows"))?;
        }
        if let Some(failure) = &self.failure {
            line("failure", failure)?;
        }
        if let Some(about) = self.about.as_ref().filter(|about| !about.parameters_schema.is_empty())
        {
            line("parameters", &about.parameters_schema)?;
        }
        Ok(text)
    }
}
