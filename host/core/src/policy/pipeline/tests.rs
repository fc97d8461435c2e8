//! Promises of the pipeline: every answer is checked, and both ways to ask give the same one.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::clock::{Chance, Moment};
use crate::ids::{DecisionId, Role};
use crate::policy::PolicyInstance;
use crate::policy::failure::{Cause, StageError};
use crate::policy::native::NativePolicy;
use crate::policy::selection::BuildContext;
use crate::request::RouteRequest;
use crate::testing::{
    Fused, filter, key, moment, native, picker, policies, ranked, request, scorer, snapshot,
};

fn whole(instance: impl PolicyInstance + 'static, on_failure: OnFailure) -> Pipeline {
    let mut pipeline = Pipeline::new("mine".into(), false, Safeguards::default());
    pipeline.add_whole(Source::new(Box::new(instance), "made".into(), None), on_failure);
    pipeline.seal();
    pipeline
}

fn view(request: &RouteRequest, moment: Moment) -> RequestView<'_> {
    RequestView::new(request, DecisionId(1), moment, 16, true, None)
}

/// Runs over `rows` rows whose every column is 0, 1, 2, …
fn run(pipeline: &mut Pipeline, rows: u32, parts: bool) -> Result<Selected, RunError> {
    let snapshot = snapshot([ranked(1, 0, rows.max(1))]);
    let eligible: Vec<u32> = (0..rows).collect();
    pipeline.load(&snapshot, &eligible, |_, column| {
        column.iter_mut().enumerate().for_each(|(row, value)| *value = row as f64);
    });
    pipeline.run(&view(&request(100), moment(3)), parts)
}

