//! Stages that fail: what they leave behind, and who is asked then.

use super::*;

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
