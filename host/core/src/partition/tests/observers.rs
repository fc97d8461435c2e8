//! Promises of telling policies what became of decisions.

use super::*;
use crate::outcome::{DecisionOutcome, Ending};
use crate::policy::native::Observer;
use crate::policy::selection::{Rollout, ShadowSpec};
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

#[test]
fn one_that_only_watches_hears_what_became_of_others_decisions() {
    let heard = Heard::default();
    let mut watched = builtin("default");
    let learns = heard.clone();
    let made = MadePolicy::new("learns", move |_| Ok(Box::new(learns.policy())));
    watched.catalog.insert(Arc::new(made)).expect("no built-in is named so");
    let mut shadow = watched.selection.instances[0].clone();
    shadow.name = "learns".into();
    shadow.recipe =
        crate::testing::selection("learns", OnFailure::Default).instances.remove(0).recipe;
    watched.selection.instances[0].rollout =
        Rollout { shadows: vec![ShadowSpec::of("learns".into())], canary: None };
    watched.selection.instances.push(shadow);
    let router = router(watched, [worker(1)]);
    let mut decision = route(&router, &request(10), 1).expect("it is routed");
    let reporter = decision.reporter.take().expect("the shadow wants to know");
    reporter.end(Ending::failed("no connection"));
    let partition = partition(&router);
    let batch = partition.next_outcomes();
    assert!(partition.tell_deciders(&batch, 6).is_empty());
    assert_eq!(partition.tell_shadows(&batch, 6).len(), 1);
    assert_eq!(heard.count(), 1);
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