fn failure(answer: Result<Selected, RunError>) -> (StageKind, String, Cause, String) {
    match answer {
        Err(RunError::Failed { failure, .. }) => {
            (failure.kind, failure.stage, failure.cause, failure.detail)
        }
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[test]
fn a_row_stays_when_all_filters_keep_it_and_costs_are_added() {
    let policy = native()
        .filter(
            "not-0",
            filter(&[], |_, _, verdicts| {
                verdicts.reject(0);
                Ok(())
            }),
        )
        .filter(
            "not-3",
            filter(&[], |_, rows, verdicts| {
                assert_eq!(rows.rows(), 4, "a filter sees all rows, whatever the others said");
                verdicts.reject(3);
                Ok(())
            }),
        )
        .scorer(
            "down",
            scorer(&[Input::ActiveRequests], |_, rows, costs| {
                let column = rows.column(Input::ActiveRequests).expect("declared");
                assert_eq!(column, [1.0, 2.0], "a scorer sees the rows that are left");
                costs.iter_mut().zip(column).for_each(|(cost, n)| *cost = 10.0 - n);
                Ok(())
            }),
        )
        .scorer(
            "five",
            scorer(&[], |_, _, costs| {
                costs.fill(5.0);
                Ok(())
            }),
        );
    let mut pipeline = whole(policy, OnFailure::Default);
    assert_eq!(run(&mut pipeline, 4, true), Ok(Selected { row: 2, cost: 13.0, kept: 2 }));
    let rows: Vec<_> = pipeline.rows().collect();
    assert_eq!(rows, [(0, None), (1, Some(14.0)), (2, Some(13.0)), (3, None)]);
    let trace: Vec<&str> = pipeline.trace().iter().map(|stage| &*stage.name).collect();
    assert_eq!(trace, ["not-0", "not-3", "down", "five"]);
}

#[test]
fn no_rows_are_all_filtered_and_not_a_panic() {
    let mut pipeline = whole(native(), OnFailure::Default);
    for parts in [false, true] {
        assert_eq!(run(&mut pipeline, 0, parts), Err(RunError::AllFiltered));
    }
    // Rows of some other, larger fleet are no rows of this one.
    let small = snapshot([ranked(1, 0, 1)]);
    pipeline.load(&small, &[0, 7], |_, _| {});
    let answer = pipeline.run(&view(&request(1), moment(1)), true);
    assert_eq!(answer, Err(RunError::AllFiltered));
    assert_eq!(pipeline.rows().count(), 0);
}

#[test]
fn a_policy_without_stages_breaks_the_tie_by_the_seed() {
    let mut pipeline = whole(native(), OnFailure::Default);
    let first = run(&mut pipeline, 8, true);
    assert_eq!(run(&mut pipeline, 8, false), first);
    assert_eq!(first.map(|selected| (selected.cost, selected.kept)), Ok((0.0, 8)));
}

#[test]
fn a_bad_answer_is_named_with_its_stage_and_row() {
    type Case = (&'static str, fn() -> NativePolicy, StageKind, &'static str);
    let cases: [Case; 8] = [
        (
            "nan",
            || {
                native().scorer(
                    "s",
                    scorer(&[], |_, _, c| {
                        c.fill(0.0);
                        c[2] = f64::NAN;
                        Ok(())
                    }),
                )
            },
            StageKind::Scorer,
            "the cost of row 2 (worker 1/2) is NaN, not a finite number",
        ),
        (
            "+inf",
            || {
                native().scorer(
                    "s",
                    scorer(&[], |_, _, c| {
                        c.fill(f64::INFINITY);
                        Ok(())
                    }),
                )
            },
            StageKind::Scorer,
            "the cost of row 0 (worker 1/0) is inf, not a finite number",
        ),
        (
            "-inf",
            || {
                native().scorer(
                    "s",
                    scorer(&[], |_, _, c| {
                        c.fill(f64::NEG_INFINITY);
                        Ok(())
                    }),
                )
            },
            StageKind::Scorer,
            "the cost of row 0 (worker 1/0) is -inf, not a finite number",
        ),
        (
            "unwritten",
            || {
                native().scorer(
                    "s",
                    scorer(&[], |_, _, c| {
                        c[0] = 1.0;
                        Ok(())
                    }),
                )
            },
            StageKind::Scorer,
            "the cost of row 1 (worker 1/1) is NaN, not a finite number",
        ),
        (
            "sum",
            || {
                native()
                    .scorer(
                        "r",
                        scorer(&[], |_, _, c| {
                            c.fill(f64::MAX);
                            Ok(())
                        }),
                    )
                    .scorer(
                        "s",
                        scorer(&[], |_, _, c| {
                            c.fill(f64::MAX);
                            Ok(())
                        }),
                    )
            },
            StageKind::Scorer,
            "the cost of row 0 (worker 1/0) is inf, not a finite number",
        ),
        (
            "row",
            || native().picker("s", picker(&[], |_, rows, _| Ok(rows.rows()))),
            StageKind::Picker,
            "row 4 was picked out of 4",
        ),
        (
            "short",
            || {
                native().filter(
                    "s",
                    filter(&[], |_, _, v| {
                        v.keep_all(3);
                        Ok(())
                    }),
                )
            },
            StageKind::Filter,
            "verdicts on 3 rows instead of 4",
        ),
        (
            "long",
            || {
                native().filter(
                    "s",
                    filter(&[], |_, _, v| {
                        v.keep_all(400);
                        Ok(())
                    }),
                )
            },
            StageKind::Filter,
            "verdicts on 400 rows instead of 4",
        ),
    ];
    for (name, policy, kind, detail) in cases {
        let mut pipeline = whole(policy(), OnFailure::Default);
        let expected = (kind, "s".to_owned(), Cause::BadOutput, detail.to_owned());
        assert_eq!(failure(run(&mut pipeline, 4, true)), expected, "{name}");
        assert_eq!(pipeline.trace().last().and_then(|s| s.failed), Some(Cause::BadOutput));
        // Asked in one call, it is refused for the same cause; row and worker are the same.
        if kind != StageKind::Filter {
            let mut pipeline = whole(Fused::new(policy()), OnFailure::Default);
            let (kind, _, cause, said) = failure(run(&mut pipeline, 4, false));
            assert_eq!((kind, cause), (StageKind::Fused, Cause::BadOutput), "{name}");
            assert!(name == "row" || said == detail, "{name}: {said}");
        }
    }
}

/// Answers a fused call with what it was given.
#[derive(Debug)]
struct Says(crate::policy::Declaration, Outcome);

impl PolicyInstance for Says {
    fn declaration(&self) -> &crate::policy::Declaration {
        &self.0
    }
    fn keep(
        &mut self,
        _: usize,
        _: &RequestView<'_>,
        _: &crate::policy::Candidates<'_>,
        _: &mut RowMask,
    ) -> Result<(), StageError> {
        Ok(())
    }
    fn score(
        &mut self,
        _: usize,
        _: &RequestView<'_>,
        _: &crate::policy::Candidates<'_>,
        _: &mut [f64],
    ) -> Result<(), StageError> {
        Ok(())
    }
    fn pick(
        &mut self,
        _: &RequestView<'_>,
        _: &crate::policy::Candidates<'_>,
        _: &[f64],
    ) -> Result<usize, StageError> {
        Ok(0)
    }
    fn decide(
        &mut self,
        _: &RequestView<'_>,
        _: &crate::policy::Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        outcome.clone_from(&self.1);
        Ok(())
    }
}

#[test]
fn a_fused_answer_is_held_to_what_the_parts_would_give() {
    let mask = |rows: usize, rejected: &[usize]| {
        let mut mask = RowMask::default();
        mask.keep_all(rows);
        rejected.iter().for_each(|&row| mask.reject(row));
        mask
    };
    let ok = |row, cost, kept| Ok(Selected { row, cost, kept });
    let bad = |detail: &str| Err(detail.to_owned());
    // (filters, scorers, verdicts, costs, row, what becomes of it) over four rows.
    let cases = [
        (true, true, mask(4, &[1]), vec![1.0, 2.0, 3.0], 3, ok(3, 3.0, 3)),
        (true, true, mask(4, &[1]), vec![-0.0, 2.0, 3.0], 0, ok(0, 0.0, 3)),
        (true, true, mask(4, &[1]), vec![1.0, 2.0, 3.0], 1, bad("row 1 was picked, but not kept")),
        (true, true, mask(4, &[1]), vec![1.0; 4], 0, bad("4 costs for 3 kept rows")),
        (true, true, mask(3, &[]), vec![1.0; 3], 0, bad("verdicts on 3 rows instead of 4")),
        (true, false, mask(4, &[0]), vec![], 2, ok(2, 0.0, 3)),
        (true, false, mask(4, &[0]), vec![1.0; 3], 2, bad("3 costs for 0 kept rows")),
        (false, true, RowMask::default(), vec![1.0; 4], 2, ok(2, 1.0, 4)),
        (false, true, mask(4, &[2]), vec![1.0; 4], 2, ok(2, 1.0, 4)),
        (false, true, RowMask::default(), vec![1.0; 4], 4, bad("row 4 was picked out of 4")),
        (
            true,
            true,
            mask(4, &[0, 1]),
            vec![1.0, f64::NAN],
            0,
            bad("the cost of row 1 (worker 1/3) is NaN, not a finite number"),
        ),
    ];
    for (filters, scorers, verdicts, costs, row, expected) in cases {
        let mut policy = native();
        if filters {
            policy = policy.filter("f", filter(&[], |_, _, _| Ok(())));
        }
        if scorers {
            policy = policy.scorer("s", scorer(&[], |_, _, _| Ok(())));
        }
        let mut declaration = policy.declaration().clone();
        declaration.properties.fused = true;
        let says = Says(declaration, Outcome { verdicts, costs, row });
        let answer = run(&mut whole(says, OnFailure::Default), 4, false);
        match expected {
            Ok(selected) => {
                assert_eq!(answer, Ok(selected));
                assert!(answer.is_ok_and(|s| s.cost.is_sign_positive()), "-0 is shown as 0");
            }
            Err(detail) => assert_eq!(failure(answer).3, detail),
        }
    }
    let policy = native().filter("f", filter(&[], |_, _, _| Ok(())));
    let mut declaration = policy.declaration().clone();
    declaration.properties.fused = true;
    let all_rejected = Outcome { verdicts: mask(4, &[0, 1, 2, 3]), ..Outcome::default() };
    let answer = run(&mut whole(Says(declaration, all_rejected), OnFailure::Default), 4, false);
    assert_eq!(answer, Err(RunError::AllFiltered));
}

#[test]
fn a_stage_that_is_left_out_leaves_verdicts_and_costs_as_they_were() {
    let fails = || StageError::refused("no");
    let policy = native()
        .filter(
            "keeps-1-and-2",
            filter(&[], |_, _, v| {
                v.reject(0);
                v.reject(3);
                Ok(())
            }),
        )
        .filter(
            "breaks",
            filter(&[], move |_, _, v| {
                v.reject(1);
                v.reject(2);
                Err(fails())
            }),
        )
        .filter(
            "misfits",
            filter(&[], |_, _, v| {
                v.keep_all(70);
                Ok(())
            }),
        )
        .scorer(
            "two",
            scorer(&[], |_, _, c| {
                c.copy_from_slice(&[2.0, 3.0]);
                Ok(())
            }),
        )
        .scorer(
            "breaks",
            scorer(&[], move |_, _, c| {
                c.fill(100.0);
                Err(fails())
            }),
        )
        .scorer(
            "nan",
            scorer(&[], |_, _, c| {
                c[0] = -50.0;
                Ok(())
            }),
        );
    let mut pipeline = whole(policy, OnFailure::Skip);
    // A stage can only be left out if it is called by itself, so the fused call isn't used.
    for parts in [false, true] {
        assert_eq!(run(&mut pipeline, 4, parts), Ok(Selected { row: 1, cost: 2.0, kept: 2 }));
    }
    let failed: Vec<_> = pipeline.trace().iter().filter_map(|s| s.failed).collect();
    assert_eq!(failed, [Cause::Refused, Cause::BadOutput, Cause::Refused, Cause::BadOutput]);
    // The first scorer left out: the next one's costs stand alone. All left out: 0.
    let policy = native().scorer("breaks", scorer(&[], move |_, _, _| Err(fails()))).scorer(
        "four",
        scorer(&[], |_, _, c| {
            c.fill(4.0);
            Ok(())
        }),
    );
    let cost = |answer: Result<Selected, RunError>| answer.map(|s| s.cost);
    assert_eq!(cost(run(&mut whole(policy, OnFailure::Skip), 2, true)), Ok(4.0));
    let policy = native().scorer("breaks", scorer(&[], move |_, _, _| Err(fails())));
    assert_eq!(cost(run(&mut whole(policy, OnFailure::Skip), 2, true)), Ok(0.0));
    // A picker can't be left out.
    let policy = native().picker("breaks", picker(&[], move |_, _, _| Err(fails())));
    let answer = run(&mut whole(policy, OnFailure::Skip), 2, true);
    assert_eq!(failure(answer).0, StageKind::Picker);
}

#[test]
fn after_a_failed_stage_no_other_is_asked() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let asked = asked.clone();
        move || asked.lock().expect("not poisoned").push(what)
    };
    let (one, two, three) = (note("filter"), note("scorer"), note("picker"));
    let policy = native()
        .filter(
            "f",
            filter(&[], move |_, _, _| {
                one();
                Ok(())
            }),
        )
        .scorer(
            "s",
            scorer(&[], move |_, _, _| {
                two();
                Err(StageError::refused("no"))
            }),
        )
        .picker(
            "p",
            picker(&[], move |_, _, _| {
                three();
                Ok(0)
            }),
        );
    assert!(run(&mut whole(policy, OnFailure::Default), 2, true).is_err());
    assert_eq!(*asked.lock().expect("not poisoned"), ["filter", "scorer"]);
    asked.lock().expect("not poisoned").clear();
    let (one, two) = (note("scorer"), note("picker"));
    let policy = native()
        .filter(
            "f",
            filter(&[], |_, rows, v| {
                (0..rows.rows()).for_each(|r| v.reject(r));
                Ok(())
            }),
        )
        .scorer(
            "s",
            scorer(&[], move |_, _, c| {
                one();
                c.fill(0.0);
                Ok(())
            }),
        )
        .picker(
            "p",
            picker(&[], move |_, _, _| {
                two();
                Ok(0)
            }),
        );
    assert_eq!(run(&mut whole(policy, OnFailure::Skip), 2, true), Err(RunError::AllFiltered));
    assert!(asked.lock().expect("not poisoned").is_empty());
}

