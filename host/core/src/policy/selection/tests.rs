//! Promises of how a policy is put together.

use std::sync::{Arc, Mutex};

use super::build::seed_of;
use super::*;
use crate::policy::{Catalog, Input, InputSet, Pipeline, PolicyEnvironment, StageError};
use crate::testing::{
    MadePolicy, filter, key, moment, native, picker, request, scorer, selection, worker,
};

fn catalog() -> (Catalog, Arc<Mutex<Vec<u64>>>) {
    let mut catalog = Catalog::builtin();
    let seeds: Arc<Mutex<Vec<u64>>> = Arc::default();
    let noted = seeds.clone();
    let make = move |environment: &PolicyEnvironment| {
        noted.lock().expect("not poisoned").push(environment.seed);
        let policy = native()
            .filter(
                "odd",
                filter(&[], |_, rows, v| {
                    (0..rows.rows()).step_by(2).for_each(|row| v.reject(row));
                    Ok(())
                }),
            )
            .filter("none", filter(&[], |_, _, _| Err(StageError::refused("not this one"))))
            .scorer(
                "one",
                scorer(&[Input::ActiveRequests], |_, _, c| {
                    c.fill(1.0);
                    Ok(())
                }),
            )
            .scorer(
                "ten",
                scorer(&[], |_, _, c| {
                    c.fill(10.0);
                    Ok(())
                }),
            )
            .picker("last", picker(&[], |_, rows, _| Ok(rows.rows() - 1)));
        Ok(Box::new(policy) as Box<dyn crate::policy::PolicyInstance>)
    };
    catalog.insert(Arc::new(MadePolicy::new("made", make))).expect("not taken");
    (catalog, seeds)
}

fn stage(policy_type: &str, stage: Option<&str>, weight: f64) -> StageUse {
    let source = TypeUse {
        policy_type: policy_type.into(),
        parameters: Arc::default(),
        limits: Limits::default(),
    };
    StageUse {
        source,
        stage: stage.map(str::to_owned),
        normalisation: Normalisation::None,
        weight,
        on_failure: OnFailure::Default,
    }
}

fn composed(
    filters: Vec<StageUse>,
    scorers: Vec<StageUse>,
    picker: Option<StageUse>,
) -> InstanceSpec {
    InstanceSpec::new("blended", Recipe::Composed { filters, scorers, picker }, OnFailure::Default)
}

fn build(spec: &InstanceSpec, catalog: &Catalog) -> Result<Pipeline, BuildError> {
    let partition = key(Role::Aggregated);
    let settings = Arc::default();
    spec.build(&BuildContext {
        catalog,
        partition: &partition,
        block_size: 16,
        settings: &settings,
        seed: 3,
        trial: false,
    })
}

#[test]
fn costs_of_unlike_scales_are_added_on_one() {
    let mut catalog = Catalog::builtin();
    let make = move |_: &PolicyEnvironment| {
        let by_row = |costs: [f64; 4]| {
            scorer(&[], move |_, rows, c| {
                c.iter_mut().zip(&costs[4 - rows.rows()..]).for_each(|(to, from)| *to = *from);
                Ok(())
            })
        };
        let first = filter(&[], |_, _, verdicts| {
            verdicts.reject(0);
            Ok(())
        });
        let policy = native()
            .filter("first", first)
            .scorer("tokens", by_row([0.0, 30_000.0, 10_000.0, 20_000.0]))
            .scorer("requests", by_row([0.0, 1.0, 3.0, 2.0]))
            .scorer("nan", by_row([0.0, 1.0, f64::NAN, 2.0]));
        Ok(Box::new(policy) as Box<dyn crate::policy::PolicyInstance>)
    };
    catalog.insert(Arc::new(MadePolicy::new("unlike", make))).expect("not taken");
    let run = |scorers: Vec<StageUse>| {
        let spec = composed(vec![stage("unlike", Some("first"), 1.0)], scorers, None);
        let mut pipeline = build(&spec, &catalog).expect("it is made");
        let snapshot = Arc::new(crate::testing::snapshot((0..4).map(worker)));
        pipeline.load(&snapshot, &[0, 1, 2, 3], InputSet::default(), |_, column| column.fill(0.0));
        let request = request(1);
        let id = crate::ids::DecisionId(1);
        let view = crate::policy::RequestView::new(&request, id, moment(1), 16, true, None);
        let answer = pipeline.run(&view, false).map(|selected| (selected.row, selected.cost));
        answer.map_err(|error| error.to_string())
    };
    let scaled = |name: &str, normalisation, weight| StageUse {
        normalisation,
        ..stage("unlike", Some(name), weight)
    };
    use Normalisation::{MinMax, Rank};
    let as_it_is = Normalisation::None;
    // As they are, tokens alone decide; on one scale the rows that filters left share 0, 0.5 and 1.
    let cases = [
        (as_it_is, 1.0, as_it_is, 1.0, (2, 10_003.0)),
        (MinMax, 1.0, MinMax, 2.5, (1, 1.0)),
        (MinMax, 1.0, MinMax, 0.5, (2, 0.5)),
        (MinMax, 1.0, as_it_is, 1.0, (1, 2.0)),
        (Rank, -1.0, MinMax, -1.0, (1, -1.0)),
    ];
    for (tokens, one, requests, other, expected) in cases {
        let both = vec![scaled("tokens", tokens, one), scaled("requests", requests, other)];
        assert_eq!(run(both), Ok(expected), "{tokens:?} and {requests:?}");
    }
    for normalisation in [as_it_is, MinMax, Rank] {
        let said = run(vec![scaled("nan", normalisation, 1.0)]).expect_err("it is no number");
        assert!(said.contains("the cost of row 1 (worker 2/0) is NaN"), "{said}");
    }
}

