//! Promises of records and canaries; of shadows below.

mod shadows;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::*;
use crate::policy::selection::{
    BuildContext, CanaryBy, CanarySpec, Recipe, Rollout, Safeguards, ShadowSpec, TypeUse,
};
use crate::policy::{
    BreakerSpec, Catalog, InstanceSpec, Limits, SelectionSpec, builtin as builtins,
};
use crate::recording::{Recording, Sample};
use crate::request::Session;
use crate::rollout::{CanaryState, Seen};
use crate::testing::{MadePolicy, Stateful};

fn instance(name: &str, policy_type: &str) -> InstanceSpec {
    InstanceSpec {
        safeguards: Safeguards { breaker: BreakerSpec::off(), ..Safeguards::default() },
        ..InstanceSpec::new(
            name,
            Recipe::Whole(TypeUse {
                policy_type: policy_type.into(),
                parameters: Arc::default(),
                limits: Limits::default(),
            }),
            OnFailure::Default,
        )
    }
}

/// `live` decides, with this rollout; the others are there to be named.
fn with(rollout: Rollout, live: &str, others: &[&str], types: Vec<MadePolicy>) -> Policies {
    let mut catalog = Catalog::builtin();
    for made in types {
        catalog.insert(Arc::new(made)).expect("no built-in is named so");
    }
    let mut instances = vec![InstanceSpec { rollout, ..instance("live", live) }];
    instances.extend(others.iter().map(|name| instance(name, name)));
    let selection = SelectionSpec { roles: [(Role::Aggregated, "live".into())].into(), instances };
    Policies { catalog, selection, ..Policies::default() }
}

fn shadowed(live: &str, shadow: &str) -> Policies {
    let rollout = Rollout { shadows: vec![ShadowSpec::of(shadow.into())], canary: None };
    with(rollout, live, &[shadow], vec![])
}

fn show_around(decision: &Decision) -> Vec<Seen> {
    let sample: &Sample = decision.sample.as_ref().expect("somebody wants to see it");
    sample.shadows().map(|shadow| shadow.watch(sample, &decision.receipt)).collect()
}

/// A fleet of which some rows are busy, with bookings that last.
fn busy(router: &Router, seed: u64) -> Vec<Decision> {
    let route = |n| route(router, &request(100 + 37 * n), seed ^ n).expect("it is routed");
    (0..40).map(route).collect()
}

#[test]
fn a_decision_that_nobody_looks_at_keeps_nothing() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    assert!(
        (0..1_000).all(|seed| route(&router, &request(10), seed).expect("routed").sample.is_none())
    );
}

#[test]
fn a_record_that_is_on_its_way_holds_nobody_who_no_longer_watches() {
    let router = router(shadowed("default", "least-loaded"), [worker(1), worker(2)]);
    let one = route(&router, &request(10), 1).expect("routed").sample.expect("to be shown");
    let other = route(&router, &request(10), 2).expect("routed").sample.expect("to be shown");
    let watched = Arc::downgrade(one.shadows().next().expect("it is to be shown to one"));
    drop(one);
    assert!(watched.upgrade().is_some());
    install(&router, builtin("default"));
    assert!(watched.upgrade().is_some(), "the other record is on its way still");
    drop(other);
    assert!(watched.upgrade().is_none());
}

#[test]
fn every_builtin_decides_a_record_as_it_did_bit_for_bit_from_json_too() {
    let mut repeated = vec![];
    // `direct` decides for those only who say where.
    for name in builtins::NAMES.into_iter().filter(|name| *name != "direct") {
        let policies = builtin(name);
        let router = router(policies.clone(), (1..=9).map(worker));
        let _live = busy(&router, 3);
        let settings = Arc::new(RouterSettings::default());
        let key = key(Role::Aggregated);
        let cx = BuildContext {
            catalog: &policies.catalog,
            partition: &key,
            block_size: 16,
            settings: &settings,
            seed: 0,
            trial: false,
        };
        for seed in 0..50 {
            let moment = Moment { now_ms: seed, seed };
            let decision = router.route(&request(1_000), moment, Mode::Record).expect("routed");
            let sample = decision.sample.expect("it is recorded").for_another_thread();
            let json = serde_json::to_string(&sample.recording).expect("it is JSON");
            let read: Recording = serde_json::from_str(&json).expect("it is read");
            assert_eq!(read.check(), Ok(()));
            let mut again = policies.selection.build(&cx).expect("it is made");
            if !again.is_stateless() {
                // It goes by more than the record holds.
                break;
            }
            repeated.push(name);
            let selected = again.replay(&read, None, true).expect("it decides");
            assert_eq!(read.rows[selected.row], decision.receipt.worker, "{name}");
            assert_eq!(selected.cost.to_bits(), decision.receipt.cost.to_bits(), "{name}");
            let mut record = Recording::default();
            again.note_answers(true);
            again.replay(&read, None, true).expect("it decides");
            again.record(&mut record);
            assert_eq!((&record.costs, &record.stages), (&read.costs, &read.stages));
        }
    }
    repeated.dedup();
    let all_but = ["device-aware", "direct", "round-robin"];
    assert!(
        repeated.iter().copied().eq(builtins::NAMES.into_iter().filter(|n| !all_but.contains(n)))
    );
}