#[test]
fn a_native_panic_is_a_trap() {
    let policy = native().scorer(
        "s",
        scorer(&[], |_, _, costs| {
            costs[costs.len()] = 0.0;
            Ok(())
        }),
    );
    let mut pipeline = whole(policy, OnFailure::Default);
    let (kind, _, cause, detail) = failure(run(&mut pipeline, 2, true));
    assert_eq!((kind, cause), (StageKind::Scorer, Cause::Trap));
    assert!(detail.starts_with("it panicked: \"index out of bounds"), "{detail}");
}

#[test]
fn a_native_policy_that_panicked_is_made_anew_and_asked_nothing_before() {
    // Counts its decisions, and panics in the third.
    let counting = || {
        let mut seen = 0.0;
        let count = move |costs: &mut [f64]| {
            seen += 1.0;
            assert!(seen < 3.0, "enough");
            costs.fill(seen);
            Ok(())
        };
        let mut count = count;
        native().scorer("s", scorer(&[], move |_, _, costs| count(costs)))
    };
    let decide = |pipeline: &mut Pipeline| {
        pipeline.renew();
        match run(pipeline, 2, true) {
            Ok(selected) => Ok(selected.cost),
            failed => Err(failure(failed).2),
        }
    };
    let policies = policies(OnFailure::Default, counting);
    let mut pipeline = policies
        .selection
        .build(&BuildContext {
            catalog: &policies.catalog,
            partition: &key(Role::Aggregated),
            block_size: 16,
            settings: &policies.settings,
            seed: 1,
            trial: false,
        })
        .expect("it is made");
    let costs: Vec<_> = (0..5).map(|_| decide(&mut pipeline)).collect();
    assert_eq!(costs, [Ok(1.0), Ok(2.0), Err(Cause::Trap), Ok(1.0), Ok(2.0)]);

    // One whose origin isn't known is left alone for good.
    let mut pipeline = whole(counting(), OnFailure::Default);
    let costs: Vec<_> = (0..4).map(|_| decide(&mut pipeline)).collect();
    assert_eq!(costs, [Ok(1.0), Ok(2.0), Err(Cause::Trap), Err(Cause::Unavailable)]);
}

