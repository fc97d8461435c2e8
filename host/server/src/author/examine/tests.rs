//! What is found of policies that break a promise, and of those that only look as if they did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pointsman_core::classifier::{Admission, LifecycleEvent, Release, Verdict};
use pointsman_core::clock::Chance;
use pointsman_core::policy::native::NativePolicy;
use pointsman_core::policy::{
    Candidates, Declaration, Input, InstantiateError, Outcome, PolicyInstance, PolicyProvider,
    Properties, RequestView, RowMask, StageError,
};
use pointsman_core::testing::{
    MadeClassifier, MadePolicy, Stateful, classifying, environment, filter, native, picker, scorer,
};
use pointsman_wasm::Description;
use serde_json::{Map, Value, json};

use super::*;
use crate::author::Given;

/// Findings, the last of each check.
type Seen = BTreeMap<&'static str, (Mark, String)>;

fn seen(found: Findings) -> Seen {
    found.all.into_iter().map(|it| (it.check, (it.mark, it.what))).collect()
}

fn given(parameters: Value) -> Given {
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    Given { parameters: Arc::new(parameters), from: "the test's".to_owned() }
}

/// What is found of a policy that is made so, with this schema.
fn found_with(
    schema: &str,
    parameters: Value,
    make: impl Fn(&Map<String, Value>) -> Result<Box<dyn PolicyInstance>, InstantiateError>
    + Send
    + Sync
    + 'static,
) -> Seen {
    let provider: Arc<dyn PolicyProvider> =
        Arc::new(MadePolicy::new("made", move |environment| make(&environment.parameters)));
    let given = given(parameters);
    let mut environment = environment();
    environment.parameters = given.parameters.clone();
    let about = Description { parameters_schema: schema.to_owned(), ..Description::default() };
    let stage = Stage { provider, environment };
    let mut found = Findings::default();
    let about = Some(&about);
    let suspect = policy::Suspect { stage: &stage, about, given: &given, fuel: 5_000_000 };
    policy::examine(&suspect, &mut found);
    seen(found)
}

fn found(make: impl Fn() -> Box<dyn PolicyInstance> + Send + Sync + 'static) -> Seen {
    found_with("", json!({}), move |_| Ok(make()))
}

fn check<'s>(seen: &'s Seen, check: &str, mark: Mark) -> &'s str {
    let Some((found, what)) = seen.get(check) else { panic!("no {check} in {seen:#?}") };
    assert_eq!(*found, mark, "{what}");
    what
}

