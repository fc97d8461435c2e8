//! Promises of telling policies what became of decisions.

use super::*;
use crate::outcome::{DecisionOutcome, Ending, OutcomeReporter};
use crate::policy::native::Observer;
use crate::policy::selection::{CanarySpec, Rollout, ShadowSpec};
use crate::policy::{PolicyInstance, Stage};
use crate::testing::MadePolicy;

/// What one instance has heard, and whether it is to fail at that.
#[derive(Clone, Debug, Default)]
struct Heard {
    events: Arc<Mutex<Vec<DecisionOutcome>>>,
    fails: Arc<AtomicBool>,
}

impl Observer for Heard {
    fn observe(&mut self, outcomes: &[DecisionOutcome]) -> Result<(), StageError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StageError::new(Cause::Trap, "it can't bear it"));
        }
        self.events.lock().expect("not poisoned").extend_from_slice(outcomes);
        Ok(())
    }
}

impl Heard {
    fn policy(&self) -> NativePolicy {
        native().picker("first", picker(&[], |_, _, _| Ok(0))).observer(self.clone())
    }

    fn count(&self) -> usize {
        self.events.lock().expect("not poisoned").len()
    }
}

fn tell_all(partition: &Partition, now_ms: u64) -> Vec<crate::policy::pipeline::Told> {
    let mut told = vec![];
    while partition.outcomes().any() {
        let batch = partition.next_outcomes();
        told.extend(partition.tell_deciders(&batch, now_ms));
        told.extend(partition.tell_shadows(&batch, now_ms));
        if told.iter().any(|told| told.failed.is_none()) {
            partition.outcomes().were_told(batch.len());
        }
    }
    told
}

#[test]
fn a_policy_that_learns_is_told_of_every_booked_decision_and_nothing_else() {
    let heard = Heard::default();
    let policies = {
        let heard = heard.clone();
        policies(OnFailure::Reject, move || heard.policy())
    };
    let router = router(policies, [worker(1), worker(2)]);
    let mut decision = route(&router, &request(10), 1).expect("it is routed");
    let mut reporter = decision.reporter.take().expect("somebody wants to know");
    let dry = router.route(&request(10), moment(2), Mode::DryRun).expect("it is routed");
    assert!(dry.reporter.is_none(), "nothing becomes of a dry run");
    reporter.dispatched();
    reporter.first_token();
    let partition = partition(&router);
    assert_eq!(heard.count(), 0, "not while it happens");
    let told = tell_all(&partition, 7);
    assert_eq!((told.len(), told[0].failed, heard.count()), (1, None, 2));
    reporter.end(Ending::Completed { output_tokens: 3 });
    tell_all(&partition, 9);
    let events = heard.events.lock().expect("not poisoned").clone();
    assert!(events.iter().all(|one| one.decision_id == decision.receipt.decision_id));
    assert!(events.iter().all(|one| one.worker == decision.receipt.worker));
    assert!(events.is_sorted_by_key(|one| one.at_ms));
    assert_eq!((partition.outcomes().told(), partition.outcomes().lost()), (3, 0));
}

#[test]
fn for_policies_that_do_not_learn_nothing_is_noted() {
    let router = router(builtin("default"), [worker(1)]);
    let decision = route(&router, &request(10), 1).expect("it is routed");
    assert!(decision.reporter.is_none());
    // One that learns takes its place: of decisions before it, it hears nothing.
    let heard = Heard::default();
    let learns = heard.clone();
    install(&router, policies(OnFailure::Reject, move || learns.policy()));
    assert!(route(&router, &request(10), 2).expect("it is routed").reporter.is_some());
    install(&router, builtin("default"));
    assert!(route(&router, &request(10), 3).expect("it is routed").reporter.is_none());
}

/// Who is to tell the end of this decision.
fn reporter(router: &Router, seed: u64) -> OutcomeReporter {
    let mut decision = route(router, &request(10), seed).expect("it is routed");
    decision.reporter.take().expect("somebody wants to know")
}