#[test]
fn instances_hear_of_a_fleet_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    #[derive(Debug)]
    struct Follows(Arc<Mutex<Vec<u64>>>);
    impl crate::policy::native::WorkerPicker for Follows {
        fn inputs(&self) -> &[Input] {
            &[]
        }
        fn pick(
            &mut self,
            _: &RequestView<'_>,
            _: &crate::policy::Candidates<'_>,
            _: &[f64],
        ) -> Result<usize, StageError> {
            Ok(0)
        }
        fn fleet_changed(&mut self, fleet: &Snapshot) {
            self.0.lock().expect("not poisoned").push(fleet.generation);
        }
    }
    let properties = crate::policy::Properties { follows_fleet: true, ..Default::default() };
    let policy = NativePolicy::new(properties).picker("p", Follows(heard.clone()));
    let mut pipeline = whole(policy, OnFailure::Default);
    let mut fleet = crate::testing::fleet([]);
    for (generation, worker) in [(0, 1), (1, 2)] {
        fleet.upsert(crate::testing::worker(worker)).expect("it is taken");
        let snapshot = fleet.snapshot(&crate::testing::key(crate::ids::Role::Aggregated));
        pipeline.tell_fleet(&snapshot);
        pipeline.tell_fleet(&snapshot);
        assert_eq!(heard.lock().expect("not poisoned").len(), generation + 1);
    }
}

