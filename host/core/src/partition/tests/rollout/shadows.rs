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

/// What a policy saw of its columns, decision by decision.
type Saw = Arc<Mutex<Vec<(Input, Vec<f64>)>>>;

/// Rejects the first row if it filters, goes by all its columns, and tells what it saw of them.
fn looks(name: &'static str, inputs: &'static [Input], filters: bool, saw: &Saw) -> MadePolicy {
    let saw = saw.clone();
    MadePolicy::new(name, move |_| {
        let saw = saw.clone();
        let look = filter(inputs, move |request, rows, mask| {
            if filters && request.moment.seed % 5 != 0 {
                mask.reject(0);
            }
            let column = |&input: &Input| Some((input, rows.column(input)?.to_vec()));
            *saw.lock().expect("nobody panicked") = inputs.iter().filter_map(column).collect();
            Ok(())
        });
        let sum = scorer(inputs, |_, rows, costs| {
            costs.fill(0.0);
            for column in inputs.iter().filter_map(|&input| rows.column(input)) {
                costs.iter_mut().zip(column).for_each(|(cost, value)| *cost += value);
            }
            Ok(())
        });
        Ok(Box::new(native().filter("look", look).scorer("sum", sum)))
    })
}

#[test]
fn whoever_decides_the_record_has_what_he_saw_and_is_shown_whole() {
    use Input::{ActivePrefillTokens, ActiveRequests, DecodeCostBlocks, PreferredTaintMultiplier};
    let saw = Saw::default();
    let live = looks("live-type", &[PreferredTaintMultiplier, ActiveRequests], true, &saw);
    // Another's columns are others, or stand otherwise.
    let next = looks("next", &[ActiveRequests, DecodeCostBlocks], false, &saw);
    let more = [ActiveRequests, DecodeCostBlocks, ActivePrefillTokens, PreferredTaintMultiplier];
    let rollout = Rollout {
        shadows: vec![ShadowSpec::of("more".into())],
        canary: Some(CanarySpec::of("next".into(), 0.4)),
    };
    let shadow = MadePolicy::new("more", move |_| {
        let sum = scorer(&more, move |_, rows, costs| {
            let [first, rest @ ..] = more.map(|input| rows.column(input).expect("declared"));
            costs.copy_from_slice(first);
            for column in rest {
                costs.iter_mut().zip(column).for_each(|(cost, value)| *cost += value);
            }
            Ok(())
        });
        Ok(Box::new(native().scorer("sum", sum)))
    });
    let policies = with(rollout, "live-type", &["next", "more"], vec![live, next, shadow]);
    let router = router(policies, [worker(1), tainted(2, &["x"]), worker(3), worker(4)]);
    let mut carried: Vec<Decision> = vec![];
    let mut by = [0; 2];
    for seed in 0..300 {
        let mut request = request(100 + 37 * (seed % 7));
        if seed % 3 == 0 {
            request.constraints.preferred_taints = [("x".to_owned(), 0.5)].into();
        }
        let mut decision = route(&router, &request, seed).expect("it is routed");
        by[usize::from(by_canary(&decision.receipt))] += 1;
        let saw = std::mem::take(&mut *saw.lock().expect("nobody panicked"));
        // Some records stay for a while, so that several are in use.
        if seed % 4 == 0 {
            decision.sample = decision.sample.map(Sample::for_another_thread);
        }
        let sample = decision.sample.as_ref().expect("somebody wants to see it");
        assert_eq!(sample.recording.check(), Ok(()));
        for (input, column) in &saw {
            let row = |row| sample.recording.columns.value(*input, row);
            let recorded: Vec<_> = (0..4).map(row).collect();
            let expected: Vec<_> = column.iter().copied().map(Some).collect();
            assert_eq!(recorded, expected, "{input} of decision {seed}");
        }
        assert_eq!(saw.len(), 2);
        assert!(more.iter().all(|&input| sample.recording.columns.has(input)));
        let seen = show_around(&decision);
        assert!(matches!(*seen, [Seen::Agreed | Seen::Differed]), "{seen:?}");
        carried.push(decision);
        if carried.len() > 20 {
            carried.remove(seed as usize * 7 % 20);
        }
    }
    assert!(by.iter().all(|&by| by > 50), "{by:?}");
}
