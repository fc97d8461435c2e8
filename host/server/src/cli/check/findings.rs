//! What a check comes upon, in whatever order.
//!
//! Owns the order in which it is told, which is that of the file, and how much of it is.

use std::collections::BTreeSet;

use super::Report;
use crate::config::{At, ConfigError, Remark};

/// The most problems that are told, and the most warnings: nobody reads further before mending some.
const MOST_SHOWN: usize = 50;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Remark>,
    warnings: Vec<Remark>,
    /// Problems that nobody could keep.
    more_problems: usize,
}

impl Findings {
    /// What keeps the router from serving as the file says.
    pub(super) fn problem(&mut self, at: Option<&At>, text: impl Into<String>) {
        self.problems.push(Remark { at: at.cloned(), text: text.into() });
    }

    /// The same, as the configuration has it.
    pub(super) fn mistake(&mut self, ConfigError { at, problem }: &ConfigError) {
        self.problem(Some(at), problem.to_string());
    }

    /// The same, as somebody else has found it.
    pub(super) fn problems(&mut self, found: impl IntoIterator<Item = Remark>) {
        self.problems.extend(found);
    }

    /// There are so many problems beside those that are told here.
    pub(super) fn more_problems(&mut self, more: usize) {
        self.more_problems += more;
    }

    /// What is likely not meant.
    pub(super) fn warning(&mut self, at: Option<&At>, text: impl Into<String>) {
        self.warnings.push(Remark { at: at.cloned(), text: text.into() });
    }

    /// The same, as somebody else has found it.
    pub(super) fn warnings(&mut self, found: impl IntoIterator<Item = Remark>) {
        self.warnings.extend(found);
    }

    /// Tells all of it.
    pub(super) fn tell(self, report: &mut Report) {
        let Self { problems, warnings, more_problems } = self;
        (report.problems, report.more_problems) = told(problems);
        report.more_problems += more_problems;
        (report.warnings, report.more_warnings) = told(warnings);
    }
}

/// Each once, in the order of the file, and what has no place there behind them; the first of them, and
/// how many there are beside.
fn told(mut found: Vec<Remark>) -> (Vec<String>, usize) {
    found.sort_by_key(|one| {
        let place = one.at.as_ref().map(|at| (at.place.line, at.place.column));
        (place.is_none(), place)
    });
    let mut seen = BTreeSet::new();
    let texts = found.iter().map(ToString::to_string);
    let mut texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    let more = texts.len().saturating_sub(MOST_SHOWN);
    texts.truncate(MOST_SHOWN);
    (texts, more)
}
