//! `pointsman check`: all that `serve` does at start, without serving.
//!
//! Owns which checks there are: a mistake that one finds keeps no other from being made, as far as that
//! doesn't depend on what is wrong. `findings` puts what they find in order, `report` is how their
//! outcome looks. Everything that is checked is checked
//! by the module that `serve` uses for it: the configuration, the listeners' certificates, the
//! folder of components, every instance made, configured and tried, the workers registered.

mod findings;
mod report;
mod writable;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use pointsman_core::BuildError;
use pointsman_core::classifier::SeatError;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::PartitionKey;
use pointsman_core::policy::Catalog;
use pointsman_core::policy::selection::Recipe;
use pointsman_core::router::{RegisterError, Router};

use super::ConfigArg;
use crate::config::{Config, Draft, Environment, Strings};
use crate::policies::{
    self, Components, Found, NoComponents, OpenError, Opened, Problem, TrialError, Warning,
};

use findings::Findings;

pub use report::{InstanceLine, PartitionLine, Report, TypeLine};

/// The seed of instances that never serve; any will do.
const SEED: u64 = 0;

/// Check a configuration and its policies.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with code 0 if the router would serve as the file says; warnings are no obstacle."
)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print the outcome as one JSON document
    #[arg(long, conflicts_with = "yaml")]
    json: bool,
    /// Print the outcome as one YAML document
    #[arg(long)]
    yaml: bool,
}

impl CheckArgs {
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
    let (mut report, mut findings) = (Report::of(path), Findings::default());
    match Draft::from_path(path, strings) {
        Err(error) => findings.problem(None, error.to_string()),
        Ok(draft) => {
            draft.mistakes.iter().for_each(|mistake| findings.mistake(mistake));
            findings.more_problems(draft.more);
            writable::by_others(path).into_iter().for_each(|text| findings.warning(None, text));
            if let Some(config) = draft.config.as_ref().filter(|_| draft.more == 0) {
                Check { draft: &draft, config, found: &mut findings, report: &mut report }.all();
            }
        }
    }
    findings.tell(&mut report);
    report
}

/// A check of what a file says, as far as that is sound: a mistake in one part of it is no reason to
/// keep quiet about another.
struct Check<'a> {
    draft: &'a Draft,
    config: &'a Config,
    found: &'a mut Findings,
    report: &'a mut Report,
}

