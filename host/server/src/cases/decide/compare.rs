//! What came of a decision, beside what was expected of it.

use pointsman_core::policy::Pipeline;
use pointsman_core::policy::pipeline::{RunError, Selected};

use super::super::decision::Expected;
use super::super::difference::{Difference, own_words, quoted};
use super::super::names::RowName;
use super::super::says;
use super::{Stand, name};

/// As YAML has it.
pub(super) fn list(rows: &[RowName]) -> String {
    let names: Vec<String> = rows.iter().map(RowName::yaml).collect();
    format!("[{}]", names.join(", "))
}

/// As YAML has it.
fn numbers(costs: &[f64]) -> String {
    let costs: Vec<String> = costs.iter().map(ToString::to_string).collect();
    format!("[{}]", costs.join(", "))
}

pub(super) fn compare(
    pipeline: &Pipeline,
    stand: &Stand<'_>,
    answer: &Result<Selected, RunError>,
    expected: &Expected,
    parts: bool,
) -> Vec<Difference> {
    let not_failed = |found: String, wanted: &str| {
        let what = format!("it didn't fail, expected words with {wanted:?}");
        vec![Difference::whole(shown(expected), found, what)]
    };
    match (answer, &expected.error) {
        (Err(RunError::Failed { failure, .. }), Some(wanted)) => {
            let words = failure.to_string();
            if says(&words, wanted) {
                return Vec::new();
            }
            let what = format!("it failed as {words:?}, expected words with {wanted:?}");
            let found = quoted(&own_words(&failure.detail));
            vec![Difference::value("error", quoted(wanted), found, what)]
        }
        (Err(RunError::Failed { failure, .. }), None) => {
            let found = format!("error: {}", quoted(&own_words(&failure.detail)));
            vec![Difference::whole(shown(expected), found, failure.to_string())]
        }
        (Err(RunError::AllFiltered), Some(wanted)) => not_failed("kept: []".to_owned(), wanted),
        (Err(RunError::AllFiltered), None) => match &expected.kept {
            Some(kept) if kept.is_empty() => Vec::new(),
            _ => {
                let found = "kept: []".to_owned();
                vec![Difference::whole(shown(expected), found, "no row was kept")]
            }
        },
        (Ok(selected), Some(wanted)) => {
            let picked = name(stand, selected.row);
            let picked = picked.map_or_else(|| "nobody".to_owned(), |row| row.yaml());
            not_failed(format!("pick: {picked}"), wanted)
        }
        (Ok(selected), None) => chosen(pipeline, stand, selected, expected, parts),
    }
}

/// What is otherwise in a decision that chose somebody.
fn chosen(
    pipeline: &Pipeline,
    stand: &Stand<'_>,
    selected: &Selected,
    expected: &Expected,
    parts: bool,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let picked = name(stand, selected.row);
    if let Some(wanted) = expected.pick
        && picked != Some(wanted)
    {
        let what = match picked {
            Some(picked) => format!("it picked {picked}, expected {wanted}"),
            None => format!("it picked nobody, expected {wanted}"),
        };
        let yaml = picked.map_or_else(String::new, |row| row.yaml());
        found.push(Difference::value("pick", wanted.yaml(), yaml, what));
    }
    // Verdicts and costs are told by the stages; one call tells how many rows it kept.
    if !parts {
        if let Some(kept) = &expected.kept
            && kept.len() != selected.kept
        {
            let what = format!("it kept {} rows, expected {}", selected.kept, list(kept));
            let (wanted, rows) = (list(kept), format!("{} rows", selected.kept));
            found.push(Difference::value("kept", wanted, rows, what).unsaid());
        }
        return found;
    }
    let rows: Vec<(usize, f64)> =
        pipeline.rows().filter_map(|(row, cost)| Some((row, cost?))).collect();
    let kept: Vec<RowName> = rows.iter().filter_map(|(row, _)| name(stand, *row)).collect();
    if let Some(wanted) = expected.kept.as_ref().filter(|wanted| **wanted != kept) {
        let what = format!("it kept {}, expected {}", words(&kept), words(wanted));
        found.push(Difference::value("kept", list(wanted), list(&kept), what));
    }
    let costs: Vec<f64> = rows.iter().map(|(_, cost)| *cost).collect();
    if let Some(wanted) = expected.costs.as_ref().filter(|wanted| !are_close(wanted, &costs)) {
        let what = format!("the costs of {} are {costs:?}, expected {wanted:?}", words(&kept));
        found.push(Difference::value("costs", numbers(wanted), numbers(&costs), what));
    }
    found
}

/// Names of rows for people to read.
pub(super) fn words(rows: &[RowName]) -> String {
    let names: Vec<String> = rows.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(", "))
}

/// What was expected, as YAML has it.
fn shown(expected: &Expected) -> String {
    let Expected { kept, costs, pick, picks, error } = expected;
    let entries = [
        kept.as_ref().map(|kept| format!("kept: {}", list(kept))),
        costs.as_ref().map(|costs| format!("costs: {}", numbers(costs))),
        pick.map(|pick| format!("pick: {}", pick.yaml())),
        picks.as_ref().map(|picks| format!("picks: {}", list(picks))),
        error.as_ref().map(|error| format!("error: {}", quoted(error))),
    ];
    entries.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn are_close(wanted: &[f64], costs: &[f64]) -> bool {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    wanted.len() == costs.len() && wanted.iter().zip(costs).all(close)
}
