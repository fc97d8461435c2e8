//! A call for all stages, and what it is held to.

use super::*;

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
        let says = Says(declaration, Outcome { verdicts, costs, row, checked: None });
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

/// A random policy: each stage's inputs, and a number that its behaviour comes from.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    filters: Vec<(Vec<Input>, u64)>,
    scorers: Vec<(Vec<Input>, u64)>,
    picker: Option<(Vec<Input>, u64)>,
}

pub(super) fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let all = Input::ALL.to_vec();
    prop::sample::subsequence(all, 0..Input::ALL.len()).prop_shuffle()
}

pub(super) fn recipe() -> impl Strategy<Value = Recipe> {
    let stages = || prop::collection::vec((inputs(), any::<u64>()), 0..3);
    (stages(), stages(), prop::option::of((inputs(), any::<u64>())))
        .prop_map(|(filters, scorers, picker)| Recipe { filters, scorers, picker })
}

fn columns<'a>(rows: &crate::policy::Candidates<'a>, inputs: &[Input]) -> Vec<&'a [f64]> {
    let columns = inputs.iter().filter(|input| input.is_column());
    columns.map(|&input| rows.column(input).expect("declared")).collect()
}

pub(super) fn made(recipe: &Recipe) -> NativePolicy {
    made_of(recipe, native())
}

/// The same, which decides in one call by what the host has for that.
fn made_whole(recipe: &Recipe) -> NativePolicy {
    let properties = crate::policy::Properties { fused: true, ..Default::default() };
    made_of(recipe, NativePolicy::new(properties))
}

fn made_of(recipe: &Recipe, mut policy: NativePolicy) -> NativePolicy {
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
        let snapshot = std::sync::Arc::new(snapshot([ranked(1, 0, rows)]));
        let request = request(100);
        // Some rows are not eligible.
        let mut chance = Chance::new(values);
        let eligible: Vec<u32> = (0..rows).filter(|_| chance.unit() < 0.9).collect();
        let ask = |instance: Box<dyn PolicyInstance>, parts: bool| {
            let mut pipeline = Pipeline::new("mine".into(), false, Safeguards::default());
            pipeline.add_whole(Source::new(instance, "made".into(), None), OnFailure::Default);
            pipeline.seal();
            pipeline.load(&snapshot, &eligible, InputSet::default(), |input, column| {
                let mut chance = Chance::new(values ^ input as u64);
                column.iter_mut().for_each(|value| *value = chance.below(50) as f64 / 4.0);
            });
            pipeline.run(&view(&request, moment(seed)), parts)
        };
        let by_parts = ask(Box::new(Fused::new(made(&recipe))), true);
        prop_assert_eq!(&by_parts, &ask(Box::new(made(&recipe)), false));
        prop_assert_eq!(&by_parts, &ask(Box::new(made_whole(&recipe)), true));
        // In the plainest way, and as the host does it for native stages.
        for fused in [Box::new(Fused::new(made(&recipe))) as _, Box::new(made_whole(&recipe)) as _] {
            match (ask(fused, false), &by_parts) {
                (Ok(fused), Ok(parts)) => {
                    prop_assert_eq!((fused.row, fused.kept), (parts.row, parts.kept));
                    prop_assert_eq!(fused.cost.to_bits(), parts.cost.to_bits());
                }
                (Err(RunError::AllFiltered), Err(RunError::AllFiltered)) => {}
                (
                    Err(RunError::Failed { failure: fused, on_failure: by_fused }),
                    Err(RunError::Failed { failure: parts, on_failure: by_parts }),
                ) => {
                    prop_assert_eq!((fused.cause, &by_fused), (parts.cause, by_parts));
                }
                (fused, parts) => prop_assert!(false, "{:?} against {:?}", fused, parts),
            }
        }
    }
}

#[test]
fn what_one_native_stage_did_wrong_is_told_with_its_name() {
    let whole_of = |stages: &dyn Fn(NativePolicy) -> NativePolicy| {
        let properties = crate::policy::Properties { fused: true, ..Default::default() };
        whole(stages(NativePolicy::new(properties)), OnFailure::Default)
    };
    let keeps = |policy: NativePolicy| {
        let first = policy.filter("first", filter(&[], |_, _, _| Ok(())));
        first.filter("second", filter(&[], |_, _, _| Err(StageError::refused("no second"))))
    };
    let shortens = |policy: NativePolicy| {
        let short = filter(&[], |_, _, verdicts| {
            verdicts.keep_all(3);
            Ok(())
        });
        policy.filter("short", short)
    };
    let panics = |policy: NativePolicy| {
        policy
            .scorer("boom", scorer(&[], |_, _, _| panic!("not so")))
            .picker("last", picker(&[], |_, _, _| Ok(0)))
    };
    let points_away = |policy: NativePolicy| {
        let not_0 = filter(&[], |_, _, verdicts| {
            verdicts.reject(0);
            Ok(())
        });
        policy.filter("not-0", not_0).picker("away", picker(&[], |_, rows, _| Ok(rows.rows())))
    };
    type Stages = fn(NativePolicy) -> NativePolicy;
    let cases: [(Stages, Cause, &str); 4] = [
        (keeps, Cause::Refused, "second: no second"),
        (shortens, Cause::BadOutput, "short: verdicts on 3 rows instead of 4"),
        (panics, Cause::Trap, "boom: it panicked: \"not so\""),
        (points_away, Cause::BadOutput, "away: row 3 was picked out of 3"),
    ];
    for (stages, cause, detail) in cases {
        let (kind, stage, found, said) = failure(run(&mut whole_of(&stages), 4, false));
        assert_eq!((kind, &*stage, found, &*said), (StageKind::Fused, "decide", cause, detail));
    }
}