/// A random policy: each stage's inputs, and a number that its behaviour comes from.
#[derive(Clone, Debug)]
struct Recipe {
    filters: Vec<(Vec<Input>, u64)>,
    scorers: Vec<(Vec<Input>, u64)>,
    picker: Option<(Vec<Input>, u64)>,
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let all = Input::ALL.to_vec();
    prop::sample::subsequence(all, 0..Input::ALL.len()).prop_shuffle()
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let stages = || prop::collection::vec((inputs(), any::<u64>()), 0..3);
    (stages(), stages(), prop::option::of((inputs(), any::<u64>())))
        .prop_map(|(filters, scorers, picker)| Recipe { filters, scorers, picker })
}

fn columns<'a>(rows: &crate::policy::Candidates<'a>, inputs: &[Input]) -> Vec<&'a [f64]> {
    let columns = inputs.iter().filter(|input| input.is_column());
    columns.map(|&input| rows.column(input).expect("declared")).collect()
}

fn made(recipe: &Recipe) -> NativePolicy {
    let mut policy = native();
    for (inputs, salt) in recipe.filters.iter().cloned() {
        policy = policy.filter(
            "f",
            filter(&inputs.clone(), move |request, rows, verdicts| {
                let mut chance = Chance::new(salt ^ request.moment.seed);
                let columns = columns(rows, &inputs);
                for row in 0..rows.rows() {
                    let sum: f64 = columns.iter().map(|column| column[row]).sum();
                    if chance.unit() < 0.2 || (sum as i64 + salt as i64) % 3 == 0 {
                        verdicts.reject(row);
                    }
                }
                if salt % 23 == 0 { Err(StageError::refused("no")) } else { Ok(()) }
            }),
        );
    }
    for (inputs, salt) in recipe.scorers.iter().cloned() {
        policy = policy.scorer(
            "s",
            scorer(&inputs.clone(), move |_, rows, costs| {
                for (at, column) in columns(rows, &inputs).into_iter().enumerate() {
                    for (cost, value) in costs.iter_mut().zip(column) {
                        let weight = (salt % 7) as f64 / 3.0 - 1.0 + at as f64;
                        *cost = if at == 0 { value * weight } else { *cost + value * weight };
                    }
                }
                if !inputs.iter().any(|input| input.is_column()) {
                    costs.fill(-0.0);
                }
                if salt % 19 == 0 {
                    costs[salt as usize % rows.rows()] =
                        [f64::NAN, f64::INFINITY][salt as usize % 2];
                }
                Ok(())
            }),
        );
    }
    if let Some((inputs, salt)) = recipe.picker.clone() {
        policy = policy.picker(
            "p",
            picker(&inputs.clone(), move |request, rows, costs| {
                let columns = columns(rows, &inputs);
                let mut chance = Chance::new(salt ^ request.moment.seed);
                // Even the sign of zero counts here.
                let of = |row: usize| {
                    let sum = columns.iter().map(|column| column[row]).sum::<f64>() + costs[row];
                    sum.to_bits() ^ costs[row].to_bits()
                };
                if salt % 17 == 0 {
                    return Ok(rows.rows());
                }
                let from = chance.below(rows.rows());
                Ok((from..rows.rows()).min_by_key(|&row| of(row)).unwrap_or(0))
            }),
        );
    }
    policy
}

