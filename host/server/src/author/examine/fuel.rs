//! What calls use of their fuel, by how much there is to decide about.

use pointsman_core::policy::{Cause, Limits};
use serde::Serialize;

use super::{Findings, grouped};
use crate::author::scene::{Extent, NoChoice, SIZES, Scene, Stage, Way};

/// Decisions of each size. The first half warms up what policies keep.
const DECISIONS: usize = 24;
/// A call that needs more than its limit is given so many times as much, to see what it needs.
pub(super) const AMPLE: u64 = 20;
/// From this share of the limit on there is little room, in percent.
const MUCH: f64 = 50.0;

/// What calls of one size use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FuelFigure {
    /// What there are so many of: `rows`, or `requests` of a classifier.
    pub of: &'static str,
    /// How many.
    pub count: usize,
    /// The most that one call used, in units.
    pub call: u64,
    /// What a warm decision uses on average, in units; for a classifier, what a call does.
    pub mean: u64,
    /// What a call may use, in units.
    pub limit: u64,
    /// The most that one call used, in percent of that.
    pub percent: f64,
}

impl FuelFigure {
    pub(super) fn new(of: &'static str, count: usize, call: u64, mean: u64, limit: u64) -> Self {
        let percent = call as f64 * 100.0 / limit.max(1) as f64;
        Self { of, count, call, mean, limit, percent: (percent * 10.0).round() / 10.0 }
    }

    fn words(&self) -> String {
        let (count, call) = (grouped(self.count as u64), grouped(self.call));
        format!("{count} {}: {call} ({} %)", self.of, self.percent)
    }
}

/// Tells figures, and whether they are within the limit.
pub(super) fn tell(figures: Vec<FuelFigure>, failed: Option<String>, found: &mut Findings) {
    let words: Vec<_> = figures.iter().map(FuelFigure::words).collect();
    let words = match figures.first() {
        Some(FuelFigure { limit, .. }) => {
            format!("{}; of {} a call", words.join(", "), grouped(*limit))
        }
        None => "nothing was measured".to_owned(),
    };
    let most = figures.iter().map(|figure| figure.percent).fold(0.0, f64::max);
    if let Some(failed) = failed {
        found.wrong("fuel", format!("{failed}; {words}"));
    } else if figures.is_empty() {
        found.note("fuel", words);
    } else if figures.iter().any(|figure| figure.call > figure.limit) {
        found.wrong(
            "fuel",
            format!("{words}: such calls fail; do less per row, or give it more by `limits: {{ fuel: ... }}`"),
        );
    } else if most >= MUCH {
        found.note("fuel", format!("{words}: little room; think of larger fleets"));
    } else {
        found.good("fuel", words);
    }
    found.fuel.extend(figures);
}

/// Decides over fleets of each size.
pub(super) fn of_policy(stage: &Stage, limit: u64, found: &mut Findings) -> Result<(), String> {
    let mut ample = stage.clone();
    ample.environment.limits =
        Limits { fuel: Some(limit.saturating_mul(AMPLE)), ..stage.environment.limits };
    let (mut figures, mut failed) = (Vec::new(), None);
    for rows in SIZES {
        let extent = Extent { rows, decisions: DECISIONS };
        let answers = Scene::new(stage, extent, rows as u64).play(&ample, Way::OneCall)?;
        let failure = answers.iter().find_map(|answer| match &answer.chosen {
            Err(NoChoice::Failed(cause, words)) => Some((*cause, words)),
            _ => None,
        });
        if let Some((cause, words)) = failure {
            let remedy = match cause {
                Cause::Fuel => format!(
                    "even {AMPLE} times the limit is too little: look for a loop that doesn't end, or that goes over all rows for each row"
                ),
                _ => "every fleet must be decided over".to_owned(),
            };
            failed = Some(format!("over {} rows: {words}; {remedy}", grouped(rows as u64)));
            break;
        }
        let call = answers.iter().map(|answer| answer.fuel.call).max().unwrap_or(0);
        let warm: Vec<u64> =
            answers.iter().skip(DECISIONS / 2).map(|answer| answer.fuel.decision).collect();
        let mean = warm.iter().sum::<u64>() / warm.len().max(1) as u64;
        figures.push(FuelFigure::new("rows", rows, call, mean, limit));
    }
    tell(figures, failed, found);
    Ok(())
}
