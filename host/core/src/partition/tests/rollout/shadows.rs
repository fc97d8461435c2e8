//! Promises of shadows.

use super::*;

#[test]
fn a_shadow_sees_what_was_decided_from_and_books_nothing() {
    let router = router(shadowed("least-loaded", "default"), (1..=5).map(worker));
    let decisions = busy(&router, 1);
    let before = load(&router);
    for decision in &decisions {
        show_around(decision);
    }
    assert_eq!(load(&router), before);
    let report = partition(&router).shadows().remove(0);
    assert_eq!((&*report.instance, report.decisions, report.failed), ("default", 40, 0));
    assert!(report.agreed > 0, "{report:?}");
    assert!(report.imbalance.is_some() && report.imbalance_of_decisions.is_some());

    // The same policy never differs: it sees the columns of the very moment.
    let router = self::router(shadowed("default", "default"), (1..=5).map(worker));
    for decision in busy(&router, 2) {
        assert_eq!(show_around(&decision), [Seen::Agreed]);
    }
}

#[test]
fn a_record_over_all_rows_has_the_fleets_own_list_and_one_over_some_has_those() {
    let router = router(shadowed("default", "least-loaded"), (1..=5).map(worker));
    let record = |request: &RouteRequest| {
        let decision = route(&router, request, 1).expect("it is routed");
        decision.sample.expect("it is to be shown")
    };
    let free = request(10);
    let all = record(&free);
    assert_eq!(all.recording.rows.as_ptr(), all.fleet.rows.as_ptr(), "nothing is copied");
    let mut constrained = free.clone();
    constrained.constraints.allowed = Some([WorkerId(2), WorkerId(4)].into());
    let some = record(&constrained);
    assert_eq!(*some.recording.rows, [rank(2, 0), rank(4, 0)]);
    assert_eq!(some.recording.check(), Ok(()));
    drop((all, some));
    // Whichever memory comes next had either.
    for n in 0..100 {
        let constrain = n % 3 == 0;
        let record = record(if constrain { &constrained } else { &free });
        assert_eq!(record.recording.rows.len(), if constrain { 2 } else { 5 });
    }
}

#[test]
fn a_shadow_that_fails_or_takes_too_long_is_the_only_one_to_know() {
    let made = MadePolicy::new("broken", |_| {
        let failing = scorer(&[], |_, _, _| Err(StageError::refused("not today")));
        Ok(Box::new(native().scorer("s", failing)))
    });
    let shadow = ShadowSpec { budget: 0.0, ..ShadowSpec::of("broken".into()) };
    let rollout = Rollout { shadows: vec![ShadowSpec::of("broken".into()), shadow], canary: None };
    let router = router(with(rollout, "least-loaded", &["broken"], vec![made]), [worker(1)]);
    let decision = route(&router, &request(10), 1).expect("it is routed");
    assert_eq!(show_around(&decision), [Seen::Failed], "who has no budget is shown nothing");
    assert_eq!(partition(&router).counts().failures.iter().map(|(_, n)| n).sum::<u64>(), 0);
    let reports = partition(&router).shadows();
    assert!(reports[0].last_error.as_ref().is_some_and(|e| e.contains("not today")), "{reports:?}");
    assert_eq!((reports[1].decisions, reports[1].over_budget), (0, 1));
}

#[test]
fn whoever_decides_is_compared_with_the_default_now_and_then() {
    let shown = |name| {
        let router = router(builtin(name), (1..=4).map(worker));
        let shown = (0..10_000).filter(|&n| {
            let moment = Moment { now_ms: n, seed: n };
            let decision = router.route(&request(100), moment, Mode::Book).expect("it is routed");
            decision.sample.is_some()
        });
        shown.count()
    };
    let of_two_tier = shown("two-tier");
    assert!((50..200).contains(&of_two_tier), "about one of a hundred: {of_two_tier}");
    assert_eq!(shown("least-loaded"), 0, "what is decided without the lock is shown to nobody");
}

#[test]
fn a_shadow_that_is_turned_off_is_shown_nothing() {
    let router = router(shadowed("default", "least-loaded"), [worker(1), worker(2)]);
    assert!(route(&router, &request(10), 1).expect("routed").sample.is_some());
    assert_eq!(router.disable("least-loaded"), Ok(1), "it watches in one");
    assert!(route(&router, &request(10), 2).expect("routed").sample.is_none());
    assert!(partition(&router).shadows().remove(0).disabled);
    assert_eq!(router.enable("least-loaded"), Ok(1));
    assert!(route(&router, &request(10), 3).expect("routed").sample.is_some());
}

#[test]
fn a_shadow_goes_on_with_its_state_wherever_it_stands_in_the_list() {
    let states: [Arc<AtomicU64>; 2] = Default::default();
    let policies = |names: &[&str], states: &[Arc<AtomicU64>; 2]| {
        let shadows = names.iter().map(|name| ShadowSpec::of((*name).into())).collect();
        let made = ["a", "b"].into_iter().zip(states.clone()).map(|(name, state)| {
            MadePolicy::new(name, move |_| {
                let parts = native().picker("first", picker(&[], |_, _, _| Ok(0)));
                Ok(Box::new(Stateful::new(parts, state.clone(), true)))
            })
        });
        let rollout = Rollout { shadows, canary: None };
        with(rollout, "default", &["a", "b"], made.collect())
    };
    let router = router(policies(&["a", "b"], &states), [worker(1)]);
    show_around(&route(&router, &request(10), 1).expect("routed"));
    states[0].store(7, Ordering::Relaxed);
    states[1].store(9, Ordering::Relaxed);
    let next: [Arc<AtomicU64>; 2] = Default::default();
    install(&router, policies(&["b"], &next));
    assert_eq!(next[1].load(Ordering::Relaxed), 0, "it is asked first when it is shown something");
    show_around(&route(&router, &request(10), 2).expect("routed"));
    assert_eq!(next[1].load(Ordering::Relaxed), 9);
    // One that was never asked hands on what it was to have.
    let (unasked, last): ([Arc<AtomicU64>; 2], [Arc<AtomicU64>; 2]) = Default::default();
    next[1].store(11, Ordering::Relaxed);
    install(&router, policies(&["b"], &unasked));
    install(&router, policies(&["a", "b"], &last));
    show_around(&route(&router, &request(10), 3).expect("routed"));
    assert_eq!(last[1].load(Ordering::Relaxed), 11);
}