#[test]
fn a_record_tells_what_each_stage_answered() {
    let policy = || {
        let second = filter(&[], |_, _, verdicts| {
            verdicts.reject(1);
            Ok(())
        });
        let ramp = |factor: f64| {
            scorer(&[], move |_, rows, costs| {
                (0..rows.rows()).for_each(|row| costs[row] = factor * row as f64);
                Ok(())
            })
        };
        native().filter("second", second).scorer("up", ramp(1.0)).scorer("up-too", ramp(2.0))
    };
    let router = router(policies(OnFailure::Default, policy), (1..=3).map(worker));
    let decision = router.route(&request(10), moment(1), Mode::Record).expect("routed");
    let recording = decision.sample.expect("it is recorded").recording.clone();
    let answers: Vec<_> =
        recording.stages.iter().map(|s| (&*s.name, &*s.rejected, &*s.costs)).collect();
    let expected: [(&str, &[u32], &[f64]); 3] =
        [("second", &[1], &[]), ("up", &[], &[0.0, 1.0]), ("up-too", &[], &[0.0, 2.0])];
    assert_eq!(answers, expected);
    assert_eq!((recording.kept, recording.costs), (Some(vec![0, 2]), vec![0.0, 3.0]));
    assert!(decision.lease.is_some(), "it is booked all the same");
}

fn canary(spec: CanarySpec, made: MadePolicy) -> Policies {
    let name = spec.instance.to_string();
    with(Rollout { shadows: vec![], canary: Some(spec) }, "round-robin", &[&name], vec![made])
}

/// Costs 42, unless it is broken.
fn tried(broken: &Arc<AtomicBool>) -> MadePolicy {
    let broken = broken.clone();
    MadePolicy::new("next", move |_| {
        let broken = broken.clone();
        let scored = scorer(&[], move |_, _, costs| {
            costs.fill(42.0);
            match broken.load(Ordering::Relaxed) {
                false => Ok(()),
                true => Err(StageError::new(Cause::Trap, "unreachable")),
            }
        });
        Ok(Box::new(native().scorer("s", scored)))
    })
}

fn by_canary(receipt: &Receipt) -> bool {
    &*receipt.policy.name == "next"
}

#[test]
fn a_canary_makes_its_share_of_the_decisions() {
    let policies = canary(CanarySpec::of("next".into(), 0.2), tried(&Arc::default()));
    let router = router(policies, [worker(1), worker(2)]);
    let taken = (0..5_000)
        .map(|seed| route(&router, &request(10), seed).expect("it is routed").receipt)
        .filter(by_canary)
        .inspect(|receipt| assert_eq!(receipt.cost, 42.0))
        .count();
    assert!((900..1_100).contains(&taken), "{taken}");
    let report = partition(&router).canary().expect("there is one");
    assert_eq!((report.state, report.decisions), (CanaryState::Active, taken as u64));
}

#[test]
fn a_session_is_a_canarys_or_it_is_not() {
    let spec = CanarySpec { by: CanaryBy::Session, ..CanarySpec::of("next".into(), 0.5) };
    let router = router(canary(spec, tried(&Arc::default())), [worker(1)]);
    let mut theirs = 0;
    for session in 0..200 {
        let mut request = request(10);
        let id = format!("session-{session}").into();
        request.session = Some(Session { id, parent_id: None, is_final: None, evict: None });
        let takes: Vec<bool> = (0..5)
            .map(|seed| by_canary(&route(&router, &request, seed * 977).expect("routed").receipt))
            .collect();
        assert!(takes.iter().all(|&one| one == takes[0]), "{takes:?}");
        theirs += usize::from(takes[0]);
    }
    assert!((60..140).contains(&theirs), "{theirs}");
}

