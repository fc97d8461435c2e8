//! What is shown of cases that aren't met, and what `--bless` makes of their file.

use pointsman_core::policy::{Input, StageError};
use pointsman_core::testing::{MadePolicy, filter, native, picker, scorer};

use super::*;

/// Rejects rows with 9 requests, costs the others their requests, takes the lowest, and says no to 7.
fn by_requests() -> Subject {
    let policy = MadePolicy::new("made", |_| {
        let requests = |input| input;
        let busy = filter(&[Input::ActiveRequests], move |_, rows, verdicts| {
            let column = rows.column(requests(Input::ActiveRequests)).unwrap_or_default();
            for (row, value) in column.iter().enumerate() {
                if *value >= 9.0 {
                    verdicts.reject(row);
                }
            }
            Ok(())
        });
        let cost = scorer(&[Input::ActiveRequests], |_, rows, costs| {
            costs.copy_from_slice(rows.column(Input::ActiveRequests).unwrap_or_default());
            Ok(())
        });
        let first = picker(&[], |_, _, costs| {
            let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
            if lowest == 7.0 {
                return Err(StageError::refused("seven is \"bad\"".to_owned()));
            }
            Ok(costs.iter().position(|cost| *cost == lowest).unwrap_or(0))
        });
        Ok(Box::new(native().filter("busy", busy).scorer("requests", cost).picker("first", first)))
    });
    Subject { policy: Some(Arc::new(policy)), classifier: None }
}

/// What is told of a file of cases with this text, and the text afterwards.
fn told(text: &str, bless: bool) -> Result<(String, bool, String)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(CASES);
    std::fs::write(&file, text)?;
    let (words, good) = tested(&file, &by_requests(), bless)?;
    let prefix = format!("{}/", folder.path().display());
    Ok((words.replace(&prefix, ""), good, std::fs::read_to_string(&file)?))
}

const WRONG: &str = "\
# What it promises.
cases:
  - name: met
    fleet: [{ worker: 1 }]
    expect: { pick: 1 }
  - name: other values, in lists of both kinds   # kept
    fleet:
      - { worker: 1, active-requests: 2 }   # the busier one
      - { worker: 2, rank: 1, active-requests: 1 }
      - { worker: 3, active-requests: 9 }
    expect:
      pick: 1   # by requests
      costs: [ 1,   2 ]
      kept:
        - 1
        - 3   # no longer
  - name: several decisions
    fleet: [{ worker: 1 }, { worker: 2, active-requests: 1 }]
    steps:
      - expect: { picks: [1, 2] }
      - expect: { error: broken }   # it isn't
      - fleet: [{ worker: 4, active-requests: 9 }]
        expect: { pick: 4, costs: [9] }
      - fleet: [{ worker: 5, active-requests: 7 }]
        expect: { pick: 5 }
";

const BLESSED: &str = "\
# What it promises.
cases:
  - name: met
    fleet: [{ worker: 1 }]
    expect: { pick: 1 }
  - name: other values, in lists of both kinds   # kept
    fleet:
      - { worker: 1, active-requests: 2 }   # the busier one
      - { worker: 2, rank: 1, active-requests: 1 }
      - { worker: 3, active-requests: 9 }
    expect:
      pick: \"2/1\"   # by requests
      costs: [2, 1]
      kept:
        [1, \"2/1\"]   # no longer
  - name: several decisions
    fleet: [{ worker: 1 }, { worker: 2, active-requests: 1 }]
    steps:
      - expect: { picks: [1] }
      - expect: { pick: 1 }   # it isn't
      - fleet: [{ worker: 4, active-requests: 9 }]
        expect: { kept: [] }
      - fleet: [{ worker: 5, active-requests: 7 }]
        expect: { error: \"seven is \\\"bad\\\"\" }
";

#[test]
fn what_isnt_met_is_told_with_its_line_and_both_values() -> Result<()> {
    let (words, good, after) = told(WRONG, false)?;
    assert!(!good);
    assert_eq!(after, WRONG, "nothing is written");
    insta::assert_snapshot!(words);
    Ok(())
}

#[test]
fn blessing_writes_what_came_and_leaves_comments_and_layout() -> Result<()> {
    let (words, good, after) = told(WRONG, true)?;
    assert_eq!(after, BLESSED);
    assert!(good, "{words}");
    assert!(
        words.ends_with("3 cases, all met\ncases.yaml: 7 values are now what came\n"),
        "{words}"
    );
    // Once it is so, nothing is left to write.
    let (words, good, after) = told(BLESSED, true)?;
    assert!(good && after == BLESSED && words.ends_with("3 cases, all met\n"), "{words}");
    Ok(())
}

#[test]
fn what_no_value_is_about_is_mended_by_hand() -> Result<()> {
    let twice =
        "cases: [{ name: a, fleet: [{ worker: 1 }, { worker: 1 }], expect: { pick: 1 } }]\n";
    for bless in [false, true] {
        let (words, good, after) = told(twice, bless)?;
        assert!(!good && after == twice);
        assert!(words.contains("cases.yaml:1: row 1 stands twice in the fleet"), "{words}");
        assert!(words.ends_with("1 case, 1 not met; mend the policy, or the cases by hand\n"));
    }
    let refused = "cases:\n  - name: a\n    refused: no\n";
    let (words, good, after) = told(refused, true)?;
    assert!(!good && after == refused);
    assert!(words.contains("cases.yaml:3: it was configured, expected a refusal"), "{words}");
    Ok(())
}

#[test]
fn what_stands_behind_an_alias_is_not_written_over() -> Result<()> {
    let text = "cases:\n  - name: a\n    fleet: &f [{ worker: 1 }]\n    expect: &e { pick: 9 }\n  \
                - name: b\n    fleet: *f\n    expect: *e\n";
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(CASES);
    std::fs::write(&file, text)?;
    let refusal = tested(&file, &by_requests(), true).map(|_| ()).map_err(|e| e.to_string());
    assert!(refusal.is_err_and(|words| words.contains("behind an alias")));
    assert_eq!(std::fs::read_to_string(&file)?, text);
    Ok(())
}

#[test]
fn a_file_that_cant_be_read_is_told_with_its_name() {
    let told = |file: &str| tested(file.as_ref(), &by_requests(), false).map(|_| ());
    let words = told("/nowhere/cases.yaml").map_err(|error| error.to_string());
    assert!(words.is_err_and(|words| words.starts_with("/nowhere/cases.yaml: ")));
}
