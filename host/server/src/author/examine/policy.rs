//! A policy that selects workers: made, asked again and again, with one thing changed at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use pointsman_core::policy::{Declaration, Input, InstantiateError, Stage as DeclaredStage};
use pointsman_wasm::Description;

use super::{Findings, edges, fuel, order, parameters};
use crate::author::Given;
use crate::author::scene::{Answer, Decision, Extent, NoChoice, Scene, Stage, Way};

/// The fleet that most checks play in.
const USUAL: Extent = Extent { rows: 24, decisions: 48 };
/// Its seed; any will do.
const SEED: u64 = 24;
/// Fleets that a policy must be able to decide over at all.
const SIZES: [usize; 3] = [1, 3, 70];

/// A policy that could be made, and what it answers to the usual scene.
pub(super) struct Tried<'a> {
    pub(super) stage: &'a Stage,
    pub(super) declaration: &'a Declaration,
    pub(super) scene: Scene,
    /// Stage by stage.
    pub(super) answers: Vec<Answer>,
    /// What is otherwise by other chance.
    pub(super) draws: Varies,
    /// What is otherwise in another order of decisions.
    pub(super) remembers: Varies,
}

/// What is otherwise in how many answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Varies {
    /// Who was chosen, or what is said of some row.
    pub(super) answers: usize,
    /// What is said of some row: its verdict, its cost.
    pub(super) judgements: usize,
}

impl Varies {
    fn between(one: &[Answer], other: &[Answer]) -> Self {
        let judged = one.iter().zip(other).filter(|(one, other)| !one.judges_as(other));
        Self { answers: unlike(one, other), judgements: judged.count() }
    }
}

/// A policy, and what is known of it before it is asked.
pub(super) struct Suspect<'a> {
    pub(super) stage: &'a Stage,
    pub(super) about: Option<&'a Description>,
    pub(super) given: &'a Given,
    /// The fuel that a call may use.
    pub(super) fuel: u64,
}

pub(super) fn examine(suspect: &Suspect<'_>, found: &mut Findings) {
    let Suspect { stage, about, given, .. } = suspect;
    let made = stage.provider.instantiate(&stage.environment);
    parameters::schema(*about, given, found);
    let declaration = match made {
        Ok(instance) => instance.declaration().clone(),
        Err(error) => return refused(&error, given, found),
    };
    let taken = if given.parameters.is_empty() { "none" } else { "taken" };
    found.good("parameters", format!("{taken} ({})", given.from));
    found.good("stages", stages(&declaration));
    if let Err(words) = asked(suspect, &declaration, found) {
        found.wrong("decides", words);
    }
}

/// Why it can't be made.
pub(super) fn refused(error: &InstantiateError, given: &Given, found: &mut Findings) {
    let check = match error {
        InstantiateError::Declaration { .. } => "inputs",
        _ => "parameters",
    };
    let remedy = match error {
        InstantiateError::Refused { .. } => format!(
            "; give what it wants with --parameters, or in the cases' `parameters` (now: {})",
            given.from
        ),
        InstantiateError::Limits { .. } => "; give other limits".to_owned(),
        _ => String::new(),
    };
    found.wrong(check, format!("{error}{remedy}"));
}

fn stages(declaration: &Declaration) -> String {
    let kinds = [("filter", &declaration.filters), ("scorer", &declaration.scorers)];
    let all = kinds.iter().flat_map(|(kind, stages)| stages.iter().map(move |one| (*kind, one)));
    let all = all.chain(declaration.picker.iter().map(|picker| ("picker", picker)));
    let named: Vec<_> =
        all.map(|(kind, one): (_, &DeclaredStage)| format!("{kind} {}", one.name)).collect();
    let properties: Vec<_> = declaration.properties.names().collect();
    let properties =
        if properties.is_empty() { "no properties".to_owned() } else { properties.join(", ") };
    format!("{}; {properties}", named.join(", "))
}