#[test]
fn a_canary_that_fails_costs_no_request_and_is_rolled_back_until_it_is_turned_on() {
    let broken = Arc::new(AtomicBool::new(false));
    let policies = canary(CanarySpec::of("next".into(), 0.5), tried(&broken));
    let router = router(policies, [worker(1), worker(2)]);
    let decide = |seeds: std::ops::Range<u64>| -> Vec<Receipt> {
        seeds.map(|seed| route(&router, &request(10), seed).expect("routed").receipt).collect()
    };
    assert!(decide(0..1_000).iter().any(by_canary));
    broken.store(true, Ordering::Relaxed);
    let receipts = decide(1_000..2_000);
    assert!(!receipts.iter().any(by_canary), "the other decides what it fails");
    let report = partition(&router).canary().expect("there is one");
    assert_eq!(report.state, CanaryState::RolledBack);
    // One of a hundred of some five hundred before, and the one that is too much.
    let failed = receipts.iter().filter(|receipt| receipt.fallback.is_some()).count() as u64;
    assert!((4..10).contains(&failed) && failed == report.failures, "{report:?}");
    assert!(report.reason.is_some_and(|reason| reason.contains("max_failures")));

    broken.store(false, Ordering::Relaxed);
    assert!(!decide(2_000..2_100).iter().any(by_canary));
    assert_eq!(router.enable("next").expect("there is one"), 1);
    assert!(decide(2_100..2_200).iter().any(by_canary));
    router.disable("next").expect("there is one");
    assert!(!decide(2_200..2_300).iter().any(by_canary));
    assert_eq!(partition(&router).canary().map(|one| one.state), Some(CanaryState::Disabled));
    assert!(!partition(&router).is_disabled(), "the other is not");
}

#[test]
fn a_canary_that_keeps_no_row_is_one_that_fails() {
    let made = MadePolicy::new("next", |_| {
        let none = filter(&[], |_, rows, verdicts| {
            (0..rows.rows()).for_each(|row| verdicts.reject(row));
            Ok(())
        });
        Ok(Box::new(native().filter("none", none)))
    });
    let router = router(canary(CanarySpec::of("next".into(), 1.0), made), [worker(1)]);
    let receipt = route(&router, &request(10), 1).expect("it is routed").receipt;
    assert_eq!(&*receipt.policy.name, "live");
    assert!(receipt.fallback.is_some_and(|failure| &*failure.policy == "next"));
    assert_eq!(partition(&router).canary().map(|one| one.failures), Some(1));
}

#[test]
fn a_canary_that_is_slow_is_rolled_back() {
    let made = MadePolicy::new("next", |_| {
        let slow = scorer(&[], |_, _, costs| {
            let watch = Stopwatch::start();
            while watch.elapsed() < Duration::from_micros(300) {}
            costs.fill(1.0);
            Ok(())
        });
        Ok(Box::new(native().scorer("s", slow)))
    });
    let longest = Some(Duration::from_micros(200));
    let spec = CanarySpec { max_p99: longest, ..CanarySpec::of("next".into(), 1.0) };
    let router = router(canary(spec, made), [worker(1)]);
    let taken = (0..100)
        .filter(|&seed| by_canary(&route(&router, &request(10), seed).expect("routed").receipt))
        .count();
    assert_eq!(taken, 2, "the second slow one of a hundred is too much");
    let report = partition(&router).canary().expect("there is one");
    assert!(report.reason.is_some_and(|reason| reason.contains("max_p99")));
}

#[test]
fn who_was_tried_and_then_decides_goes_on_with_what_he_has_learnt() {
    let state = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let made = || {
        let state = state.clone();
        MadePolicy::new("next", move |_| {
            let own = Arc::new(std::sync::atomic::AtomicU64::new(7));
            // The state of each is its own; the last one made is looked at.
            let policy = Stateful::new(native(), own.clone(), true);
            state.store(Arc::as_ptr(&own) as u64, Ordering::Relaxed);
            Ok(Box::new(policy))
        })
    };
    let mut policies = canary(CanarySpec::of("next".into(), 0.5), made());
    let router = router(policies.clone(), [worker(1)]);
    policies.selection.roles = [(Role::Aggregated, "next".into())].into();
    let prepared = router.prepare(policies).expect("they are made");
    let installed = router.install(prepared).expect("they are put in place");
    assert_eq!((installed.partitions, installed.handed_over), (1, 1));
}

#[test]
fn a_rollout_that_names_nobody_is_refused() {
    let rollout = Rollout { shadows: vec![ShadowSpec::of("nobody".into())], canary: None };
    let policies = with(rollout, "default", &[], vec![]);
    let router = Router::new(policies, 0);
    let error = router.upsert_worker(worker(1)).expect_err("there is no such instance");
    assert!(error.to_string().contains("no instance is named \"nobody\""), "{error}");
}
