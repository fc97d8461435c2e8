//! Policies that fail, or leave no row: what is booked then, and who decides.

use super::*;

#[test]
fn a_failing_policy_books_nothing_and_its_owner_decides_what_follows() {
    type Case = (&'static str, fn() -> NativePolicy);
    let fails: [Case; 5] = [
        ("filter", || {
            native()
                .filter("f", filter(&[], |_, _, _| Err(StageError::refused("in its own words"))))
        }),
        ("scorer", || {
            native()
                .scorer("s", scorer(&[], |_, _, _| Err(StageError::refused("in its own words"))))
        }),
        ("picker", || {
            native()
                .picker("p", picker(&[], |_, _, _| Err(StageError::refused("in its own words"))))
        }),
        ("nan", || {
            native().scorer(
                "s",
                scorer(&[], |_, _, costs| {
                    costs.fill(f64::NAN);
                    Ok(())
                }),
            )
        }),
        ("row", || native().picker("p", picker(&[], |_, rows, _| Ok(rows.rows())))),
    ];
    for (what, policy) in fails {
        for on_failure in
            [OnFailure::Default, OnFailure::Reject, OnFailure::Skip, OnFailure::LastGood]
        {
            let router = router(policies(on_failure, policy), [worker(1), worker(2)]);
            let answer = route(&router, &request(100), 1);
            let counts = partition(&router).counts();
            let failures: u64 = counts.failures.iter().map(|(_, count)| count).sum();
            assert_eq!(failures, 1, "{what} {on_failure:?}");
            if on_failure == OnFailure::Reject {
                let error = answer.map(|d| d.receipt).expect_err("it is rejected");
                assert_eq!(error.kind(), "worker_selection_policy");
                let said = error.to_string();
                let own = ["own words", "NaN", "picked"].iter().any(|word| said.contains(word));
                assert!(!own, "a policy's words aren't the client's: {said}");
                assert_eq!((load(&router), counts.decisions), (vec![0, 0], 0));
                continue;
            }
            let decision = answer.expect("another policy decides");
            let skipped = on_failure == OnFailure::Skip && !matches!(what, "picker" | "row");
            assert_eq!(decision.receipt.fallback.is_none(), skipped, "{what} {on_failure:?}");
            let name = if skipped { "mine" } else { "default" };
            assert_eq!(&*decision.receipt.policy.name, name);
            assert_eq!(counts.fallbacks, u64::from(!skipped));
            assert_eq!(counts.decisions, 1);
            assert_eq!(load(&router).iter().sum::<u64>(), 1);
            drop(decision);
            assert_eq!(load(&router), [0, 0], "{what} {on_failure:?}");
        }
    }
}

#[test]
fn rejecting_every_row_is_not_a_failure() {
    let policy = || {
        native().filter(
            "f",
            filter(&[], |_, rows, verdicts| {
                (0..rows.rows()).for_each(|row| verdicts.reject(row));
                Ok(())
            }),
        )
    };
    for on_failure in [OnFailure::Default, OnFailure::Reject, OnFailure::Skip] {
        let router = router(policies(on_failure, policy), [worker(1), worker(2)]);
        let error =
            route(&router, &request(1), 1).map(|d| d.receipt).expect_err("all are filtered");
        let expected = RouteError::AllEligibleWorkersFiltered {
            partition: key(Role::Aggregated),
            policy: "mine".to_owned(),
            eligible: 2,
        };
        assert_eq!(error, expected);
        let counts = partition(&router).counts();
        assert_eq!((counts.all_filtered, counts.decisions), (1, 0));
        assert!(counts.failures.iter().all(|(_, count)| *count == 0));
        assert_eq!(load(&router), [0, 0]);
    }
}

#[test]
fn a_policy_that_traps_now_and_then_decides_the_rest() {
    let calls = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let policy = move || {
        let calls = calls.clone();
        native().scorer(
            "s",
            scorer(&[], move |_, _, costs| {
                costs.fill(0.0);
                match calls.fetch_add(1, Ordering::Relaxed) % 10 {
                    9 => Err(StageError::new(Cause::Fuel, "used up")),
                    _ => Ok(()),
                }
            }),
        )
    };
    let router = router(policies(OnFailure::Default, policy), [worker(1), worker(2)]);
    let receipts: Vec<Receipt> =
        (0..100).map(|n| route(&router, &request(1), n).expect("it is routed").receipt).collect();
    let by_default = receipts.iter().filter(|receipt| receipt.fallback.is_some()).count();
    assert_eq!(by_default, 10);
    let counts = partition(&router).counts();
    assert_eq!((counts.decisions, counts.fallbacks), (100, 10));
    assert!(counts.failures.contains(&(Cause::Fuel, 10)));
}

#[test]
fn the_last_good_version_stands_in_until_the_new_one_has_proven_itself() {
    let good = Arc::new(AtomicBool::new(false));
    let first = {
        let good = good.clone();
        move || breakable(&good)
    };
    let router = router(policies(OnFailure::LastGood, first), [worker(1), worker(2)]);
    let ask = || route(&router, &request(1), 1).expect("it is routed").receipt;
    // Two versions that never work: the first one is the last good one all along.
    for _ in 0..2 {
        install(
            &router,
            policies(OnFailure::LastGood, || breakable(&Arc::new(AtomicBool::new(true)))),
        );
        let receipt = ask();
        assert!(receipt.fallback.is_some());
        assert_eq!(&*receipt.policy.name, "mine");
    }
    // When that fails too, the built-in decides, and both failures are counted.
    good.store(true, Ordering::Relaxed);
    assert_eq!(&*ask().policy.name, "default");
    assert!(partition(&router).counts().failures.contains(&(Cause::Trap, 4)));
    good.store(false, Ordering::Relaxed);
    // One that works for long enough needs no other; then its own failure is the default's.
    let broken = Arc::new(AtomicBool::new(false));
    let next = {
        let broken = broken.clone();
        move || breakable(&broken)
    };
    install(&router, policies(OnFailure::LastGood, next));
    let by_last_good = |good: u32| {
        broken.store(false, Ordering::Relaxed);
        for _ in 0..good {
            assert!(ask().fallback.is_none());
        }
        broken.store(true, Ordering::Relaxed);
        let receipt = ask();
        assert!(receipt.fallback.is_some());
        &*receipt.policy.name == "mine"
    };
    assert!(by_last_good(PROVEN_AFTER - 1));
    assert!(by_last_good(PROVEN_AFTER - 1), "a failure begins the proof anew");
    assert!(!by_last_good(PROVEN_AFTER));
}
