//! What an answer has to be, and who is named when it isn't.

use super::*;

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