/// Whatever was looked for is good or worth a note.
fn is_good(seen: &Seen) {
    let wrong: Vec<_> = seen.values().filter(|(mark, _)| *mark == Mark::Wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn stateless() -> NativePolicy {
    NativePolicy::new(Properties { stateless: true, ..Properties::default() })
}

fn by_requests() -> Box<dyn PolicyInstance> {
    let cost = scorer(&[Input::ActiveRequests], |_, rows, costs| {
        costs.copy_from_slice(rows.column(Input::ActiveRequests).unwrap_or_default());
        Ok(())
    });
    Box::new(stateless().scorer("requests", cost))
}

#[test]
fn a_plain_scorer_is_good_in_all_ways() {
    let seen = found(by_requests);
    is_good(&seen);
    for name in ["decides", "repeats", "state", "chance", "order", "inputs", "one row", "fuel"] {
        check(&seen, name, Mark::Good);
    }
    assert!(check(&seen, "order", Mark::Good).contains("get the same worker"));
    assert_eq!(check(&seen, "inputs", Mark::Good), "active-requests");
    check(&seen, "schema", Mark::Note);
}

#[test]
fn one_that_remembers_is_wrong_only_if_it_declares_that_it_does_not() {
    let turns = |stateless: bool| {
        move || -> Box<dyn PolicyInstance> {
            let turn = AtomicU64::new(0);
            let next = picker(&[], move |_, rows, _| {
                Ok(turn.fetch_add(1, Ordering::Relaxed) as usize % rows.rows())
            });
            let parts = if stateless { self::stateless() } else { native() };
            Box::new(parts.picker("turns", next))
        }
    };
    let seen = found(turns(false));
    is_good(&seen);
    assert!(check(&seen, "state", Mark::Good).contains("it keeps some"));
    assert!(check(&seen, "order", Mark::Note).contains("by state and by chance"));
    let seen = found(turns(true));
    assert!(check(&seen, "state", Mark::Wrong).contains("take `stateless` out"));
}

#[test]
fn chance_is_lawful_and_what_nobody_gave_is_not() {
    let drawn = || -> Box<dyn PolicyInstance> {
        let any =
            picker(&[], |request, rows, _| Ok(Chance::new(request.moment.seed).below(rows.rows())));
        Box::new(native().picker("any", any))
    };
    let seen = found(drawn);
    is_good(&seen);
    assert!(check(&seen, "chance", Mark::Good).contains("other seeds give other answers"));
    // Chance of its own: instances that are asked the same say otherwise.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let own = || -> Box<dyn PolicyInstance> {
        let seed = MADE.fetch_add(1, Ordering::Relaxed);
        let any = picker(&[], move |request, rows, _| {
            Ok(Chance::new(seed ^ request.moment.now_ms).below(rows.rows()))
        });
        Box::new(native().picker("any", any))
    };
    assert!(check(&found(own), "repeats", Mark::Wrong).contains("decision's seed"));
}

#[test]
fn who_goes_by_a_rows_index_is_told_so() {
    let first = || -> Box<dyn PolicyInstance> {
        Box::new(stateless().picker("first", picker(&[], |_, _, _| Ok(0))))
    };
    assert!(check(&found(first), "order", Mark::Wrong).contains("goes by the row's index"));
    let by_place = || -> Box<dyn PolicyInstance> {
        let cost = scorer(&[], |_, _, costs| {
            costs.iter_mut().enumerate().for_each(|(row, cost)| *cost = row as f64);
            Ok(())
        });
        Box::new(stateless().scorer("place", cost))
    };
    assert!(check(&found(by_place), "order", Mark::Wrong).contains("judge a row by its columns"));
    let every_second = || -> Box<dyn PolicyInstance> {
        let keep = filter(&[], |_, rows, verdicts| {
            (0..rows.rows()).filter(|row| row % 2 == 1).for_each(|row| verdicts.reject(row));
            Ok(())
        });
        Box::new(stateless().filter("second", keep))
    };
    assert!(
        check(&found(every_second), "order", Mark::Wrong).contains("is rejected, and else kept")
    );
    // Equals may be told apart by their places.
    let equals = || -> Box<dyn PolicyInstance> {
        let cost = scorer(&[], |_, _, costs| {
            costs.fill(1.0);
            Ok(())
        });
        let first = picker(&[], |_, _, _| Ok(0));
        Box::new(stateless().scorer("same", cost).picker("first", first))
    };
    let seen = found(equals);
    is_good(&seen);
    assert!(check(&seen, "order", Mark::Note).contains("all at the same cost"));
}

#[test]
fn what_is_declared_and_never_read_is_named() {
    let idle = || -> Box<dyn PolicyInstance> {
        let inputs = [Input::ActiveRequests, Input::CachedTokens, Input::Identity];
        let cost = scorer(&inputs, |_, rows, costs| {
            costs.copy_from_slice(rows.column(Input::ActiveRequests).unwrap_or_default());
            Ok(())
        });
        Box::new(stateless().scorer("requests", cost))
    };
    let seen = found(idle);
    is_good(&seen);
    let what = check(&seen, "inputs", Mark::Note);
    assert!(what.contains("when cached-tokens changed"), "{what}");
}

#[test]
fn a_policy_that_fails_or_refuses_everything_is_told_with_its_words() {
    let broken = || -> Box<dyn PolicyInstance> {
        let cost = scorer(&[], |_, rows, costs| {
            costs.fill(if rows.rows() > 3 { f64::NAN } else { 0.0 });
            Ok(())
        });
        Box::new(native().scorer("nan", cost))
    };
    let seen = found(broken);
    assert!(
        check(&seen, "decides", Mark::Wrong).contains("over 24 rows")
            || check(&seen, "decides", Mark::Wrong).contains("over 70 rows")
    );
    let no = || -> Box<dyn PolicyInstance> {
        let no = picker(&[], |_, _, _| Err(StageError::refused("not today".to_owned())));
        Box::new(stateless().picker("no", no))
    };
    let seen = found(no);
    is_good(&seen);
    assert!(check(&seen, "decides", Mark::Note).contains("not today"));
    let nobody = || -> Box<dyn PolicyInstance> {
        let keep = filter(&[], |_, rows, verdicts| {
            (0..rows.rows()).for_each(|row| verdicts.reject(row));
            Ok(())
        });
        Box::new(stateless().filter("nobody", keep))
    };
    let seen = found(nobody);
    is_good(&seen);
    assert!(check(&seen, "decides", Mark::Note).contains("it rejected every row"));
}

/// Decides by its stages, and in one call for the row `fused` of those that it is given.
#[derive(Debug)]
struct TwoWays {
    parts: NativePolicy,
    declaration: Declaration,
    fused: usize,
}

impl PolicyInstance for TwoWays {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.parts.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.parts.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.parts.pick(request, rows, costs)
    }

    fn decide(
        &mut self,
        _: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        outcome.row = self.fused.min(rows.rows().saturating_sub(1));
        outcome.costs.clear();
        Ok(())
    }
}