impl Check<'_> {
    fn all(&mut self) {
        let Self { draft, config, .. } = *self;
        self.of_files();
        if draft.mistakes.is_empty() {
            // What is missing may be what couldn't be read.
            self.found.warnings(config.warnings());
            let nobody_lists =
                config.discovery.dns.is_empty() && config.discovery.kubernetes.is_none();
            if config.workers.is_empty() && config.places.key("workers").is_none() && nobody_lists {
                let text = "no workers in the file: nothing is served until one is registered over the API";
                self.found.warning(None, text);
            }
        }
        for (dns, why) in crate::discovery::without_a_way(&config.discovery) {
            let text = format!("{}: {why}", dns.name);
            self.found.warning(config.places.key("discovery"), text);
        }
        let place = config.places.key("policies_dir");
        for warning in config.policies_dir.iter().flat_map(|folder| writable::in_folder(folder)) {
            self.found.warning(place, warning);
        }
        if !(draft.is_sound("policies_dir") && draft.is_sound("wasm")) {
            return self.of_policies(Arc::new(NoComponents));
        }
        let found = policies::components(config).and_then(|components| {
            let found = components.look()?;
            Ok((found, components))
        });
        match found {
            Err(error) => {
                self.found.problem(place, error.to_string());
                self.of_policies(Arc::new(NoComponents));
            }
            Ok((found, components)) => {
                self.of_types(&found);
                self.of_policies(components);
            }
        }
    }

    /// What the file names beside components.
    fn of_files(&mut self) {
        let Self { config, .. } = *self;
        self.found.problems(crate::serve::tls_problems(config));
        let missing = config.missing_files();
        missing.iter().for_each(|mistake| self.found.mistake(mistake));
        self.found.problems(crate::serve::tokenizer_problems(&config.without_tokenizers(&missing)));
        let file = config.recording.file.as_ref().filter(|_| config.recording.writes());
        if let Some(what) = file.and_then(|file| crate::recorder::unfit(file)) {
            let text = format!("{what}; name a file that the router may write");
            self.found.problem(config.places.key("recording.file"), text);
        }
    }

    /// The types that there are, and those that the file names and there aren't.
    fn of_types(&mut self, found: &[Found]) {
        let Self { config, .. } = *self;
        let builtin = Catalog::builtin();
        let known: BTreeSet<&str> =
            builtin.names().chain(found.iter().map(|found| &*found.policy_type)).collect();
        for mistake in config.places.unknown_types(&known) {
            self.found.mistake(&mistake);
        }
        let classifies =
            |found: &&Found| found.provider.as_ref().is_ok_and(|makes| makes.classifier.is_some());
        let classifiers = found.iter().filter(classifies);
        let classifiers: Vec<_> = classifiers.map(|found| found.policy_type.to_string()).collect();
        if let Some(mistake) = config.places.unknown_classifier(&known, &classifiers) {
            self.found.mistake(&mistake);
        }
        self.report.types = found
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

    /// Makes, configures and tries every instance, then registers the workers.
    fn of_policies(&mut self, components: Arc<dyn Components>) {
        let Self { draft, config, .. } = *self;
        let opened = match Opened::open(config, components) {
            Ok(opened) => opened,
            Err(OpenError::Refused { mistakes, problems }) => {
                let mistakes = mistakes.into_iter().filter(|mistake| !self.is_told(&mistake.error));
                let remarks: Vec<_> = mistakes.map(|mistake| mistake.remark).collect();
                self.found.problems(remarks);
                return problems.into_iter().for_each(|problem| self.of_component(problem));
            }
            Err(OpenError::Folder(error)) => {
                return self.found.problem(config.places.key("policies_dir"), error.to_string());
            }
        };
        for Warning { instance, reason } in opened.warnings() {
            self.found.warning(config.places.instances.get(&instance), reason);
        }
        opened.problems(&config.places).into_iter().for_each(|problem| self.of_component(problem));
        if draft.is_sound("worker_selection") {
            let selection = &config.selection;
            let lines = selection.instances.iter();
            self.report.instances = lines.map(|spec| InstanceLine::of(spec, selection)).collect();
        }
        if draft.mistakes.is_empty() {
            self.of_workers(&opened);
        }
    }

    /// Whether a mistake was told already, or is none but for what couldn't be read.
    fn is_told(&self, error: &TrialError) -> bool {
        let TrialError::Build(error) = error else { return false };
        match error {
            // With what may have been meant, if it is known which types there are.
            BuildError::UnknownType { .. }
            | BuildError::Classifier(SeatError::UnknownType { .. }) => true,
            // An instance that is wrong in itself isn't there.
            BuildError::UnknownInstance { .. } | BuildError::UnknownFollower { .. } => {
                !self.draft.is_sound("worker_selection")
            }
            _ => false,
        }
    }

    /// A component that is refused.
    fn of_component(&mut self, Problem { policy_type, at, used, reason }: Problem) {
        let text = format!("policy type {policy_type:?}: {reason}");
        if used {
            self.found.problem(at.as_ref(), text);
        } else {
            self.found.warning(at.as_ref(), format!("{text} (no instance uses it)"));
        }
    }

    fn of_workers(&mut self, opened: &Opened) {
        let Self { config, .. } = *self;
        let router = Router::new(opened.policies(), SEED);
        // A partition is made with its first worker. What the fleet refuses of others, such as another
        // block size, is a mistake of the file that was told before.
        let mut members: BTreeMap<&PartitionKey, Vec<&WorkerSpec>> = BTreeMap::new();
        for worker in &config.workers {
            members.entry(&worker.partition).or_default().push(worker);
        }
        for worker in members.values().filter_map(|workers| workers.first()) {
            match router.upsert_worker((*worker).clone()) {
                Ok(()) => {}
                Err(RegisterError::Policy(error)) => {
                    self.found.problems([config.places.remark(&error)]);
                }
                Err(error @ RegisterError::Fleet(_)) => {
                    let place = config.places.workers.get(&worker.worker_id);
                    self.found.problem(place, error.to_string());
                }
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
        self.report.partitions = lines.collect();
    }
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

#[cfg(test)]
mod tests;
