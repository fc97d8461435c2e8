//! `pointsman policy replay`.

mod repeats;
mod walk;
mod wanted;
mod words;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, PolicyProvider, builtin};
use pointsman_wasm::ComponentPolicy;
use serde_json::{Map, Value};

use crate::author::{Given, Specimen};
use crate::config::open_file;
use crate::replay::Replay;
use crate::replay::classifier::ClassifierReplay;

use repeats::Repeats;
use walk::{Lines, walk};
use wanted::Wanted;

/// The longest file of parameters that is read, in bytes.
const MOST_PARAMETERS: u64 = 64 << 20;

/// Make recorded decisions again, or put a request classifier to what was recorded, and print what differs
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("decides").required(true).args(["policy", "builtin"])))]
pub(in crate::cli) struct ReplayArgs {
    /// Files that `recording.file` has written, oldest first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The component that decides, or classifies, or both; or --builtin
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The built-in that decides
    #[arg(long, value_name = "TYPE")]
    builtin: Option<String>,
    /// A YAML or JSON file with what stands under `parameters`; a classifier has those of the record
    /// without it
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// Make only the decisions of this instance again
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Only what happened in this partition, as in my-model/default/aggregated
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Print so many decisions or calls that differ, fail or can't be made again
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Fail unless every decision is the same, at the same cost to the last bit, and so is every
    /// answer of a classifier
    #[arg(long)]
    exact: bool,
}

impl ReplayArgs {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let by = self.by()?;
        let wanted = Wanted::new(self.instance.as_deref(), self.partition.as_deref());
        let mut repeats = Repeats::by(by, wanted, self.show as usize, self.exact);
        let mut lines = Lines::default();
        for file in &self.files {
            repeats.begin_file();
            walk(file, &mut lines, &mut |line| repeats.take(line))?;
        }
        repeats.finish(&words::files(&self.files))?;
        let exact = repeats.is_exact();
        let text = if self.json {
            serde_json::to_string_pretty(&repeats.json(&lines))? + "\n"
        } else {
            repeats.text() + &lines.told() + &repeats.verdict()
        };
        super::super::say(&text)?;
        Ok(if self.exact && !exact { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What decides, and what classifies: one of them at least.
    fn by(&self) -> Result<By> {
        let parameters = self.parameters.as_deref().map(parameters).transpose()?;
        let mut catalog = Catalog::builtin();
        let policy_type = match (&self.policy, &self.builtin) {
            (Some(file), _) => {
                let policy = self.component(file)?;
                let classifies = policy
                    .classifies_requests()
                    .then(|| ClassifierReplay::by(Arc::new(policy.clone()), parameters.clone()));
                if !policy.selects_workers() {
                    return Ok(By { decides: None, classifies });
                }
                let name = PolicyProvider::policy_type(&policy).to_owned();
                catalog
                    .insert(Arc::new(policy))
                    .with_context(|| format!("{name:?} can't be a policy type; rename the file"))?;
                let decides = Some(decides(catalog, &name, parameters));
                return Ok(By { decides, classifies });
            }
            (None, Some(builtin)) if builtin::NAMES.contains(&&**builtin) => builtin,
            (None, builtin) => {
                let known = builtin::NAMES.join(", ");
                let name = builtin.as_deref().unwrap_or_default();
                bail!("no built-in is named {name:?}; there are: {known}");
            }
        };
        Ok(By { decides: Some(decides(catalog, policy_type, parameters)), classifies: None })
    }

    fn component(&self, file: &Path) -> Result<ComponentPolicy> {
        let given = Given { parameters: Arc::default(), from: String::new() };
        Ok((*Specimen::open(file, given)?.component).clone())
    }
}

/// What repeats.
#[derive(Debug)]
struct By {
    decides: Option<Replay>,
    classifies: Option<ClassifierReplay>,
}

fn decides(catalog: Catalog, policy_type: &str, parameters: Option<Map<String, Value>>) -> Replay {
    let parameters = Arc::new(parameters.unwrap_or_default());
    let policy_type = policy_type.into();
    let used = TypeUse { policy_type, parameters, limits: Limits::default() };
    Replay::by(catalog, Recipe::Whole(used))
}

fn parameters(file: &Path) -> Result<Map<String, Value>> {
    let mut text = String::new();
    open_file(file)
        .and_then(|file| file.take(MOST_PARAMETERS).read_to_string(&mut text))
        .with_context(|| format!("can't read {}", file.display()))?;
    let value: Value = serde_yaml::from_str(&text)
        .with_context(|| format!("{} is no YAML or JSON", file.display()))?;
    match value {
        Value::Object(parameters) => Ok(parameters),
        Value::Null => Ok(Map::new()),
        _ => bail!(
            "{} is no mapping; write what stands under `parameters` in the YAML, as in `key: 1`",
            file.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(unix)]
    fn what_is_no_file_is_refused_and_not_waited_for() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let pipe = folder.path().join("decisions.jsonl");
        anyhow::ensure!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
        let told = |error: anyhow::Error| format!("{error:#}");
        let walked = super::walk(&pipe, &mut super::Lines::default(), &mut |_| Ok(()));
        let walked = walked.map(|()| serde_json::Map::new()).map_err(told);
        let read = super::parameters(&pipe).map_err(told);
        let text = format!("can't read {}: it is a pipe or a device, not a file", pipe.display());
        assert_eq!((walked, read), (Err(text.clone()), Err(text)));
        Ok(())
    }

    #[test]
    fn whoever_names_no_policy_is_told_of_both_ways_to_do_so() {
        use clap::Args as _;

        let command = super::ReplayArgs::augment_args(clap::Command::new("replay"));
        let told = command.try_get_matches_from(["replay", "decisions.jsonl"]);
        let told = told.map(|_| ()).map_err(|error| error.to_string()).err().unwrap_or_default();
        assert!(told.contains("<--policy <FILE>|--builtin <TYPE>>"), "{told}");
    }

    #[test]
    fn the_help_says_what_is_read_and_which_decisions_are_made_again() {
        use clap::Args as _;

        let command = clap::Command::new("replay");
        let mut command = super::ReplayArgs::augment_args(command).disable_help_flag(true);
        insta::assert_snapshot!(command.render_help());
    }
}