/// An error is one that keeps it from deciding at all.
fn asked(
    suspect: &Suspect<'_>,
    declaration: &Declaration,
    found: &mut Findings,
) -> Result<(), String> {
    let stage = suspect.stage;
    for rows in SIZES {
        let scene = Scene::new(stage, Extent { rows, ..USUAL }, SEED + rows as u64);
        for way in [Way::Parts, Way::OneCall] {
            fails(&scene.play(stage, way)?, rows)?;
        }
    }
    let scene = Scene::new(stage, USUAL, SEED);
    let answers = scene.play(stage, Way::Parts)?;
    fails(&answers, USUAL.rows)?;
    decides(&answers, found);

    repeats(stage, &scene, &answers, found)?;
    let other = scene.changed(|decision| decision.draw_anew()).play(stage, Way::Parts)?;
    let draws = Varies::between(&answers, &other);
    let backwards = scene.reversed().play(stage, Way::Parts)?;
    let backwards: Vec<Answer> = backwards.into_iter().rev().collect();
    let remembers = Varies::between(&answers, &backwards);
    let tried = Tried { stage, declaration, scene, answers, draws, remembers };
    state(&tried, found);
    chance(&tried, found);
    if declaration.properties.fused {
        one_call(&tried, found)?;
    }
    order::examine(&tried, found)?;
    inputs(&tried, found)?;
    parameters::defaults(&tried, suspect.about, found);
    edges::examine(&tried, found)?;
    fuel::of_policy(stage, suspect.fuel, found)
}

/// The first answer that is a failure.
pub(super) fn fails(answers: &[Answer], rows: usize) -> Result<(), String> {
    let failed = answers.iter().enumerate().find_map(|(at, answer)| match &answer.chosen {
        Err(NoChoice::Failed(_, words)) => Some((at, words)),
        _ => None,
    });
    match failed {
        None => Ok(()),
        Some((at, words)) => Err(format!("decision {} over {rows} rows: {words}", at + 1)),
    }
}

fn decides(answers: &[Answer], found: &mut Findings) {
    let workers: BTreeSet<_> =
        answers.iter().filter_map(|answer| Some(answer.chosen.as_ref().ok()?.worker)).collect();
    let chosen = answers.iter().filter(|answer| answer.chosen.is_ok()).count();
    let of = answers.len();
    let refused = answers.iter().find_map(|answer| match &answer.chosen {
        Err(NoChoice::Refused(words)) => Some(words),
        _ => None,
    });
    match (chosen, refused) {
        (0, Some(words)) => found.note(
            "decides",
            format!("it said no to all {of} made-up requests, as in {words:?}: little can be seen"),
        ),
        (0, None) => found.note(
            "decides",
            format!("it rejected every row of {of} made-up decisions: little can be seen; check it with other --parameters"),
        ),
        _ => found.good(
            "decides",
            format!("{chosen} of {of} made-up requests got one of {} workers", workers.len()),
        ),
    }
}

/// How many answers aren't the same.
pub(super) fn unlike(one: &[Answer], other: &[Answer]) -> usize {
    one.iter().zip(other).filter(|(one, other)| !one.is_as(other)).count()
}

fn repeats(
    stage: &Stage,
    scene: &Scene,
    answers: &[Answer],
    found: &mut Findings,
) -> Result<(), String> {
    for _ in 0..3 {
        let again = scene.play(stage, Way::Parts)?;
        let differs = answers.iter().zip(&again).enumerate().find(|(_, (a, b))| !a.is_as(b));
        if let Some((at, (once, then))) = differs {
            found.wrong(
                "repeats",
                format!(
                    "two new instances that were asked the same answered differently: decision {} went to {}, then to {}; \
                     take chance from the decision's seed and time from its `now_ms`, and walk through ordered maps",
                    at + 1,
                    once.words(),
                    then.words()
                ),
            );
            return Ok(());
        }
    }
    let of = answers.len();
    found.good("repeats", format!("{of} decisions by 4 new instances are the same, bit for bit"));
    Ok(())
}

