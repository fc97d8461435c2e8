//! Promises of the pipeline: every answer is checked, and both ways to ask give the same one.

mod answers;
mod failures;
mod fused;
mod handover;
mod records;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::clock::{Chance, Moment};
use crate::ids::{DecisionId, Role};
use crate::policy::PolicyInstance;
use crate::policy::failure::{Cause, StageError, StageKind};
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
    let snapshot = Arc::new(snapshot([ranked(1, 0, rows.max(1))]));
    let eligible: Vec<u32> = (0..rows).collect();
    pipeline.load(&snapshot, &eligible, InputSet::default(), |_, column| {
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
fn a_picker_sees_the_rows_that_stayed_and_their_summed_costs() {
    let not_0 = || {
        filter(&[], |_, _, verdicts| {
            verdicts.reject(0);
            Ok(())
        })
    };
    let costs = |cost: f64| {
        scorer(&[], move |_, _, costs| {
            costs.fill(cost);
            Ok(())
        })
    };
    let last = |expected: f64| {
        picker(&[Input::ActiveRequests], move |_, rows, costs| {
            assert_eq!(rows.column(Input::ActiveRequests).expect("declared"), [1.0, 2.0]);
            assert_eq!(costs, [expected; 2]);
            Ok(1)
        })
    };
    let scored = native().filter("f", not_0()).scorer("a", costs(1.5)).scorer("b", costs(2.0));
    let unscored = native().filter("f", not_0()).picker("p", last(0.0));
    for (policy, cost) in [(scored.picker("p", last(3.5)), 3.5), (unscored, 0.0)] {
        let answer = run(&mut whole(policy, OnFailure::Default), 3, true);
        assert_eq!(answer, Ok(Selected { row: 2, cost, kept: 2 }));
    }
}

#[test]
fn no_rows_are_all_filtered_and_not_a_panic() {
    let mut pipeline = whole(native(), OnFailure::Default);
    for parts in [false, true] {
        assert_eq!(run(&mut pipeline, 0, parts), Err(RunError::AllFiltered));
    }
    // Rows of some other, larger fleet are no rows of this one.
    let small = Arc::new(snapshot([ranked(1, 0, 1)]));
    pipeline.load(&small, &[0, 7], InputSet::default(), |_, _| {});
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
