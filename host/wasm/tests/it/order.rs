//! Order: what is called on an instance before what, in a router and one by one.

use std::path::Path;
use std::sync::Arc;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::ids::WorkerId;
use pointsman_core::outcome::{Ending, OutcomeReporter};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{
    Catalog, Cause, Limits, OnFailure, PolicyEnvironment, PolicyInstance, PolicyProvider,
};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing;
use pointsman_wasm::ComponentPolicy;

use crate::guests::{guest, varied};
use crate::rig::{Case, engine, environment, eventually, load, partition};

fn worker(id: u64) -> WorkerSpec {
    WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition())
}

/// Policies in which a component decides; another `version` has another digest.
fn policies(component: &[u8], version: u8) -> Policies {
    let mut bytes = component.to_vec();
    // A custom section of one byte, named `v`.
    bytes.extend_from_slice(&[0, 3, 1, b'v', version]);
    let policy = ComponentPolicy::load(engine(), "told", Path::new("told.wasm"), &bytes).unwrap();
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(policy)).unwrap();
    let selection = testing::selection("told", OnFailure::Reject);
    Policies { catalog, selection, ..Policies::default() }
}

/// What had been called on the instance when it was asked for this decision's costs; and what tells
/// it how the decision goes on, if it wants to know.
fn decide(router: &Router) -> (f64, Option<OutcomeReporter>) {
    let request = RouteRequest::new("r", partition(), 41);
    let moment = Moment { now_ms: 1, seed: 1 };
    let decision = router.route(&request, moment, Mode::Book).unwrap();
    (decision.receipt.cost, decision.reporter)
}

/// Tells the instance of all that waits, in one call.
fn tell(router: &Router) {
    let partition = router.partition(&partition()).unwrap();
    let outcomes = partition.next_outcomes();
    assert!(!outcomes.is_empty());
    assert!(partition.tell_deciders(&outcomes, 2).iter().all(|told| told.failed.is_none()));
}

#[test]
fn each_call_comes_in_its_turn_and_what_takes_over_is_restored_before_it_is_told_anything() {
    let guest = guest("tells-order");
    let router = Router::new(policies(&guest, 1), 7);
    router.upsert_worker(worker(1)).unwrap();
    let (history, reporter) = decide(&router);
    assert_eq!(history, 1345.0, "configured, told of the fleet, and asked");
    reporter.unwrap().end(Ending::Cancelled);
    let (history, reporter) = decide(&router);
    assert_eq!(history, 1_345_645.0, "nothing comes within a decision");
    tell(&router);
    router.upsert_worker(worker(2)).unwrap();
    let (history, _) = decide(&router);
    assert_eq!(history, 134_564_567_345.0, "a changed fleet comes before the next decision");

    let prepared = router.prepare(policies(&guest, 2)).unwrap();
    assert_eq!(router.install(prepared).unwrap().handed_over, 1);
    // The end of a decision that the version before made.
    reporter.unwrap().end(Ending::Completed { output_tokens: 1 });
    tell(&router);
    let (history, _) = decide(&router);
    assert_eq!(history, 123_745.0, "restored, told of the fleet, told of outcomes, and asked");
}

#[test]
fn what_is_exported_and_not_declared_is_never_called() {
    let text = std::fs::read_to_string("../../tests/guests/tells-order.wat").unwrap();
    let three = r#""\40\05\00\00\03\00\00\00""#;
    assert!(text.contains(three));
    let guest = varied(&text.replace(three, r#""\00\00\00\00\00\00\00\00""#));
    let router = Router::new(policies(&guest, 1), 7);
    router.upsert_worker(worker(1)).unwrap();
    let (history, reporter) = decide(&router);
    assert!(reporter.is_none());
    router.upsert_worker(worker(2)).unwrap();
    assert_eq!((history, decide(&router).0), (145.0, 145_645.0));
    let prepared = router.prepare(policies(&guest, 2)).unwrap();
    assert_eq!(router.install(prepared).unwrap().handed_over, 0);
    assert_eq!(decide(&router).0, 145.0);
}

fn fleet() -> Snapshot {
    let mut fleet = Fleet::default();
    fleet.upsert(worker(1)).unwrap();
    fleet.snapshot(&partition())
}

#[test]
fn one_that_is_made_anew_is_told_in_the_same_order() {
    let limits = Limits { memory: Some(4 << 20), ..environment().limits };
    let environment = PolicyEnvironment { limits, ..environment() };
    let mut instance = load("tells-order").unwrap().instantiate(&environment).unwrap();
    instance.fleet_changed(&fleet()).unwrap();
    let history = |instance: &mut dyn PolicyInstance, tokens: u64| {
        Case::new(&[0.0]).tokens(tokens).score(instance).map(|costs| costs[0])
    };
    assert_eq!(history(&mut *instance, 1), Ok(135.0));
    // It grows until it is replaced, and hands its state over.
    (0..3).for_each(|_| _ = history(&mut *instance, 7));
    let told = eventually("a replacement", || {
        let history = history(&mut *instance, 1).unwrap();
        (instance.usage().unwrap().recycled == 1).then_some(history)
    });
    assert_eq!(told, 1235.0);
    // It is lost with its state.
    assert_eq!(history(&mut *instance, 10).unwrap_err().cause, Cause::Trap);
    let told = eventually("another", || history(&mut *instance, 1).ok());
    assert_eq!(told, 135.0);
}
