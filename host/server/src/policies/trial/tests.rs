//! What a trial refuses, what it warns of, and what it lets pass.

use pointsman_core::policy::normalisation::Normalisation;
use pointsman_core::policy::row_mask::RowMask;
use pointsman_core::policy::selection::{Recipe, StageUse, TypeUse};
use pointsman_core::policy::{Cause, Digest, Limits, OnFailure, SelectionSpec, StageError};
use pointsman_core::testing::{MadePolicy, filter, native};

use super::*;

type Keep = fn(u64, &mut RowMask) -> Result<(), StageError>;

/// Tries an instance whose one filter is this of a component; it is told how many decisions came
/// before.
fn tried(on_failure: OnFailure, keep: Keep) -> Trial {
    let made = MadePolicy::new("made", move |_| {
        let mut decisions = 0;
        let keep = move |verdicts: &mut RowMask| {
            decisions += 1;
            keep(decisions - 1, verdicts)
        };
        let mut keep = keep;
        Ok(Box::new(native().filter("f", filter(&[], move |_, _, verdicts| keep(verdicts)))))
    });
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(made.with_digest(Digest("1".into())))).expect("not taken");
    let source = TypeUse {
        policy_type: "made".into(),
        parameters: Arc::default(),
        limits: Limits::default(),
    };
    let filters = vec![StageUse {
        source,
        stage: None,
        normalisation: Normalisation::None,
        weight: 1.0,
        on_failure,
    }];
    let instance = InstanceSpec::new(
        "it",
        Recipe::Composed { filters, scorers: vec![], picker: None },
        on_failure,
    );
    let selection = SelectionSpec { instances: vec![instance], ..SelectionSpec::default() };
    try_all(&Policies { catalog, selection, ..Policies::default() }, &TypeSchemas::new(), &[])
}

fn reject_all(verdicts: &mut RowMask) {
    (0..verdicts.rows()).for_each(|row| verdicts.reject(row));
}

fn the_error(trial: &Trial) -> String {
    let [error] = trial.errors.as_slice() else { panic!("{trial:?}") };
    error.to_string()
}

fn the_warning(trial: &Trial) -> &str {
    assert!(trial.errors.is_empty(), "{trial:?}");
    let [warning] = trial.warnings.as_slice() else { panic!("{trial:?}") };
    &warning.reason
}

#[test]
fn what_decides_at_times_passes() {
    for on_failure in [OnFailure::Default, OnFailure::Reject, OnFailure::Skip] {
        let at_times = tried(on_failure, |nth, verdicts| {
            match nth % 3 {
                0 => return Err(StageError::refused("no")),
                1 => reject_all(verdicts),
                _ => {}
            }
            Ok(())
        });
        assert!(at_times.errors.is_empty() && at_times.warnings.is_empty(), "{at_times:?}");
    }
}

#[test]
fn what_never_decides_is_warned_of() {
    for on_failure in [OnFailure::Default, OnFailure::Reject] {
        let refuses = tried(on_failure, |_, _| Err(StageError::refused("no")));
        let told = the_warning(&refuses);
        // It serves no role, and is tried where there is no partition.
        assert!(told.starts_with("instance \"it\" for default: in all 6"), "{told}");
        assert!(told.contains("filter \"f\" refuses: no; look whether"), "{told}");
    }
    for on_failure in [OnFailure::Default, OnFailure::Skip] {
        let rejects = tried(on_failure, |_, verdicts| {
            reject_all(verdicts);
            Ok(())
        });
        let told = the_warning(&rejects);
        assert!(told.contains("its filters keep no worker; look whether"), "{told}");
    }
    let left_out = tried(OnFailure::Skip, |_, _| Err(StageError::refused("no")));
    let told = the_warning(&left_out);
    assert!(
        told.contains("filter \"f\" refuses in all 6 made-up decisions, and is left"),
        "{told}"
    );
}

#[test]
fn what_fails_once_is_refused_unless_it_may_be_left_out_and_then_if_it_always_fails() {
    let once: Keep = |nth, _| match nth {
        4 => Err(StageError::new(Cause::Trap, "unreachable")),
        _ => Ok(()),
    };
    let error = the_error(&tried(OnFailure::Default, once));
    assert!(error.contains("fails on synthetic rows") && error.contains("unreachable"), "{error}");
    let passes = tried(OnFailure::Skip, once);
    assert!(passes.errors.is_empty() && passes.warnings.is_empty(), "{passes:?}");
    let always: Keep = |_, _| Err(StageError::new(Cause::Trap, "unreachable"));
    let error = the_error(&tried(OnFailure::Skip, always));
    assert!(error.contains("trap: it is left out, as its owner wants, of all 6"), "{error}");
}
