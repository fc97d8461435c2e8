//! The edges: one row and none, a fleet that everybody has left, outcomes, a successor.

use pointsman_core::clock::Moment;
use pointsman_core::ids::DecisionId;
use pointsman_core::ids::WorkerRank;
use pointsman_core::outcome::{DecisionOutcome, Ending};
use pointsman_core::policy::candidates::Matrix;
use pointsman_core::policy::{
    Candidates, Cause, Outcome, PolicyInstance, RequestView, RowMask, StageError,
};
use pointsman_core::request::RouteRequest;

use super::Findings;
use super::policy::{Tried, unlike};
use crate::author::scene::{Extent, NoChoice, Scene, Way, nobody};

pub(super) fn examine(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    one_row(tried, found)?;
    no_row(tried, found)?;
    if tried.declaration.properties.follows_fleet {
        an_empty_fleet(tried, found)?;
    }
    if tried.declaration.properties.observes {
        outcomes(tried, found)?;
    }
    if tried.declaration.properties.hands_over {
        handover(tried, found)?;
    }
    Ok(())
}

fn instance(tried: &Tried<'_>) -> Result<Box<dyn PolicyInstance>, String> {
    let made = tried.stage.provider.instantiate(&tried.stage.environment);
    made.map_err(|error| error.to_string())
}

/// With one candidate there is nothing to choose, but it may be rejected.
fn one_row(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let scene = Scene::new(tried.stage, Extent { rows: 1, decisions: 24 }, 1);
    let answers = scene.play(tried.stage, Way::OneCall)?;
    let chosen = answers.iter().filter(|answer| answer.chosen.is_ok()).count();
    let rejected =
        answers.iter().filter(|answer| answer.chosen == Err(NoChoice::AllFiltered)).count();
    let no = answers.len() - chosen - rejected;
    let what = format!("chosen {chosen} times, rejected {rejected} times, refused {no} times");
    found.good("one row", what);
    Ok(())
}

/// A host doesn't ask about no rows; a policy that answers all the same is good to test.
fn no_row(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let mut instance = instance(tried)?;
    let answer = over_nothing(tried, &mut *instance);
    match answer {
        Ok(()) => found.good("no row", "it answers; the host asks about one at least"),
        Err(error) if matches!(error.cause, Cause::Refused | Cause::BadOutput) => {
            found.good("no row", "it says no; the host asks about one at least");
        }
        Err(error) => found.note(
            "no row",
            format!(
                "it fails ({}: {}); the host asks about one at least",
                error.cause, error.detail
            ),
        ),
    }
    Ok(())
}

fn over_nothing(tried: &Tried<'_>, instance: &mut dyn PolicyInstance) -> Result<(), StageError> {
    let environment = &tried.stage.environment;
    let union = tried.declaration.union();
    let mut matrix = Matrix::new(&union);
    matrix.fill(0, |_, _| {});
    let request = RouteRequest::new("made-up", environment.partition.clone(), 1_024);
    let moment = Moment { now_ms: 0, seed: 0 };
    let view =
        RequestView::new(&request, DecisionId(0), moment, environment.block_size, true, None);
    let ids: [WorkerRank; 0] = [];
    let all = union.iter().copied().collect();
    let rows = Candidates::new(&ids, &matrix, all, &[]);
    if tried.declaration.properties.fused {
        return instance.decide(&view, &rows, &mut Outcome::default());
    }
    for filter in 0..tried.declaration.filters.len() {
        instance.keep(filter, &view, &rows, &mut RowMask::default())?;
    }
    for scorer in 0..tried.declaration.scorers.len() {
        instance.score(scorer, &view, &rows, &mut [])?;
    }
    match tried.declaration.picker {
        Some(_) => instance.pick(&view, &rows, &[]).map(drop),
        None => Ok(()),
    }
}

fn an_empty_fleet(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let mut instance = instance(tried)?;
    let fleet = nobody(&tried.stage.environment.partition);
    match instance.fleet_changed(&tried.scene.snapshot).and_then(|()| instance.fleet_changed(&fleet))
    {
        Ok(()) => found.good("no worker", "it is told of a fleet that everybody has left"),
        Err(error) => found.wrong(
            "no worker",
            format!(
                "it fails when everybody has left ({}: {}), which happens: take an empty list of workers",
                error.cause, error.detail
            ),
        ),
    }
    Ok(())
}

fn outcomes(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let mut instance = instance(tried)?;
    let worker = tried.scene.snapshot.rows.first().copied();
    let endings =
        [Ending::failed("closed"), Ending::Completed { output_tokens: 100 }, Ending::Cancelled];
    let told: Vec<DecisionOutcome> = endings
        .into_iter()
        .zip(worker.into_iter().cycle())
        .map(|(ending, worker)| DecisionOutcome {
            decision_id: DecisionId(1),
            worker,
            at_ms: 1_000,
            event: ending.into(),
        })
        .collect();
    match instance.observe(&told) {
        Ok(()) => found.good("outcomes", "it is told what became of decisions"),
        Err(error) => found.wrong(
            "outcomes",
            format!(
                "it fails when it is told what became of decisions, also others' ({}: {}): pass over what it doesn't know",
                error.cause, error.detail
            ),
        ),
    }
    Ok(())
}

/// A new version in the middle, which takes over what the old one knows.
fn handover(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let of = tried.answers.len();
    let (first, then) = (tried.scene.part(0, of / 2), tried.scene.part(of / 2, of));
    let mut old = tried.stage.pipeline()?;
    first.play_on(&mut old, tried.stage, Way::Parts);
    let mut new = tried.stage.pipeline()?;
    match new.take_over(&mut old) {
        Err(error) => found.wrong(
            "handover",
            format!("it declares `hands-over`, and a new instance can't take over: {error}; restore what `save` gave, of any version"),
        ),
        Ok(false) => found.good("handover", "it had nothing to hand over"),
        Ok(true) => {
            let after = then.play_on(&mut new, tried.stage, Way::Parts);
            let usual = tried.answers.get(of / 2..).unwrap_or_default();
            match unlike(usual, &after) {
                0 => found.good("handover", "its successor goes on as it would have"),
                others => found.note(
                    "handover",
                    format!(
                        "its successor answers {others} of {} decisions otherwise than it would have: fine, if it needn't know all",
                        after.len()
                    ),
                ),
            }
        }
    }
    Ok(())
}