/// `default` decides, and a policy of the type `learns` is there, which hears of what it does.
fn beside_default(heard: &Heard, rollout: Rollout) -> Policies {
    let mut policies = builtin("default");
    let learns = heard.clone();
    let made = MadePolicy::new("learns", move |_| Ok(Box::new(learns.policy())));
    policies.catalog.insert(Arc::new(made)).expect("no built-in is named so");
    let mut other = policies.selection.instances[0].clone();
    other.name = "learns".into();
    other.recipe =
        crate::testing::selection("learns", OnFailure::Default).instances.remove(0).recipe;
    policies.selection.instances[0].rollout = rollout;
    policies.selection.instances.push(other);
    policies
}

#[test]
fn one_that_only_watches_hears_what_became_of_others_decisions() {
    let heard = Heard::default();
    let shadow = ShadowSpec::of("learns".into());
    let rollout = Rollout { shadows: vec![shadow], canary: None };
    let router = router(beside_default(&heard, rollout), [worker(1)]);
    reporter(&router, 1).end(Ending::failed("no connection"));
    let partition = partition(&router);
    let batch = partition.next_outcomes();
    assert!(partition.tell_deciders(&batch, 6).is_empty());
    assert_eq!(partition.tell_shadows(&batch, 6).len(), 1);
    assert_eq!(heard.count(), 1);
}

#[test]
fn one_that_only_watches_hears_of_what_it_was_not_shown_while_it_has_time() {
    for (budget, hears) in [(1.0, 20), (0.0, 0)] {
        let heard = Heard::default();
        let shadow = ShadowSpec { budget, sample: 0.01, ..ShadowSpec::of("learns".into()) };
        let rollout = Rollout { shadows: vec![shadow], canary: None };
        let router = router(beside_default(&heard, rollout), [worker(1)]);
        let mut shown = 0;
        for seed in 0..20 {
            let mut decision = route(&router, &request(10), seed).expect("it is routed");
            shown += usize::from(decision.sample.is_some());
            decision.reporter.take().expect("somebody wants to know").end(Ending::Cancelled);
        }
        assert!(shown < 5, "{shown} of 20");
        tell_all(&partition(&router), 6);
        assert_eq!(heard.count(), hears);
    }
}

#[test]
fn whoever_made_a_decision_those_who_learn_hear_of_it() {
    // It fails every second decision, which the built-in makes then.
    let heard = Heard::default();
    let learns = heard.clone();
    let fails = move || {
        let mut nth = 0;
        let pick = move || {
            nth += 1;
            if nth % 2 == 0 { Err(StageError::refused("not today")) } else { Ok(0) }
        };
        let mut pick = pick;
        native().picker("first", picker(&[], move |_, _, _| pick())).observer(learns.clone())
    };
    let one = router(policies(OnFailure::Default, fails), [worker(1)]);
    (1..=4).for_each(|seed| reporter(&one, seed).end(Ending::Cancelled));
    assert_eq!(partition(&one).counts().fallbacks, 2);
    tell_all(&partition(&one), 6);
    assert_eq!(heard.count(), 4);
    // A canary hears of its own and of others.
    let heard = Heard::default();
    let canary = CanarySpec::of("learns".into(), 0.5);
    let rollout = Rollout { shadows: vec![], canary: Some(canary) };
    let one = router(beside_default(&heard, rollout), [worker(1)]);
    let mut by = BTreeMap::<_, usize>::new();
    for seed in 0..20 {
        let mut decision = route(&one, &request(10), seed).expect("it is routed");
        *by.entry(decision.receipt.policy.name.to_string()).or_default() += 1;
        decision.reporter.take().expect("somebody wants to know").end(Ending::Cancelled);
    }
    assert_eq!(by.len(), 2, "{by:?}");
    tell_all(&partition(&one), 6);
    assert_eq!(heard.count(), 20);
}

