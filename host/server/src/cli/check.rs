//! `pointsman check`: all that `serve` does at start, without serving.
//!
//! Owns the order of the checks and how their outcome looks. Everything that is checked is checked
//! by the module that `serve` uses for it: the configuration, the listeners' certificates, the
//! folder of components, every instance made, configured and tried, the workers registered.

mod report;
mod writable;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use pointsman_core::BuildError;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::PartitionKey;
use pointsman_core::policy::Catalog;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::router::{RegisterError, Router};

use super::ConfigArg;
use crate::config::{Config, ConfigErrors, Environment, Strings};
use crate::policies::{self, Components, Found, OpenError, Opened, Problem, TrialError};

pub use report::{InstanceLine, PartitionLine, Report, TypeLine};

/// The seed of instances that never serve; any will do.
const SEED: u64 = 0;

/// Check a configuration and its policies.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with code 0 if the router would serve as the file says; warnings are no obstacle."
)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigArg,
    /// Print the outcome as one JSON document
    #[arg(long, conflicts_with = "yaml")]
    json: bool,
    /// Print the outcome as one YAML document
    #[arg(long)]
    yaml: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode> {
        let report = check(&self.config.config);
        if self.json {
            super::say(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else if self.yaml {
            super::say(&serde_yaml::to_string(&report)?)?;
        } else {
            super::say(&report.to_string())?;
        }
        Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Checks a configuration file and everything that it names. Slow: components are compiled, so call
/// it where blocking is allowed.
#[must_use]
pub fn check(path: &Path) -> Report {
    check_with(path, &Environment)
}

/// As [`check`], with named texts from elsewhere than the process's environment.
#[must_use]
pub fn check_with(path: &Path, strings: &dyn Strings) -> Report {
    let mut report = Report::of(path);
    match Config::from_path_with(path, strings) {
        Ok(config) => {
            writable::by_others(path).into_iter().for_each(|warning| report.warning(warning));
            of_config(&config, &mut report);
        }
        Err(errors @ ConfigErrors::Unreadable { .. }) => report.problem(errors.to_string()),
        Err(ConfigErrors::Invalid { mistakes, more }) => {
            mistakes.iter().for_each(|mistake| report.problem(mistake.to_string()));
            report.more_problems += more;
        }
    }
    report
}

fn of_config(config: &Config, report: &mut Report) {
    for problem in crate::serve::tls_problems(config) {
        report.problem(problem.to_string());
    }
    let missing = config.missing_files();
    missing.iter().for_each(|mistake| report.problem(mistake.to_string()));
    if missing.is_empty() {
        let problems = crate::serve::tokenizer_problems(config);
        problems.iter().for_each(|problem| report.problem(problem.to_string()));
    }
    let file = config.recording.file.as_ref().filter(|_| config.recording.share > 0.0);
    if let Some(what) = file.and_then(|file| crate::recorder::unfit(file)) {
        let place = config.places.key("recording.file");
        let place = place.map(|at| format!("{at}: ")).unwrap_or_default();
        report.problem(format!("{place}{what}; name a file that the router may write"));
    }
    config.warnings().into_iter().for_each(|warning| report.warning(warning));
    if config.workers.is_empty() && config.places.key("workers").is_none() {
        let text = "no workers in the file: nothing is served until one is registered over the API";
        report.warning(text.to_owned());
    }
    let place = config.places.key("policies_dir").map(|at| format!("{at}: ")).unwrap_or_default();
    for warning in config.policies_dir.iter().flat_map(|folder| writable::in_folder(folder)) {
        report.warning(format!("{place}{warning}"));
    }
    let found = policies::components(config).and_then(|components| {
        let found = components.look();
        let found = found.map_err(|error| error.at(config.places.key("policies_dir")))?;
        Ok((found, components))
    });
    match found {
        Err(error) => report.problem(error.to_string()),
        Ok((found, components)) => {
            of_types(config, &found, report);
            of_policies(config, components, report);
        }
    }
}

/// The types that there are, and those that the file names and there aren't.
fn of_types(config: &Config, found: &[Found], report: &mut Report) {
    let builtin = Catalog::builtin();
    let known: BTreeSet<&str> =
        builtin.names().chain(found.iter().map(|found| &*found.policy_type)).collect();
    for mistake in config.places.unknown_types(&known) {
        report.problem(mistake.to_string());
    }
    report.types = found
        .iter()
        .map(|found| TypeLine {
            policy_type: found.policy_type.to_string(),
            digest: found.digest.clone(),
            size: found.size,
            imports: found.imports.clone(),
            used_by: users(config, &found.policy_type),
        })
        .collect();
}

/// The instances that use a type.
fn users(config: &Config, policy_type: &str) -> Vec<String> {
    let uses =
        |recipe: &Recipe| recipe.types().iter().any(|used| &*used.policy_type == policy_type);
    let instances = config.selection.instances.iter().filter(|spec| uses(&spec.recipe));
    let classifies =
        config.classifier.as_ref().filter(|spec| &*spec.classifier_type == policy_type);
    let classifier = classifies.map(|_| "request_classifier".to_owned());
    instances.map(|spec| spec.name.to_string()).chain(classifier).collect()
}

/// Makes, configures and tries every instance, then registers the workers.
fn of_policies(config: &Config, components: Arc<dyn Components>, report: &mut Report) {
    let opened = match Opened::open(config, components) {
        Ok(opened) => opened,
        Err(OpenError::Refused(mistakes)) => {
            for mistake in mistakes {
                // Unknown types were told with what may have been meant.
                let told =
                    matches!(&mistake.error, TrialError::Build(BuildError::UnknownType { .. }));
                if !told {
                    report.problem(mistake.text);
                }
            }
            return;
        }
        Err(error @ OpenError::Folder(_)) => return report.problem(error.to_string()),
    };
    for warning in opened.warnings() {
        report.warning(warning.explain(&config.places));
    }
    for Problem { policy_type, at, used, reason } in opened.problems(&config.places) {
        let place = at.map(|at| format!("{at}: ")).unwrap_or_default();
        let text = format!("{place}policy type {policy_type:?}: {reason}");
        if used {
            report.problem(text);
        } else {
            report.warning(format!("{text} (no instance uses it)"));
        }
    }
    report.instances = config
        .selection
        .instances
        .iter()
        .map(|spec| InstanceLine::of(spec, &config.selection))
        .collect();
    let router = Router::new(opened.policies(), SEED);
    // A partition is made with its first worker. What the fleet refuses of others, such as another
    // block size, is a mistake of the file that was told before.
    let mut members: BTreeMap<&PartitionKey, Vec<&WorkerSpec>> = BTreeMap::new();
    for worker in &config.workers {
        members.entry(&worker.partition).or_default().push(worker);
    }
    for worker in members.values().filter_map(|workers| workers.first()) {
        if let Err(error) = router.upsert_worker((*worker).clone()) {
            report.problem(match &error {
                RegisterError::Policy(error) => config.places.explain(error),
                RegisterError::Fleet(_) => match config.places.workers.get(&worker.worker_id) {
                    Some(at) => format!("{at}: {error}"),
                    None => error.to_string(),
                },
            });
        }
    }
    let partitions = router.partitions();
    let lines = partitions.iter().map(|partition| {
        let key = partition.key();
        let workers = members.get(key).map_or(&[][..], Vec::as_slice);
        PartitionLine {
            partition: key.to_string(),
            instance: config.selection.instance_name(key.role).to_owned(),
            workers: workers.len(),
            rows: workers.iter().map(|worker| worker.data_parallel_size.get() as usize).sum(),
            block_size: partition.block_size(),
        }
    });
    report.partitions = lines.collect();
}

#[cfg(test)]
mod tests;
