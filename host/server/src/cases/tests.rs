//! What a file of cases may say, and that a case that isn't met is found.

use std::sync::Arc;

use pointsman_core::policy::{Catalog, Input};
use pointsman_core::testing::{MadeClassifier, MadePolicy, classifying, native, picker, scorer};

use super::*;

fn refusal(text: &str) -> String {
    CaseFile::from_yaml("cases.yaml", text).expect_err("it is refused").to_string()
}

#[test]
fn what_isnt_of_the_form_is_told_with_its_place() {
    let misspelled = "cases:\n  - name: a\n    fleet: [{ worker: 1, active-request: 2 }]\n    expect: { pick: 1 }\n";
    let words = refusal(misspelled);
    assert!(words.starts_with("cases.yaml:3:"), "{words}");
    assert!(words.contains("unknown field `active-request`"), "{words}");
    let words = refusal("cases:\n  - name: a\n    expect: { pick: one }\n");
    assert!(
        words.starts_with("cases.yaml:3:") && words.contains("\"id/rank\" in quotes"),
        "{words}"
    );
    let words = refusal("case: []\n");
    assert!(words.contains("unknown field `case`"), "{words}");
}

#[test]
fn numbers_that_no_router_would_give_are_told_with_their_place_and_what_may_stand_there() {
    let told = |row: &str| {
        let text = format!(
            "cases:\n  - name: a\n    fleet: [{{ worker: 1, {row} }}]\n    expect: {{ pick: 1 }}\n"
        );
        CaseFile::from_yaml("cases.yaml", &text).map(drop).map_err(|error| error.to_string())
    };
    let count = "expected a whole number from 0 to 2^53";
    for (row, found, wanted) in [
        ("active-requests: -3", "-3", count),
        ("active-requests: .nan", "NaN", count),
        ("cached-tokens: .inf", "inf", count),
        ("device-overlap-blocks: 1.5", "1.5", count),
        ("host-overlap-blocks: 18446744073709551615", "18446744073709551615", count),
        ("disk-overlap-blocks: many", "many", count),
        ("decode-cost-blocks: [1]", "sequence", count),
        ("effective-overlap-blocks: -0.5", "-0.5", "expected a finite number, 0 or more"),
        ("preferred-taint-multiplier: 0", "0", "expected a finite number above 0"),
    ] {
        let words = told(row).expect_err(row);
        assert!(words.starts_with("cases.yaml:3:") && words.contains(found), "{row}: {words}");
        assert!(words.contains(wanted), "{row}: {words}");
    }
    for row in ["active-requests: 3.0", "cached-tokens: null", "effective-overlap-blocks: 1.5"] {
        assert_eq!(told(row), Ok(()), "{row}");
    }
    let infinite = "cases: [{ name: a, expect: { costs: [.inf] } }]";
    assert!(refusal(infinite).contains("expect finite costs"), "{}", refusal(infinite));
    let cold = "cases: [{ name: a, request: { router_temperature: -1 }, expect: { pick: 1 } }]";
    assert!(refusal(cold).contains("0 or more"), "{}", refusal(cold));
}

#[test]
fn what_makes_no_sense_is_told_with_the_case() {
    for (text, wanted) in [
        ("cases: []", "it has no case"),
        ("cases: [{ name: a }]", "case \"a\": it expects nothing"),
        ("cases: [{ name: a, expect: {} }]", "case \"a\": an \"expect\" expects nothing"),
        ("cases: [{ name: a, refused: x, expect: { pick: 1 } }]", "leave out either"),
        ("cases: [{ name: a, expect: { pick: 1, error: x } }]", "leave them out"),
        ("cases: [{ name: a, refused: x }, { name: a, refused: y }]", "two cases are named \"a\""),
        ("admissions: [{ name: a }]", "case \"a\": nothing happens in it"),
        ("admissions: [{ name: a, steps: [{ at_ms: 3 }] }]", "step 1 has 0 events"),
        (
            "admissions: [{ name: a, steps: [{ tick: {}, completed: { request: x } }] }]",
            "step 1 has 2 events",
        ),
    ] {
        let words = refusal(text);
        assert!(words.contains(wanted), "{text}: {words}");
    }
    let missing = CaseFile::read(Path::new("nowhere/cases.yaml")).expect_err("there is none");
    assert!(missing.to_string().starts_with("nowhere/cases.yaml: "), "{missing}");
}