#[test]
fn both_ways_to_ask_must_give_one_answer() {
    let two_ways = |fused: usize| {
        move || -> Box<dyn PolicyInstance> {
            let parts = stateless().picker("first", picker(&[], |_, _, _| Ok(0)));
            let mut declaration = parts.declaration().clone();
            declaration.properties.fused = true;
            Box::new(TwoWays { parts, declaration, fused })
        }
    };
    check(&found(two_ways(0)), "one call", Mark::Good);
    let seen = found(two_ways(1));
    assert!(check(&seen, "one call", Mark::Wrong).contains("chooses otherwise than its stages"));
}

#[test]
fn a_successor_goes_on_where_the_one_before_was_or_says_why_not() {
    let turns = |takes_state: bool| {
        move || -> Box<dyn PolicyInstance> {
            let state = Arc::new(AtomicU64::new(0));
            let turn = state.clone();
            let next = picker(&[], move |_, rows, _| {
                Ok(turn.fetch_add(1, Ordering::Relaxed) as usize % rows.rows())
            });
            Box::new(Stateful::new(native().picker("turns", next), state, takes_state))
        }
    };
    let seen = found(turns(true));
    is_good(&seen);
    check(&seen, "handover", Mark::Good);
    let seen = found(turns(false));
    assert!(check(&seen, "handover", Mark::Wrong).contains("a state of another kind"));
}

/// Weighs requests by `weight`, which is 2 where it is left out; refuses 0.
fn weighing(parameters: &Map<String, Value>) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
    let weight = parameters.get("weight").map_or(2.0, |weight| weight.as_f64().unwrap_or(2.0));
    if weight == 0.0 {
        let reason = "missing parameter \"weight\"".to_owned();
        return Err(InstantiateError::Refused { policy_type: "made".to_owned(), reason });
    }
    let cost = scorer(&[Input::ActiveRequests], move |_, rows, costs| {
        let column = rows.column(Input::ActiveRequests).unwrap_or_default();
        costs.iter_mut().zip(column).for_each(|(cost, requests)| *cost = weight * requests);
        Ok(())
    });
    Ok(Box::new(stateless().scorer("requests", cost)))
}

#[test]
fn a_schema_and_its_defaults_are_held_to_what_the_policy_does() {
    let of = |default: Value, kind: &str| {
        json!({ "properties": { "weight": { "type": kind, "default": default } } }).to_string()
    };
    let seen = found_with(&of(json!(2), "number"), json!({}), weighing);
    is_good(&seen);
    check(&seen, "schema", Mark::Good);
    assert!(check(&seen, "defaults", Mark::Good).contains("change nothing"));
    // A default that isn't the policy's.
    let seen = found_with(&of(json!(3), "number"), json!({}), weighing);
    let what = check(&seen, "defaults", Mark::Wrong);
    assert!(what.contains("\"weight\" defaults to 3") && what.contains("48 of 48"), "{what}");
    // One that the policy refuses, and one that the schema itself does.
    let seen = found_with(&of(json!(0), "number"), json!({}), weighing);
    assert!(check(&seen, "defaults", Mark::Wrong).contains("the policy refuses that"));
    let seen = found_with(&of(json!("2"), "number"), json!({}), weighing);
    assert!(check(&seen, "schema", Mark::Wrong).contains("it refuses its own default"));
    // Given parameters that it refuses, and no schema at all.
    let seen = found_with(&of(json!(2), "string"), json!({ "weight": 5 }), weighing);
    assert!(check(&seen, "schema", Mark::Wrong).contains("it refuses the test's"));
    let seen = found_with("{\"type\": 3}", json!({}), weighing);
    assert!(check(&seen, "schema", Mark::Wrong).starts_with("its schema is no JSON Schema"));
}

