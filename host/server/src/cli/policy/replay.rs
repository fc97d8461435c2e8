//! `pointsman policy replay`.

mod wanted;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, builtin};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::{Map, Value, json};

use crate::config::open_file;
use crate::recorder::{Read, ReadDecision, read};
use crate::replay::{Again, Replay, Summary};

use wanted::Wanted;

/// The longest line that is read: some ten thousand ranks.
const MOST_LINE: u64 = 64 << 20;

/// Make recorded decisions again, and print where a policy differs from what was decided.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArgs {
    /// Files that `recording.file` has written, oldest first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The component that decides; or --builtin
    #[arg(long, value_name = "FILE", required_unless_present = "builtin")]
    policy: Option<PathBuf>,
    /// The built-in that decides
    #[arg(long, value_name = "TYPE", conflicts_with = "policy")]
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
        let mut others = 0_u64;
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
            others += walk(file, &mut replay, &mut wanted, &mut each)?;
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
            let whole =
                json!({ "summary": summary, "differences": differences, "other_lines": others });
            serde_json::to_string_pretty(&whole)? + "\n"
        } else {
            let mut text = String::new();
            for (id, went, policy, again) in &shown {
                writeln!(text, "decision {id}  {policy} sent it to {went}: {}", told(again))?;
            }
            text += &summed_up(&summary);
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
        .and_then(|file| file.take(MOST_LINE).read_to_string(&mut text))
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

/// Makes each decision of a file again. Returns how many lines were neither that nor settings.
fn walk(
    path: &Path,
    replay: &mut Replay,
    wanted: &mut Wanted<'_>,
    each: &mut dyn FnMut(&ReadDecision, Again),
) -> Result<u64> {
    let file = open_file(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut file = BufReader::new(file);
    let (mut number, mut others, mut line) = (0_u64, 0, String::new());
    loop {
        line.clear();
        number += 1;
        let at = || format!("{}:{number}", path.display());
        let read_bytes = file.by_ref().take(MOST_LINE).read_line(&mut line).with_context(at)?;
        if read_bytes == 0 {
            return Ok(others);
        }
        if read_bytes as u64 == MOST_LINE {
            bail!(
                "{}: the line is longer than {MOST_LINE} bytes, so this is no file of decisions",
                at()
            );
        }
        if line.trim().is_empty() {
            continue;
        }
        match read(line.trim_end()).with_context(at)? {
            Read::Settings(settings) => replay.heed(*settings),
            Read::Decision(decision)
                if !wanted.takes(&decision.policy.name, &decision.partition) => {}
            Read::Decision(decision) => {
                let again = replay.decide(&decision).with_context(|| {
                    format!(
                        "{}: the policy can't be made; --parameters FILE is what it is told",
                        at()
                    )
                })?;
                each(&decision, again);
            }
            Read::Other(_) => others += 1,
        }
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
        let walked = super::walk(&pipe, &mut replay, &mut wanted, &mut |_, _| ()).map_err(told);
        let read = super::parameters(&pipe).map_err(told);
        let text = format!("can't read {}: it is a pipe or a device, not a file", pipe.display());
        assert_eq!((walked, read), (Err(text.clone()), Err(text)));
        Ok(())
    }

    #[test]
    fn the_help_says_what_is_read_and_which_decisions_are_made_again() {
        use clap::Args as _;

        let command = clap::Command::new("replay");
        let mut command = super::ReplayArgs::augment_args(command).disable_help_flag(true);
        insta::assert_snapshot!(command.render_help());
    }
}