/// The first failure of a file's only case.
fn failure(subject: &Subject, text: &str) -> Option<String> {
    let file = CaseFile::from_yaml("cases.yaml", text).expect("it is of the form");
    let outcomes = file.run(subject);
    assert_eq!(outcomes.len(), 1);
    outcomes.into_iter().next().and_then(|outcome| outcome.failure)
}

/// A policy that costs workers their requests, and takes the lowest cost, the lowest worker of equals.
fn by_requests() -> Subject {
    let policy = MadePolicy::new("made", |_| {
        let cost = scorer(&[Input::ActiveRequests], |_, rows, costs| {
            costs.copy_from_slice(rows.column(Input::ActiveRequests).unwrap_or_default());
            Ok(())
        });
        let first = picker(&[], |_, _, costs| {
            let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
            Ok(costs.iter().position(|cost| *cost == lowest).unwrap_or(0))
        });
        Ok(Box::new(native().scorer("requests", cost).picker("first", first)))
    });
    Subject { policy: Some(Arc::new(policy)), classifier: None }
}

#[test]
fn a_case_that_isnt_met_says_what_came_instead() {
    let subject = by_requests();
    let fleet =
        "fleet: [{ worker: 1, active-requests: 2 }, { worker: 2, rank: 1, active-requests: 1 }]";
    for (expect, wanted) in [
        ("{ pick: \"2/1\", costs: [2, 1], kept: [1, \"2/1\"], picks: [\"2/1\"] }", None),
        ("{ pick: 1 }", Some("it picked 2/1, expected 1")),
        ("{ costs: [2, 2] }", Some("are [2.0, 1.0], expected [2.0, 2.0]")),
        ("{ kept: [1] }", Some("it kept [1, 2/1], expected [1]")),
        ("{ picks: [1, \"2/1\"] }", Some("over 64 seeds it picked [2/1], expected [1, 2/1]")),
        ("{ error: broken }", Some("it didn't fail, expected words with \"broken\"")),
    ] {
        let text = format!("cases: [{{ name: a, {fleet}, expect: {expect} }}]");
        let failure = failure(&subject, &text);
        match wanted {
            None => assert_eq!(failure, None, "{expect}"),
            Some(wanted) => assert!(
                failure.as_ref().is_some_and(|it| it.contains(wanted)),
                "{expect}: {failure:?}"
            ),
        }
    }
    let step = format!(
        "cases: [{{ name: a, {fleet}, steps: [{{ expect: {{ pick: \"2/1\" }} }}, {{ expect: {{ pick: 1 }} }}] }}]"
    );
    assert!(failure(&subject, &step).is_some_and(|it| it.starts_with("step 2: ")));
    let twice = "cases: [{ name: a, fleet: [{ worker: 1 }, { worker: 1 }], expect: { pick: 1 } }]";
    assert!(failure(&subject, twice).is_some_and(|it| it.contains("row 1 stands twice")));
    let setting = "cases: [{ name: a, router: { overlap: 1 }, expect: { pick: 1 } }]";
    assert!(failure(&subject, setting).is_some_and(|it| it.contains("router.overlap")));
    let admission = "admissions: [{ name: a, refused: x }]";
    assert!(failure(&subject, admission).is_some_and(|it| it.contains("no request classifier")));
}

#[test]
fn a_built_in_meets_cases_as_a_component_does() {
    let builtin = Catalog::builtin().get("two-tier").cloned();
    let subject = Subject { policy: builtin, classifier: None };
    let text = "cases: [{ name: a, parameters: { cache_threshold: 2 }, refused: cache_threshold }]";
    assert_eq!(failure(&subject, text), None);
    let text = "cases: [{ name: a, parameters: { cache_threshold: 1 }, refused: x }]";
    assert!(failure(&subject, text).is_some_and(|it| it.contains("it was configured")));
}

