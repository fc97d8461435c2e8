//! What is repeated of the lines of files, and what came of it.
//!
//! Owns which lines are for whom: decisions for what decides, the logs of classifiers for what
//! classifies. It doesn't know how either is done.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use pointsman_core::ids::{DecisionId, WorkerRank};
use serde_json::{Value, json};

use super::walk::Lines;
use super::wanted::Wanted;
use super::{By, words};
use crate::recorder::{Read, ReadDecision};
use crate::replay::Again;
use crate::replay::classifier::Difference;

const TOLD: &str = "the policy can't be made; --parameters FILE is what it is told";

/// A decision that came out differently.
#[derive(Debug)]
struct Shown {
    id: DecisionId,
    went: WorkerRank,
    policy: Arc<str>,
    again: Again,
}

/// What is repeated.
pub(super) struct Repeats<'a> {
    by: By,
    wanted: Wanted<'a>,
    most_shown: usize,
    exact: bool,
    decisions: Vec<Shown>,
    calls: Vec<Difference>,
}

impl<'a> Repeats<'a> {
    pub(super) fn by(by: By, wanted: Wanted<'a>, most_shown: usize, exact: bool) -> Self {
        Self { by, wanted, most_shown, exact, decisions: Vec::new(), calls: Vec::new() }
    }

    /// Another file begins.
    pub(super) fn begin_file(&mut self) {
        if let Some(replay) = &mut self.by.decides {
            replay.begin_file();
        }
    }

    pub(super) fn take(&mut self, line: Read) -> Result<()> {
        match (line, &mut self.by) {
            (Read::Settings(settings), By { decides: Some(replay), .. }) => replay.heed(*settings),
            (Read::Decision(decision), By { decides: Some(replay), .. })
                if self.wanted.takes(&decision.policy.name, &decision.partition) =>
            {
                let again = replay.decide(&decision).context(TOLD)?;
                self.show(&decision, again);
            }
            (Read::Classifier(entry), By { classifies: Some(replay), .. })
                if self.wanted.takes_log(&entry.partition) =>
            {
                let (calls, most) = (&mut self.calls, self.most_shown);
                let mut show = |one| push(calls, most, one);
                replay.repeat(&entry, &mut show).context(TOLD)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn show(&mut self, decision: &ReadDecision, again: Again) {
        // At another cost it is a difference only where all is to be exact.
        let is_as_wanted = match &again {
            Again::Same { same_cost } => *same_cost || !self.exact,
            _ => false,
        };
        if !is_as_wanted {
            let (id, went) = (decision.decision_id, decision.worker());
            let policy = decision.policy.name.clone();
            push(&mut self.decisions, self.most_shown, Shown { id, went, policy, again });
        }
    }

    /// There are no more lines.
    ///
    /// # Errors
    ///
    /// If nothing was repeated.
    pub(super) fn finish(&mut self, files: &str) -> Result<()> {
        let mut repeated = 0;
        if let Some(replay) = &self.by.decides {
            repeated += replay.summary().decisions;
        }
        if let Some(replay) = &mut self.by.classifies {
            let (calls, most) = (&mut self.calls, self.most_shown);
            replay.finish(&mut |one| push(calls, most, one));
            let summary = replay.summary();
            repeated += summary.calls;
            if let (0, Some(gap)) = (repeated, summary.gaps.first()) {
                bail!("{gap}");
            }
        }
        match &self.by {
            _ if repeated > 0 => Ok(()),
            By { decides: Some(_), .. } if self.wanted.left_out() => {
                bail!("{} in {files}", self.wanted.explain())
            }
            By { decides: Some(_), classifies: None } => {
                bail!("there is no decision in {files}; record some with `recording` in the YAML")
            }
            By { decides: None, .. } => bail!(
                "there is no call of a request classifier in {files} (of that partition, if one is \
                 named); record some with `recording.request_classifier` in the YAML"
            ),
            _ => bail!(
                "there is no decision and no call of a request classifier in {files}; record some \
                 with `recording` in the YAML"
            ),
        }
    }

    /// Whether all is the same to the last bit.
    pub(super) fn is_exact(&self) -> bool {
        self.inexact_decisions() == 0
            && self.by.classifies.as_ref().is_none_or(|replay| replay.summary().is_exact())
    }

    fn inexact_decisions(&self) -> u64 {
        let summary = self.by.decides.as_ref().map(|replay| replay.summary());
        summary.map_or(0, |summary| summary.decisions - summary.same_to_the_last_bit)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(replay) = &self.by.decides {
            for Shown { id, went, policy, again } in &self.decisions {
                let again = words::told(again);
                // Writing to a string doesn't fail.
                let _ = writeln!(text, "decision {id}  {policy} sent it to {went}: {again}");
            }
            text += &words::summed_up(replay.summary());
        }
        if let Some(replay) = &self.by.classifies {
            for difference in &self.calls {
                text += &words::differs(difference);
                text.push('\n');
            }
            text += &words::calls_summed_up(replay.summary());
        }
        text
    }

    /// What --exact has to say; nothing if it is content.
    pub(super) fn verdict(&self) -> String {
        if !self.exact || self.is_exact() {
            return String::new();
        }
        match self.inexact_decisions() {
            0 => "Not all answers of the classifier are the same, as --exact wants.\n".to_owned(),
            others => {
                format!("{others} of them aren't the same to the last bit, as --exact wants.\n")
            }
        }
    }

    pub(super) fn json(&self, lines: &Lines) -> Value {
        let mut whole = json!({ "other_lines": lines.others, "cut_lines": lines.cut });
        if let Some(replay) = &self.by.decides {
            let shown = |Shown { id, went, policy, again }: &Shown| json!({ "decision_id": id, "policy": policy, "went": went, "again": again });
            whole["summary"] = json!(replay.summary());
            whole["differences"] = self.decisions.iter().map(shown).collect();
        }
        if let Some(replay) = &self.by.classifies {
            whole["request_classifier"] =
                json!({ "summary": replay.summary(), "differences": self.calls });
        }
        whole
    }
}

fn push<T>(shown: &mut Vec<T>, most: usize, one: T) {
    if shown.len() < most {
        shown.push(one);
    }
}