proptest! {
    #[test]
    fn one_call_and_the_parts_give_the_same_answer(
        recipe in recipe(),
        rows in prop_oneof![1..6_u32, 60..70_u32, 125..135_u32],
        values in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let snapshot = snapshot([ranked(1, 0, rows)]);
        let request = request(100);
        // Some rows are not eligible.
        let mut chance = Chance::new(values);
        let eligible: Vec<u32> = (0..rows).filter(|_| chance.unit() < 0.9).collect();
        let ask = |instance: Box<dyn PolicyInstance>, parts: bool| {
            let mut pipeline = Pipeline::new("mine".into(), false, Safeguards::default());
            pipeline.add_whole(Source::new(instance, "made".into(), None), OnFailure::Default);
            pipeline.seal();
            pipeline.load(&snapshot, &eligible, |input, column| {
                let mut chance = Chance::new(values ^ input as u64);
                column.iter_mut().for_each(|value| *value = chance.below(50) as f64 / 4.0);
            });
            pipeline.run(&view(&request, moment(seed)), parts)
        };
        let fused = ask(Box::new(Fused::new(made(&recipe))), false);
        let by_parts = ask(Box::new(Fused::new(made(&recipe))), true);
        let plain = ask(Box::new(made(&recipe)), false);
        prop_assert_eq!(&by_parts, &plain);
        match (fused, by_parts) {
            (Ok(fused), Ok(parts)) => {
                prop_assert_eq!((fused.row, fused.kept), (parts.row, parts.kept));
                prop_assert_eq!(fused.cost.to_bits(), parts.cost.to_bits());
            }
            (Err(RunError::AllFiltered), Err(RunError::AllFiltered)) => {}
            (
                Err(RunError::Failed { failure: fused, on_failure: by_fused }),
                Err(RunError::Failed { failure: parts, on_failure: by_parts }),
            ) => {
                prop_assert_eq!((fused.cause, by_fused), (parts.cause, by_parts));
            }
            (fused, parts) => prop_assert!(false, "{:?} against {:?}", fused, parts),
        }
    }
}