#[test]
fn admissions_are_compared_step_by_step() {
    use pointsman_core::classifier::{LifecycleEvent, Release, Verdict};
    let provider = MadeClassifier::new("made", || {
        let on_event = |event: &LifecycleEvent<'_>, _| {
            let admits = |id: &str| Release {
                request_id: id.into(),
                verdict: Verdict::Admit(Default::default()),
            };
            Ok(match event {
                LifecycleEvent::Tick => vec![admits("a")],
                _ => Vec::new(),
            })
        };
        classifying(1, |_| Ok(Verdict::Hold), on_event)
    });
    let subject = Subject { policy: None, classifier: Some(Arc::new(provider)) };
    let arrives = "{ arrives: { request: a, expect: hold } }";
    for (steps, wanted) in [
        (format!("{arrives}, {{ tick: {{ admits: [a] }} }}"), None),
        (format!("{arrives}, {{ tick: {{}} }}"), Some("admitted [\"a\"], expected []")),
        ("{ tick: { admits: [a] } }".to_owned(), Some("was released, and isn't held")),
        (arrives.replace("hold", "admit"), Some("expected Admit")),
        (
            format!("{arrives}, {{ arrives: {{ request: b, expect: hold }} }}"),
            Some("it holds 2, and declared 1"),
        ),
    ] {
        let failure = failure(&subject, &format!("admissions: [{{ name: a, steps: [{steps}] }}]"));
        match wanted {
            None => assert_eq!(failure, None, "{steps}"),
            Some(wanted) => assert!(
                failure.as_ref().is_some_and(|it| it.contains(wanted)),
                "{steps}: {failure:?}"
            ),
        }
    }
}

/// What a file of admissions says once it is blessed.
fn blessed(steps: &str) -> String {
    use pointsman_core::classifier::{LifecycleEvent, Release, Verdict};
    let provider = MadeClassifier::new("made", || {
        let classify = |request: &pointsman_core::classifier::ClassifyRequest<'_>| {
            Ok(match request.arrival.input_tokens {
                1 => Verdict::Reject("too short".to_owned()),
                2 => Verdict::Hold,
                _ => Verdict::Admit(Default::default()),
            })
        };
        let on_event = |event: &LifecycleEvent<'_>, _| {
            let verdict = Verdict::Admit(Default::default());
            let release = Release { request_id: "a".into(), verdict };
            Ok(if matches!(event, LifecycleEvent::Tick) { vec![release] } else { Vec::new() })
        };
        classifying(9, classify, on_event)
    });
    let subject = Subject { policy: None, classifier: Some(Arc::new(provider)) };
    let text = format!("admissions:\n  - name: a\n    steps:\n{steps}");
    let file = CaseFile::from_yaml("cases.yaml", &text).expect("it is of the form");
    let outcomes = file.run(&subject);
    let edits = outcomes.iter().flat_map(|case| &case.differences).flat_map(|it| &it.edits);
    let (blessed, left_out) = Golden::new(&text).with(edits);
    assert_eq!(left_out, 0, "{blessed}");
    let file = CaseFile::from_yaml("cases.yaml", &blessed).expect("it is of the form");
    assert!(file.run(&subject).iter().all(|case| case.failure.is_none()), "{blessed}");
    blessed.split_once("steps:\n").expect("it has steps").1.to_owned()
}

#[test]
fn admissions_are_blessed_key_by_key() {
    for (steps, wanted) in [
        (
            "      - arrives: { request: a, input_tokens: 2, expect: admit, to: 3 }   # waits\n      - tick: {}\n",
            "      - arrives: { request: a, input_tokens: 2, expect: hold }   # waits\n      - tick: { admits: [a] }\n",
        ),
        (
            "      - arrives: { request: b, input_tokens: 1, expect: reject, reason: too long }\n",
            "      - arrives: { request: b, input_tokens: 1, expect: reject, reason: \"too short\" }\n",
        ),
        (
            "      - arrives:\n          request: c\n          expect: reject   # no\n          reason: x\n      - completed: { request: c, admits: [c] }\n",
            "      - arrives:\n          request: c\n          expect: admit   # no\n      - completed: { request: c, admits: [] }\n",
        ),
    ] {
        assert_eq!(blessed(steps), wanted);
    }
}

#[test]
fn lines_are_found_also_where_a_key_is_missing() {
    let golden = Golden::new("cases:\n  - name: a\n    expect:\n      pick: 1\n");
    let path = [Key::Name("cases"), Key::At(0), Key::Name("expect"), Key::Name("pick")];
    assert_eq!(golden.line(&path), 4);
    assert_eq!(golden.line(&[Key::Name("cases"), Key::At(0), Key::Name("steps")]), 2);
    assert_eq!(Golden::new("[").line(&path), 1);
    let (text, left_out) = Golden::new("[").with(&[Edit::Remove(path.to_vec())]);
    assert_eq!((text.as_str(), left_out), ("[", 1));
}