#[test]
fn stages_of_several_types_make_one_policy() {
    let (catalog, seeds) = catalog();
    let spec = composed(
        vec![stage("made", Some("odd"), 1.0)],
        vec![stage("made", None, 2.0), stage("made", Some("ten"), -0.5)],
        Some(stage("made", Some("last"), 1.0)),
    );
    let mut pipeline = build(&spec, &catalog).expect("it is made");
    let snapshot = Arc::new(crate::testing::snapshot((0..5).map(worker)));
    pipeline.load(&snapshot, &[0, 1, 2, 3, 4], InputSet::default(), |_, column| column.fill(0.0));
    let request = request(1);
    let view = crate::policy::RequestView::new(
        &request,
        crate::ids::DecisionId(1),
        moment(1),
        16,
        true,
        None,
    );
    let selected = pipeline.run(&view, false).expect("it decides");
    // Rows 1 and 3 are kept; (1 + 10) * 2 + 10 * -0.5.
    assert_eq!((selected.row, selected.cost, selected.kept), (3, 17.0, 2));
    // Each use is an instance of its own, with a seed of its own.
    let seeds = seeds.lock().expect("not poisoned").clone();
    assert_eq!(seeds.len(), 4);
    assert_eq!(seeds.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
}

#[test]
fn what_isnt_there_is_named_beside_what_is() {
    let (catalog, _) = catalog();
    let cases = [
        (
            composed(vec![stage("mad", None, 1.0)], vec![], None),
            "instance \"blended\": unknown policy type \"mad\"; known: default, device-aware, direct, dynamo-default-cost-fn, dynamo-two-tier-cost-fn, least-loaded, made, power-of-two, random, round-robin, two-tier",
        ),
        (
            composed(vec![stage("made", Some("even"), 1.0)], vec![], None),
            "instance \"blended\": type \"made\" has no filter \"even\"; it has: odd, none",
        ),
        (
            composed(vec![], vec![stage("round-robin", None, 1.0)], None),
            "instance \"blended\": type \"round-robin\" has no scorer ; it has: none",
        ),
        (
            composed(vec![], vec![], Some(stage("made", Some("first"), 1.0))),
            "instance \"blended\": type \"made\" has no picker \"first\"; it has: last",
        ),
    ];
    for (spec, expected) in cases {
        let error = build(&spec, &catalog).expect_err("it is refused").to_string();
        assert_eq!(error, expected.replace("scorer ;", "scorer;"));
    }
    let mut unknown = selection("made", OnFailure::Default);
    unknown.roles.insert(Role::Decode, "absent".into());
    let partition = key(Role::Decode);
    let settings = Arc::default();
    let cx = BuildContext {
        catalog: &catalog,
        partition: &partition,
        block_size: 16,
        settings: &settings,
        seed: 3,
        trial: false,
    };
    let error = unknown.build(&cx).expect_err("it is refused").to_string();
    assert_eq!(error, "role decode: no instance is named \"absent\"; known: mine, default");
    // A role that is left out has the default.
    let partition = key(Role::Prefill);
    let pipeline =
        unknown.build(&BuildContext { partition: &partition, ..cx }).expect("it is made");
    assert_eq!(&**pipeline.name(), "default");
}

#[test]
fn a_seed_is_the_same_in_every_life_and_differs_by_place() {
    let (catalog, _) = catalog();
    let settings = Arc::default();
    let seed = |group: &str, instance: &str, place, seed| {
        let partition = crate::testing::group(group);
        let cx = BuildContext {
            catalog: &catalog,
            partition: &partition,
            block_size: 16,
            settings: &settings,
            seed,
            trial: false,
        };
        seed_of(&cx, instance, place)
    };
    assert_eq!(seed("a", "x", 0, 1), seed("a", "x", 0, 1));
    let all = [
        seed("a", "x", 0, 1),
        seed("b", "x", 0, 1),
        seed("a", "y", 0, 1),
        seed("a", "x", 1, 1),
        seed("a", "x", 0, 2),
        seed("ax", "", 0, 1),
    ];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
}