fn state(tried: &Tried<'_>, found: &mut Findings) {
    let (of, others) = (tried.answers.len(), tried.remembers.answers);
    match (tried.declaration.properties.stateless, others > 0) {
        (true, true) => found.wrong(
            "state",
            format!(
                "it declares `stateless`, and {others} of {of} answers are others when the same decisions come in another order: \
                 keep nothing between calls, or take `stateless` out of its properties"
            ),
        ),
        (true, false) => found.good("state", "none, as it declares"),
        (false, true) => found.good(
            "state",
            format!("it keeps some: {others} of {of} answers depend on earlier ones; only a whole record can be replayed"),
        ),
        (false, false) => found.note(
            "state",
            "none was seen, and it doesn't declare `stateless`: with it, any record can be replayed to the last bit",
        ),
    }
}

fn chance(tried: &Tried<'_>, found: &mut Findings) {
    let what = match tried.draws {
        Varies { answers: 0, .. } => "other seeds give the same answers",
        // Whoever is drawn then is drawn by the host.
        Varies { judgements: 0, .. } if tried.declaration.picker.is_none() => {
            "it draws nothing; of equals the host takes one by the seed"
        }
        _ => "other seeds give other answers; the same one, the same",
    };
    found.good("chance", what);
}

fn one_call(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let fused = tried.scene.play(tried.stage, Way::OneCall)?;
    let differs = tried.answers.iter().zip(&fused).enumerate().find(|(_, (a, b))| !a.chooses_as(b));
    match differs {
        None => found.good("one call", "decides as its stages one by one"),
        Some((at, (parts, fused))) => found.wrong(
            "one call",
            format!(
                "it declares `fused`, and its `decide` chooses otherwise than its stages: decision {} went to {}, and stage by stage to {}; \
                 the host asks in either way, so both must run the same code",
                at + 1,
                fused.words(),
                parts.words()
            ),
        ),
    }
    Ok(())
}

/// Whether what is declared is read, as far as answers show it.
fn inputs(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let declared = tried.declaration.union();
    let mut names: Vec<_> = declared.iter().map(|input| input.name()).collect();
    let hashes = tried.declaration.prefix_hash_blocks;
    let hashes_name = format!("{hashes} prefix hashes");
    if hashes > 0 {
        names.push(&hashes_name);
    }
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let mut unread = Vec::new();
    let mut look = |name: &str, change: &dyn Fn(&mut Decision)| -> Result<(), String> {
        let other = tried.scene.changed(change);
        if unlike(&tried.answers, &other.play(tried.stage, Way::Parts)?) > 0 {
            return Ok(());
        }
        // It may count only among rows that are equal otherwise.
        let input = Input::ALL.into_iter().find(|input| input.name() == name);
        let level = tried.scene.changed(|decision| decision.level_but(input));
        let answers = level.play(tried.stage, Way::Parts)?;
        let other = level.changed(change).play(tried.stage, Way::Parts)?;
        if unlike(&answers, &other) == 0 {
            unread.push(name.to_owned());
        }
        Ok(())
    };
    // Of a policy that chooses nobody nothing can be told.
    if tried.answers.iter().any(|answer| answer.chosen.is_ok()) {
        for input in declared.into_iter().filter(|input| input.is_column()) {
            look(input.name(), &|decision| decision.shift(input))?;
        }
        if hashes > 0 {
            look("prefix hashes", &Decision::begin_otherwise)?;
        }
    }
    if unread.is_empty() {
        found.good("inputs", names);
    } else {
        found.note(
            "inputs",
            format!(
                "{names}; no answer was another one when {} changed: if nobody reads it, don't declare it, for it is computed for every decision",
                unread.join(" or ")
            ),
        );
    }
    Ok(())
}

/// The same policy with other parameters.
pub(super) fn with_parameters(
    stage: &Stage,
    parameters: serde_json::Map<String, serde_json::Value>,
) -> Stage {
    let mut other = stage.clone();
    other.environment.parameters = Arc::new(parameters);
    other
}
