//! Request classifiers as components: what they answer, what ends them, and what follows for requests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::classifier::{
    Admitted, Arrival, Arrived, Capacity, ClassificationError, ClassifierEnvironment,
    ClassifierProvider, Desk, Released, Seat,
};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::policy::{Cause, InstantiateError, Limits, OnFailure, RouterSettings};
use pointsman_core::testing;
use pointsman_wasm::{ComponentPolicy, FolderOptions, PolicyFolder};

use crate::guests::{fill, guest};
use crate::rig::{engine, load, partition};

fn environment() -> ClassifierEnvironment {
    ClassifierEnvironment {
        partition: partition(),
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::new(RouterSettings::default()),
        policy_classes: ["default".into()].into(),
        workers: [Capacity { worker: worker(), total_kv_blocks: Some(7) }].into(),
        // A loop is to end by its fuel, however busy the machine is that runs the tests.
        limits: Limits { deadline: Some(Duration::from_secs(20)), ..Limits::default() },
        seed: 1,
        trial: false,
    }
}

fn worker() -> WorkerRank {
    WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) }
}

fn seat(name: &str, on_failure: OnFailure) -> Seat {
    let component = load(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    Seat::new(Arc::new(component), environment(), on_failure).unwrap()
}

fn desk(name: &str) -> Desk {
    let desk = Desk::new();
    desk.replace(Some(seat(name, OnFailure::Default)));
    desk
}

fn arrival(id: &str, input_tokens: u64) -> Arrival {
    Arrival { input_tokens, ..testing::arrival(id) }
}

fn failures(desk: &Desk) -> Vec<(Cause, u64)> {
    desk.counts().failures.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn as_it_came(released: Released) -> (u64, Admitted) {
    (released.generation, released.result.unwrap())
}

#[test]
fn a_component_admits_and_hears_of_ends() {
    let component = load("classifier").unwrap();
    assert!(component.classifies_requests() && !component.selects_workers());
    let desk = desk("classifier");
    let life = desk.begin();
    let arrived = desk.arrive(arrival("a", 40), &life, 1).unwrap();
    assert_eq!(arrived, Arrived::Admitted(arrival("a", 40).unchanged()));
    life.sent(worker());
    life.responding();
    life.completed(Some(50));
    desk.fleet_changed(Arc::default());
    desk.catch_up(2);
    assert_eq!((failures(&desk), desk.live()), (vec![], 0));
    let report = desk.report(2).unwrap();
    assert_eq!((report.declaration.tick_ms, report.declaration.most_held), (0, 1_000));
    assert!(report.digest.is_some() && report.usage.unwrap().memory_bytes >= 4 << 16);
}

#[test]
fn a_loop_in_classify_is_ended_and_its_owner_says_what_becomes_of_the_request() {
    let desk = desk("classifier-loops-in-classify");
    let all = [OnFailure::Default, OnFailure::Reject, OnFailure::Skip];
    for (at, on_failure) in all.into_iter().enumerate() {
        desk.replace(Some(seat("classifier-loops-in-classify", on_failure)));
        let life = desk.begin();
        let arrived = desk.arrive(arrival("a", 40), &life, 1);
        match on_failure {
            OnFailure::Reject => {
                assert_eq!(arrived, Err(ClassificationError::Failed(Cause::Fuel)));
            }
            _ => assert!(matches!(arrived, Ok(Arrived::Admitted(_))), "{on_failure:?}"),
        }
        assert_eq!(failures(&desk), [(Cause::Fuel, at as u64 + 1)], "each call is metered anew");
        assert_eq!(desk.counts().lost, at as u64 + 1);
        drop(life);
        desk.catch_up(2);
    }
}

#[test]
fn a_loop_in_an_event_admits_what_was_held() {
    let desk = desk("classifier-loops-in-on-event");
    let (a, b) = (desk.begin(), desk.begin());
    assert_eq!(desk.arrive(arrival("a", 40), &a, 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("b", 40), &b, 1), Ok(Arrived::Held));
    drop(a);
    desk.catch_up(2);
    let released: Vec<_> = desk.take_released().into_iter().map(as_it_came).collect();
    assert_eq!(released, [(b.generation(), arrival("b", 40).unchanged())]);
    assert_eq!(failures(&desk), [(Cause::Fuel, 1)]);
}

#[test]
fn one_that_holds_everything_holds_no_more_than_it_declared_and_nothing_beyond_its_due_time() {
    let desk = desk("classifier-holds-everything");
    let lives: Vec<_> = (0..1_001).map(|_| desk.begin()).collect();
    for (at, life) in lives.iter().enumerate() {
        let due_at_ms = (at == 7).then_some(50);
        let arrived =
            desk.arrive(Arrival { due_at_ms, ..arrival(&format!("r{at}"), 40) }, life, 1).unwrap();
        assert_eq!(arrived == Arrived::Held, at < 1_000, "{at}");
    }
    assert_eq!(failures(&desk), [(Cause::BadOutput, 1)]);
    desk.catch_up(50);
    let released: Vec<_> = desk.take_released().into_iter().map(|one| one.generation).collect();
    assert_eq!(released, [lives[7].generation()]);
    drop(lives);
    desk.catch_up(51);
    assert_eq!((desk.counts().held_now, desk.live()), (0, 0), "clients that left are gone");
}

#[test]
fn a_trap_admits_what_is_held_and_the_next_instance_serves_on() {
    let desk = desk("classifier-traps");
    let lives = [(); 4].map(|()| desk.begin());
    assert_eq!(desk.arrive(arrival("a", 40), &lives[0], 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("b", 40), &lives[1], 1), Ok(Arrived::Held));
    assert!(matches!(desk.arrive(arrival("c", 13), &lives[2], 1), Ok(Arrived::Admitted(_))));
    let released: Vec<_> = desk.take_released().into_iter().map(|one| one.generation).collect();
    assert_eq!(released, [lives[0].generation(), lives[1].generation()]);
    assert_eq!(desk.arrive(arrival("d", 40), &lives[3], 2), Ok(Arrived::Held), "made anew");
    assert_eq!(failures(&desk), [(Cause::Trap, 1)]);
}

#[test]
fn releasing_nobodys_request_is_a_bad_answer() {
    let desk = desk("classifier-releases-nobody");
    let life = desk.begin();
    assert!(matches!(desk.arrive(arrival("a", 40), &life, 1), Ok(Arrived::Admitted(_))));
    life.responding();
    desk.catch_up(2);
    assert_eq!(failures(&desk), [(Cause::BadOutput, 1)]);
    assert!(desk.report(2).is_some_and(|report| report.failures_in_a_row == 1), "it lives on");
}

#[test]
fn what_it_is_configured_by_is_limited_and_its_refusal_is_told() {
    let read = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests");
        std::fs::read_to_string(folder.join(format!("{name}.wat"))).unwrap()
    };
    let head = ";;; configure\n(func $configure\n\
        (param i32 i32 i32 i32 i32 i32) (param i32 i32) (param i32 i32) (param i32 i32)\n\
        (param i32 i32) (param i64) (result i32)\n";
    let made = |body: &str| -> Result<(), InstantiateError> {
        let text = fill(&read("classifier"), &format!("{head}{body})\n;;; end\n"));
        let bytes = wat::parse_str(&text).unwrap();
        let component = ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), &bytes).unwrap();
        ClassifierProvider::instantiate(&component, &environment()).map(drop)
    };
    let error = made("(call $loop-for-ever) unreachable").unwrap_err();
    assert!(
        matches!(&error, InstantiateError::Failed { call: "configure-classifier", cause, .. }
            if *cause == Cause::Fuel),
        "{error}"
    );
    // A refusal of a call without a value has its words 4 bytes on.
    let refuses = "(call $clear) (i32.store (i32.const 512) (i32.const 1)) \
        (i32.store (i32.const 516) (i32.const 1280)) (i32.store (i32.const 520) (i32.const 12)) \
        (i32.const 512)";
    let error = made(refuses).unwrap_err();
    assert!(
        matches!(&error, InstantiateError::Refused { reason, .. }
        if reason.contains("not \\\"today\\\"")),
        "{error}"
    );
}

#[test]
fn a_folder_tells_classifiers_and_policies_apart() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["classifier", "template"] {
        std::fs::write(dir.path().join(format!("{name}.wasm")), guest(name)).unwrap();
    }
    let folder = PolicyFolder::open(engine(), dir.path(), FolderOptions::default());
    let state = folder.rescan();
    assert!(state.types.iter().all(|one| one.error.is_none()), "{:?}", state.types);
    let policies: Vec<_> =
        folder.providers().iter().map(|one| one.policy_type().to_owned()).collect();
    let classifiers: Vec<_> =
        folder.classifiers().iter().map(|one| one.classifier_type().to_owned()).collect();
    assert_eq!(
        (policies, classifiers),
        (vec!["template".to_owned()], vec!["classifier".to_owned()])
    );
}
