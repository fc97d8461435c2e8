//! `pointsman policy replay`.

mod walk;
mod wanted;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, builtin};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::{Map, Value, json};

use crate::config::open_file;
use crate::recorder::ReadDecision;
use crate::replay::{Again, Replay, Summary};

use walk::{Lines, walk};
use wanted::Wanted;

/// The longest file of parameters that is read, in bytes.
const MOST_PARAMETERS: u64 = 64 << 20;

/// Make recorded decisions again, and print where a policy differs from what was decided.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("decides").required(true).args(["policy", "builtin"])))]
pub(in crate::cli) struct ReplayArgs {
    /// Files that `recording.file` has written, oldest first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The component that decides; or --builtin
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The built-in that decides
    #[arg(long, value_name = "TYPE")]
    builtin: Option<String>,
    /// A YAML or JSON file with what stands under `parameters`
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// Make only the decisions of this instance again
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Make only the decisions of this partition again, as in my-model/default/aggregated
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Print so many decisions that differ, fail or can't be made again
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Fail unless every decision is the same, at the same cost to the last bit
    #[arg(long)]
    exact: bool,
}

impl ReplayArgs {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let (catalog, recipe) = self.policy()?;
        let mut replay = Replay::by(catalog, recipe);
        let mut shown = Vec::new();
        let mut lines = Lines::default();
        let mut wanted = Wanted::new(self.instance.as_deref(), self.partition.as_deref());
        for file in &self.files {
            replay.begin_file();
            let mut each = |decision: &ReadDecision, again: Again| {
                if !self.is_as_wanted(&again) && shown.len() < self.show as usize {
                    shown.push((
                        decision.decision_id,
                        decision.worker(),
                        decision.policy.name.clone(),
                        again,
                    ));
                }
            };
            walk(file, &mut replay, &mut wanted, &mut lines, &mut each)?;
        }
        let summary = replay.summary().clone();
        if summary.decisions == 0 && wanted.left_out() {
            bail!("{} in {}", wanted.explain(), files(&self.files));
        }
        if summary.decisions == 0 {
            bail!(
                "there is no decision in {}; record some with `recording` in the YAML",
                files(&self.files)
            );
        }
        let exact = summary.same_to_the_last_bit == summary.decisions;
        let text = if self.json {
            let differences: Vec<Value> = shown
                .iter()
                .map(|(id, went, policy, again)| json!({ "decision_id": id, "policy": policy, "went": went, "again": again }))
                .collect();
            let whole = json!({
                "summary": summary, "differences": differences,
                "other_lines": lines.others, "cut_lines": lines.cut,
            });
            serde_json::to_string_pretty(&whole)? + "\n"
        } else {
            let mut text = String::new();
            for (id, went, policy, again) in &shown {
                writeln!(text, "decision {id}  {policy} sent it to {went}: {}", told(again))?;
            }
            text += &summed_up(&summary);
            text += &lines.told();
            if self.exact && !exact {
                let others = summary.decisions - summary.same_to_the_last_bit;
                writeln!(
                    text,
                    "{others} of them aren't the same to the last bit, as --exact wants."
                )?;
            }
            text
        };
        super::super::say(&text)?;
        Ok(if self.exact && !exact { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Whether a decision is no difference: at another cost it is one only where all is to be exact.
    fn is_as_wanted(&self, again: &Again) -> bool {
        match again {
            Again::Same { same_cost } => *same_cost || !self.exact,
            _ => false,
        }
    }

    /// The types that there are, and what decides.
    fn policy(&self) -> Result<(Catalog, Recipe)> {
        let parameters = match &self.parameters {
            Some(file) => parameters(file)?,
            None => Map::new(),
        };
        let mut catalog = Catalog::builtin();
        let policy_type = match (&self.policy, &self.builtin) {
            (Some(file), _) => {
                std::fs::metadata(file)
                    .with_context(|| format!("can't read {}", file.display()))?;
                let engine = EngineConfig { pooled_instances: 0, ..EngineConfig::default() };
                let engine = PolicyEngine::new(engine).context("can't run components here")?;
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                // A built-in's name is taken.
                let name = if builtin::NAMES.contains(&&*stem) {
                    format!("{stem}-component")
                } else {
                    stem
                };
                let policy = ComponentPolicy::open(&engine, &name, file)?;
                catalog
                    .insert(Arc::new(policy))
                    .with_context(|| format!("{name:?} can't be a policy type; rename the file"))?;
                name
            }
            (None, Some(builtin)) if builtin::NAMES.contains(&&**builtin) => builtin.clone(),
            (None, builtin) => {
                let known = builtin::NAMES.join(", ");
                let name = builtin.as_deref().unwrap_or_default();
                bail!("no built-in is named {name:?}; there are: {known}");
            }
        };
        let parameters = Arc::new(parameters);
        let used =
            TypeUse { policy_type: policy_type.into(), parameters, limits: Limits::default() };
        Ok((catalog, Recipe::Whole(used)))
    }
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

fn files(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn told(again: &Again) -> String {
    match again {
        Again::Same { same_cost: true } => "the same".to_owned(),
        Again::Same { same_cost: false } => "the same, at another cost".to_owned(),
        Again::Differs { chosen, cost, cached_tokens_gained } => format!(
            "now {chosen}, cost {cost}, {cached_tokens_gained:+} tokens predicted to be cached"
        ),
        Again::Failed { why } => format!("now it fails: {why}"),
        Again::Impossible { why } => format!("can't be made again: {why}"),
    }
}

fn summed_up(summary: &Summary) -> String {
    let Summary {
        decisions,
        same,
        same_to_the_last_bit,
        differ,
        failed,
        impossible,
        cached_tokens_gained,
        cached_tokens_lost,
        stateless,
    } = summary;
    let mut text = format!(
        "decisions   {decisions}\nsame        {same}, {same_to_the_last_bit} of them at the same cost to the last bit\n\
         differ      {differ}: {cached_tokens_gained} cached tokens gained, {cached_tokens_lost} lost\n\
         failed      {failed}\nimpossible  {impossible}\n"
    );
    if !stateless {
        text += "The policy keeps state: only a complete record of a partition, in order, can be repeated exactly, and none if it follows the fleet or observes outcomes.\n";
    }
    text
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
        let mut replay = super::Replay::by(
            super::Catalog::builtin(),
            super::Recipe::Composed { filters: vec![], scorers: vec![], picker: None },
        );
        let mut wanted = super::Wanted::new(None, None);
        let lines = &mut super::Lines::default();
        let walked = super::walk(&pipe, &mut replay, &mut wanted, lines, &mut |_, _| ());
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