#[test]
fn a_policy_that_refuses_its_parameters_is_answered_with_how_to_give_them() {
    let seen = found_with("", json!({ "weight": 0 }), weighing);
    let what = check(&seen, "parameters", Mark::Wrong);
    assert!(what.contains("missing parameter \"weight\""), "{what}");
    assert!(what.contains("with --parameters, or in the cases' `parameters` (now: the test's)"));
    let undeclared = found_with("", json!({}), |_| {
        let reason = "scorer \"a\": unknown input \"load\"".to_owned();
        Err(InstantiateError::Declaration { policy_type: "made".to_owned(), reason })
    });
    assert!(check(&undeclared, "inputs", Mark::Wrong).contains("unknown input \"load\""));
}

#[test]
fn fuel_is_told_beside_its_limit() {
    let figures = |call| vec![FuelFigure::new("rows", 4_096, call, call, 5_000_000)];
    let told = |call| {
        let mut found = Findings::default();
        fuel::tell(figures(call), None, &mut found);
        seen(found)
    };
    let what = "4,096 rows: 250,000 (5 %); of 5,000,000 a call";
    assert_eq!(check(&told(250_000), "fuel", Mark::Good), what);
    assert!(check(&told(2_500_000), "fuel", Mark::Note).contains("little room"));
    assert!(check(&told(5_000_001), "fuel", Mark::Wrong).contains("such calls fail"));
}

/// What is found of a classifier.
fn classified(
    most_held: u32,
    classify: impl Fn(usize) -> Verdict + Clone + Send + Sync + 'static,
    release: impl Fn(&LifecycleEvent<'_>) -> Option<String> + Clone + Send + Sync + 'static,
) -> Seen {
    let provider = MadeClassifier::new("made", move || {
        let (classify, release, calls) = (classify.clone(), release.clone(), AtomicU64::new(0));
        classifying(
            most_held,
            move |_| Ok(classify(calls.fetch_add(1, Ordering::Relaxed) as usize)),
            move |event: &LifecycleEvent<'_>, _| {
                let verdict = Verdict::Admit(Admission::default());
                let id = release(event).map(|id| Release { request_id: id.into(), verdict });
                Ok(id.into_iter().collect())
            },
        )
    });
    let (told, given) = (environment(), given(json!({})));
    let mut found = Findings::default();
    let provider = Arc::new(provider);
    let suspect = classifier::Suspect { provider, told: &told, given: &given, fuel: 5_000_000 };
    classifier::examine(&suspect, &mut found);
    seen(found)
}

#[test]
fn a_classifier_is_held_to_what_it_declares() {
    let nobody = |_: &LifecycleEvent<'_>| None;
    let seen = classified(0, |_| Verdict::Admit(Admission::default()), nobody);
    is_good(&seen);
    assert!(check(&seen, "classifies", Mark::Good).contains("64 were admitted"));
    for name in ["repeats", "releases", "no worker", "one worker", "fuel"] {
        check(&seen, name, Mark::Good);
    }
    let seen = classified(3, |_| Verdict::Hold, nobody);
    assert!(check(&seen, "classifies", Mark::Wrong).contains("holds 4 requests and declared 3"));
    let seen = classified(
        100,
        |nth| if nth < 5 { Verdict::Hold } else { Verdict::Reject("no".into()) },
        nobody,
    );
    is_good(&seen);
    assert!(check(&seen, "releases", Mark::Note).starts_with("5 requests are still held"));
    // A larger crowd is too many for it; what a smaller one took is told all the same.
    let seen = classified(100, |_| Verdict::Hold, nobody);
    let what = check(&seen, "classifies", Mark::Wrong);
    assert!(
        what.starts_with("where 1,024 requests come before the first ends: it holds 101"),
        "{what}"
    );
    let what = check(&seen, "fuel", Mark::Good);
    assert!(what.starts_with("64 requests: ") && !what.contains("1,024"), "{what}");
    let strange = |event: &LifecycleEvent<'_>| {
        matches!(event, LifecycleEvent::Completed(..)).then(|| "request-0".to_owned())
    };
    let seen = classified(0, |_| Verdict::Admit(Admission::default()), strange);
    assert!(
        check(&seen, "classifies", Mark::Wrong)
            .contains("it released \"request-0\", which isn't held")
    );
    let unknown = Admission { policy_class: Some("gold".into()), ..Admission::default() };
    let seen = classified(0, move |_| Verdict::Admit(unknown.clone()), nobody);
    assert!(check(&seen, "classifies", Mark::Wrong).contains("unknown class \"gold\""));
    let seen = classified(0, |_| Verdict::Reject("never".into()), nobody);
    assert!(check(&seen, "classifies", Mark::Note).contains("\"never\""));
}

#[test]
fn numbers_are_grouped_by_thousands() {
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
        assert_eq!(grouped(number), text);
    }
}
