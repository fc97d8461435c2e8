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
use pointsman_core::policy::Catalog;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::router::{RegisterError, Router};

use super::ConfigArg;
use crate::config::{Config, ConfigErrors, Listener};
use crate::policies::{
    Components, Found, LookError, NoComponents, OpenError, Opened, TrialError, WasmFolder,
};

pub use report::{InstanceLine, PartitionLine, Report, TypeLine};

/// The seed of instances that never serve; any will do.
const SEED: u64 = 0;

/// Check a configuration and its policies.
#[derive(Debug, Args)]
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
    let mut report = Report::of(path);
    match Config::from_path(path) {
        Ok(config) => {
            report.warnings.extend(writable::by_others(path));
            of_config(&config, &mut report);
        }
        Err(errors @ ConfigErrors::Unreadable { .. }) => report.problems.push(errors.to_string()),
        Err(ConfigErrors::Invalid(mistakes)) => {
            report.problems.extend(mistakes.iter().map(ToString::to_string));
        }
    }
    report
}

fn of_config(config: &Config, report: &mut Report) {
    for listener in [&config.listen, &config.admin] {
        if let Err(error) = crate::serve::check_tls(listener) {
            report.problem(error.to_string());
        }
    }
    warn_of_listeners(config, report);
    warn_of_workers(config, report);
    warn_of_instances(config, report);
    report.warnings.extend(config.policies_dir.iter().flat_map(|dir| writable::in_folder(dir)));
    match components(config).and_then(|components| Ok((components.look()?, components))) {
        Err(error) => report.problem(error.to_string()),
        Ok((found, components)) => {
            of_types(config, &found, report);
            of_policies(config, components, report);
        }
    }
}

fn components(config: &Config) -> Result<Arc<dyn Components>, LookError> {
    Ok(match &config.policies_dir {
        None => Arc::new(NoComponents),
        Some(folder) => Arc::new(WasmFolder::open(folder, &config.wasm)?),
    })
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
    instances.map(|spec| spec.name.to_string()).collect()
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
    for problem in opened.problems() {
        let text = format!("policy type {:?}: {}", problem.policy_type, problem.reason);
        if problem.used {
            report.problem(text);
        } else {
            report.warnings.push(format!("{text} (no instance uses it)"));
        }
    }
    report.instances = config
        .selection
        .instances
        .iter()
        .map(|spec| InstanceLine::of(spec, &config.selection))
        .collect();
    let router = Router::new(opened.policies(), SEED);
    for worker in &config.workers {
        if let Err(error) = router.upsert_worker(worker.clone()) {
            report.problem(match &error {
                RegisterError::Policy(error) => config.places.explain(error),
                RegisterError::Fleet(_) => match config.places.workers.get(&worker.worker_id) {
                    Some(at) => format!("{at}: {error}"),
                    None => error.to_string(),
                },
            });
        }
    }
    report.partitions = router
        .partitions()
        .iter()
        .map(|partition| {
            let key = partition.key();
            let workers = || config.workers.iter().filter(|worker| worker.partition == *key);
            PartitionLine {
                partition: key.to_string(),
                instance: config.selection.instance_name(key.role).to_owned(),
                workers: workers().count(),
                rows: workers().map(|worker| worker.data_parallel_size.get() as usize).sum(),
                block_size: partition.block_size(),
            }
        })
        .collect();
}

fn warn_of_listeners(config: &Config, report: &mut Report) {
    let named = [("listen", &config.listen), ("admin", &config.admin)];
    let in_the_clear = |listener: &Listener| {
        !listener.address.ip().is_loopback()
            && listener.tls.is_none()
            && !listener.tokens.is_empty()
    };
    for (name, listener) in named.into_iter().filter(|(_, listener)| in_the_clear(listener)) {
        report.warnings.push(format!(
            "{name}: tokens come over {} in the clear; set `tls`, or put a TLS proxy before it",
            listener.address
        ));
    }
}

fn warn_of_workers(config: &Config, report: &mut Report) {
    if config.workers.is_empty() {
        report.warnings.push(
            "no workers in the file: nothing is served until one is registered over the API"
                .to_owned(),
        );
    }
    let mut by_endpoint: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for worker in &config.workers {
        by_endpoint.entry(&worker.endpoint).or_default().push(worker.worker_id.to_string());
    }
    for (endpoint, ids) in by_endpoint.into_iter().filter(|(_, ids)| ids.len() > 1) {
        report.warnings.push(format!(
            "workers {} share the endpoint {endpoint}, so that its load is counted apart; the ranks \
             of one engine are one worker, with `data_parallel_size`",
            ids.join(", ")
        ));
    }
}

fn warn_of_instances(config: &Config, report: &mut Report) {
    let builtin = Catalog::builtin();
    for used in &config.places.types {
        if let Some(at) = &used.limits_at
            && builtin.get(&used.policy_type).is_some()
        {
            let name = &used.policy_type;
            report
                .warnings
                .push(format!("{at}: the built-in {name:?} is not limited; take it out"));
        }
    }
    let bound: BTreeSet<&str> = config.selection.roles.values().map(|name| &**name).collect();
    for (name, at) in config.places.instances.iter().filter(|(name, _)| !bound.contains(&***name)) {
        report.warnings.push(format!("{at}: no role uses the instance {name:?}"));
    }
}

#[cfg(test)]
mod tests;