#[test]
fn a_new_version_hears_the_ends_of_decisions_that_the_one_before_made() {
    let versions = [Heard::default(), Heard::default()];
    let policies = |version: usize| {
        let learns = versions[version].clone();
        policies(OnFailure::Reject, move || learns.policy())
    };
    let router = router(policies(0), [worker(1)]);
    let (early, late) = (reporter(&router, 1), reporter(&router, 2));
    early.end(Ending::Cancelled);
    tell_all(&partition(&router), 6);
    install(&router, policies(1));
    late.end(Ending::Cancelled);
    tell_all(&partition(&router), 7);
    assert_eq!(versions.each_ref().map(Heard::count), [1, 1]);
}

#[test]
fn nobody_is_told_within_a_decision() {
    let (deciding, met) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    #[derive(Debug)]
    struct Looks(Arc<AtomicBool>, Arc<AtomicBool>);
    impl Observer for Looks {
        fn observe(&mut self, _: &[DecisionOutcome]) -> Result<(), StageError> {
            self.1.fetch_or(self.0.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        }
    }
    let looked = met.clone();
    let policy = move || {
        let (begins, ends) = (deciding.clone(), deciding.clone());
        let first = filter(&[], move |_, _, _| {
            begins.store(true, Ordering::SeqCst);
            std::thread::yield_now();
            Ok(())
        });
        let last = picker(&[], move |_, _, _| {
            ends.store(false, Ordering::SeqCst);
            Ok(0)
        });
        let looks = Looks(deciding.clone(), looked.clone());
        native().filter("first", first).picker("last", last).observer(looks)
    };
    let router = router(policies(OnFailure::Reject, policy), [worker(1)]);
    let partition = partition(&router);
    std::thread::scope(|scope| {
        let decides = || (0..500).for_each(|seed| reporter(&router, seed).end(Ending::Cancelled));
        let deciders = [scope.spawn(decides), scope.spawn(decides)];
        while !deciders.iter().all(|one| one.is_finished()) {
            tell_all(&partition, 6);
        }
    });
    assert!(!met.load(Ordering::SeqCst));
    assert_eq!(partition.outcomes().told() + partition.next_outcomes().len() as u64, 1_000);
}

#[test]
fn one_that_fails_at_it_again_and_again_is_not_told_for_a_while_and_decides_all_the_same() {
    let heard = Heard::default();
    let learns = heard.clone();
    let router = router(policies(OnFailure::Reject, move || learns.policy()), [worker(1)]);
    let partition = partition(&router);
    heard.fails.store(true, Ordering::Relaxed);
    let tell = |now_ms: u64| {
        let mut decision = route(&router, &request(10), now_ms).expect("it is routed");
        let reporter = decision.reporter.take().expect("somebody wants to know");
        reporter.end(Ending::Cancelled);
        tell_all(&partition, now_ms)[0].failed
    };
    let failures = crate::policy::BreakerSpec::default().failures;
    for _ in 0..failures {
        assert_eq!(tell(1_000), Some(Cause::Trap));
    }
    assert_eq!(tell(1_000), Some(Cause::Unavailable));
    heard.fails.store(false, Ordering::Relaxed);
    assert_eq!((tell(1_050), heard.count()), (Some(Cause::Unavailable), 0));
    assert_eq!((tell(1_100), heard.count()), (None, 1), "it is tried again, and well");
    assert_eq!((tell(1_100), heard.count()), (None, 2));
}

#[test]
fn whoever_is_turned_off_is_not_told() {
    let heard = Heard::default();
    let learns = heard.clone();
    let router = router(policies(OnFailure::Reject, move || learns.policy()), [worker(1)]);
    let partition = partition(&router);
    let mut decision = route(&router, &request(10), 1).expect("it is routed");
    router.disable("mine").expect("there is one");
    decision.reporter.take().expect("somebody wanted to know").end(Ending::Cancelled);
    assert!(tell_all(&partition, 6).is_empty());
    assert_eq!(heard.count(), 0);
}

#[test]
fn an_observer_is_declared() {
    let declared = Heard::default().policy();
    let declaration = declared.declaration();
    assert!(declaration.properties.observes);
    assert_eq!(declaration.picker, Some(Stage::new("first", &[])));
}
