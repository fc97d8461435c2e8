//! Promises of desks, with classifiers made of closures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::ids::{PartitionKey, Role, WorkerId, WorkerTarget};
use crate::policy::{Cause, Limits, RouterSettings, StageError};
use crate::router::Policies;
use crate::testing::{MadeClassifier, classifier_spec, classifying, key, rank, router, worker};

/// What a classifier was told, in words.
type Log = Arc<Mutex<Vec<String>>>;

fn environment() -> ClassifierEnvironment {
    ClassifierEnvironment {
        partition: key(Role::Aggregated),
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::new(RouterSettings::default()),
        policy_classes: ["batch".into(), "default".into()].into(),
        workers: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: false,
    }
}

fn seat_of<C: RequestClassifier + 'static>(
    on_failure: OnClassifierFailure,
    make: impl Fn() -> C + Send + Sync + 'static,
) -> Seat {
    Seat::new(Arc::new(MadeClassifier::new("made", make)), environment(), on_failure)
        .expect("it is made")
}

fn desk_of<C: RequestClassifier + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Desk {
    let desk = Desk::new();
    desk.replace(Some(seat_of(OnClassifierFailure::Default, make)));
    desk
}

pub(super) fn arrival(id: &str) -> Arrival {
    Arrival {
        request_id: id.into(),
        policy_class: "default".into(),
        input_tokens: 100,
        session: None,
        trigger: None,
        pinned_worker: None,
        expected_output_tokens: None,
        priority_jump: 0.0,
        strict_priority: 0,
        due_at_ms: None,
        scheduling_cost_tokens: 100.try_into().expect("not zero"),
    }
}

pub(super) fn in_words(event: &LifecycleEvent<'_>) -> String {
    match event {
        LifecycleEvent::Inherited(live) => format!("inherited {}", live.request.arrival.request_id),
        LifecycleEvent::Admitted(id) => format!("admitted {id}"),
        LifecycleEvent::Sent(id, worker) => format!("sent {id} {worker}"),
        LifecycleEvent::Responding(id) => format!("responding {id}"),
        LifecycleEvent::Completed(id, tokens) => format!("completed {id} {tokens:?}"),
        LifecycleEvent::Aborted(id, worker) => {
            let worker = worker.map(|worker| worker.to_string());
            format!("aborted {id} {}", worker.as_deref().unwrap_or("nowhere"))
        }
        LifecycleEvent::FleetChanged(workers) => format!("fleet {}", workers.len()),
        LifecycleEvent::Tick => "tick".to_owned(),
    }
}

fn admit() -> Verdict {
    Verdict::Admit(Admission::default())
}

fn release(id: &str) -> Release {
    Release { request_id: id.into(), verdict: admit() }
}

/// Admits or holds as `holds` says, writes down all that it is told, and answers events with `says`.
fn noting<H, S>(log: &Log, holds: H, says: S) -> impl RequestClassifier + 'static + use<H, S>
where
    H: Fn(&str) -> bool + Send + 'static,
    S: Fn(&str) -> Vec<Release> + Send + 'static,
{
    let (asked, told) = (log.clone(), log.clone());
    classifying(
        100,
        move |request| {
            let id = &*request.arrival.request_id;
            asked.lock().push(format!("classify {id}"));
            Ok(if holds(id) { Verdict::Hold } else { admit() })
        },
        move |event, _| {
            let words = in_words(event);
            told.lock().push(words.clone());
            Ok(says(&words))
        },
    )
}

fn admitted(arrived: Result<Arrived, ClassificationError>) -> Admitted {
    match arrived {
        Ok(Arrived::Admitted(admitted)) => admitted,
        other => panic!("not admitted: {other:?}"),
    }
}

/// The lifecycles that were released, with their class or their error's kind.
fn released(desk: &Desk) -> Vec<(u64, String)> {
    let shown = |released: Released| match released.result {
        Ok(admitted) => (released.generation, admitted.policy_class.to_string()),
        Err(error) => (released.generation, error.kind().to_owned()),
    };
    desk.take_released().into_iter().map(shown).collect()
}

#[test]
fn a_request_is_told_of_from_the_door_to_its_one_end_in_order() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| false, |_| Vec::new()));
    let (a, b) = (desk.begin(), desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    a.sent(rank(1, 0));
    a.sent(rank(2, 0));
    a.responding();
    a.responding();
    admitted(desk.arrive(arrival("b"), &b, 2));
    a.completed(Some(120));
    drop(b);
    desk.catch_up(3);
    desk.catch_up(4);
    let expected = [
        "classify a",
        "sent a 1/0",
        "sent a 2/0",
        "responding a",
        "classify b",
        "completed a Some(120)",
        "aborted b nowhere",
    ];
    assert_eq!(*log.lock(), expected);
    assert_eq!((desk.live(), desk.counts().admitted), (0, 2));
}

#[test]
fn an_admitted_request_goes_on_with_what_the_classifier_says() {
    let target = WorkerTarget { worker_id: WorkerId(7), dp_rank: None };
    let desk = desk_of(move || {
        let admission = Admission {
            policy_class: Some("batch".into()),
            due_at_ms: Some(900),
            scheduling_cost_tokens: Some(7),
            selection_target: Some(target),
        };
        classifying(0, move |_| Ok(Verdict::Admit(admission.clone())), |_, _| Ok(Vec::new()))
    });
    let (a, b) = (desk.begin(), desk.begin());
    let changed = Admitted {
        policy_class: "batch".into(),
        due_at_ms: Some(900),
        scheduling_cost_tokens: 7.try_into().expect("not zero"),
        selection_target: Some(target),
    };
    assert_eq!(admitted(desk.arrive(arrival("a"), &a, 1)), changed);
    let pinned = Arrival { pinned_worker: Some(target), ..arrival("b") };
    let unaimed = Admitted { selection_target: None, ..changed };
    assert_eq!(admitted(desk.arrive(pinned, &b, 1)), unaimed, "a pin is stronger");
}

#[test]
fn without_a_classifier_everything_goes_on_as_it_came() {
    let desk = Desk::new();
    assert!(!desk.is_wanted() && desk.report(0).is_none() && desk.due_at_ms(0).is_none());
    let life = desk.begin();
    assert_eq!(admitted(desk.arrive(arrival("a"), &life, 1)), arrival("a").unchanged());
}

#[test]
fn the_same_lifecycle_gets_the_same_answer_and_is_classified_once() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |id| id == "b", |_| vec![]));
    let (a, b) = (desk.begin(), desk.begin());
    for _ in 0..3 {
        admitted(desk.arrive(arrival("a"), &a, 1));
        assert_eq!(desk.arrive(arrival("b"), &b, 1), Ok(Arrived::Held));
    }
    assert_eq!(*log.lock(), ["classify a", "classify b"]);
}

#[test]
fn an_id_is_of_one_live_request_and_free_again_after_its_end() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| false, |_| Vec::new()));
    let (first, second) = (desk.begin(), desk.begin());
    admitted(desk.arrive(arrival("a"), &first, 1));
    let refused = desk.arrive(arrival("a"), &second, 1);
    assert_eq!(refused, Err(ClassificationError::Duplicate("a".to_owned())));
    first.completed(None);
    admitted(desk.arrive(arrival("a"), &second, 2));
    assert_eq!(*log.lock(), ["classify a", "completed a None", "classify a"]);
    drop(second);
    desk.catch_up(3);
    assert_eq!((desk.counts().duplicates, desk.live()), (1, 0));
}

#[test]
fn a_request_that_nobody_waits_for_is_not_classified() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| false, |_| Vec::new()));
    let gone = desk.begin();
    // As when its client hangs up while it stands in line.
    let other = Ticket::from(&gone);
    drop(gone);
    let arrived = desk.arrive(arrival("a"), other, 1);
    assert_eq!(arrived, Err(ClassificationError::LifecycleEnded));
    assert!(log.lock().is_empty());
}

#[test]
fn a_held_request_waits_for_its_release_and_the_answer_is_checked() {
    let desk = desk_of(|| {
        let says = |event: &LifecycleEvent<'_>, _| {
            let LifecycleEvent::Responding(_) = event else { return Ok(Vec::new()) };
            let batch = Admission { policy_class: Some("batch".into()), ..Admission::default() };
            let as_is = |id: &str, verdict| Release { request_id: id.into(), verdict };
            Ok(vec![
                as_is("c", Verdict::Hold),
                as_is("b", Verdict::Admit(batch)),
                as_is("d", Verdict::Reject("too much of it".to_owned())),
            ])
        };
        let holds = |request: &ClassifyRequest<'_>| {
            Ok(if &*request.arrival.request_id == "a" { admit() } else { Verdict::Hold })
        };
        classifying(10, holds, says)
    });
    let [a, b, c, d] = [(); 4].map(|()| desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    for (id, life) in [("b", &b), ("c", &c), ("d", &d)] {
        assert_eq!(desk.arrive(arrival(id), life, 1), Ok(Arrived::Held));
    }
    assert_eq!(desk.counts().held_now, 3);
    a.responding();
    desk.catch_up(2);
    let expected = [
        (b.generation(), "batch".to_owned()),
        (d.generation(), "request_classifier_rejected".to_owned()),
    ];
    assert_eq!(released(&desk), expected);
    assert_eq!(desk.counts().held_now, 1);
    assert_eq!(desk.arrive(arrival("d"), &d, 3), Err(ClassificationError::Rejected));
}

#[test]
fn a_held_request_whose_client_leaves_is_gone_at_once() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| true, |_| Vec::new()));
    let life = desk.begin();
    assert_eq!(desk.arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    drop(life);
    desk.catch_up(2);
    assert_eq!(*log.lock(), ["classify a", "aborted a nowhere"]);
    assert_eq!((desk.counts().held_now, desk.live()), (0, 0));
    assert!(released(&desk).is_empty(), "nobody waits for it");
}

#[test]
fn a_held_request_is_admitted_when_its_due_time_comes_and_the_classifier_hears_of_it() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| true, |_| Vec::new()));
    let (late, soon) = (desk.begin(), desk.begin());
    let due = |id, due_at_ms| Arrival { due_at_ms: Some(due_at_ms), ..arrival(id) };
    assert_eq!(desk.arrive(due("late", 90), &late, 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(due("soon", 50), &soon, 1), Ok(Arrived::Held));
    assert_eq!(desk.due_at_ms(1), Some(50));
    desk.catch_up(49);
    assert!(released(&desk).is_empty());
    desk.catch_up(50);
    assert_eq!(released(&desk), [(soon.generation(), "default".to_owned())]);
    assert_eq!(log.lock().last().map(String::as_str), Some("admitted soon"));
    assert_eq!((desk.counts().due, desk.due_at_ms(50)), (1, Some(90)));
}

#[test]
fn an_answer_that_is_none_is_typed_and_its_owner_decides_what_follows() {
    let wrong =
        |admission: Admission| move |_: &ClassifyRequest<'_>| Ok(Verdict::Admit(admission.clone()));
    let class = Admission { policy_class: Some("nobody".into()), ..Admission::default() };
    let cost = Admission { scheduling_cost_tokens: Some(0), ..Admission::default() };
    for admission in [class, cost] {
        for on_failure in [OnClassifierFailure::Default, OnClassifierFailure::Reject] {
            let desk = Desk::new();
            let told = Log::default();
            let (log, admission) = (told.clone(), admission.clone());
            desk.replace(Some(seat_of(on_failure, move || {
                let log = log.clone();
                classifying(1, wrong(admission.clone()), move |event, _| {
                    log.lock().push(in_words(event));
                    Ok(Vec::new())
                })
            })));
            let life = desk.begin();
            let arrived = desk.arrive(arrival("a"), &life, 1);
            match on_failure {
                OnClassifierFailure::Default => {
                    assert_eq!(admitted(arrived), arrival("a").unchanged());
                    assert_eq!(*told.lock(), ["admitted a"], "it is to know what became of it");
                }
                OnClassifierFailure::Reject => {
                    let error = arrived.expect_err("refused");
                    assert_eq!(error, ClassificationError::Failed(Cause::BadOutput));
                    assert_eq!(error.kind(), "request_classifier_failed");
                    assert!(told.lock().is_empty());
                }
            }
            let bad = desk
                .counts()
                .failures
                .iter()
                .find(|(cause, _)| *cause == Cause::BadOutput)
                .cloned();
            assert_eq!(bad, Some((Cause::BadOutput, 1)));
            drop(life);
            desk.catch_up(2);
            assert_eq!(told.lock().last().map(String::as_str), Some("aborted a nowhere"));
        }
    }
}

#[test]
fn no_more_are_held_than_were_declared() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let told = told.clone();
        classifying(
            2,
            |_| Ok(Verdict::Hold),
            move |event, _| {
                told.lock().push(in_words(event));
                Ok(Vec::new())
            },
        )
    });
    let lives = [(); 3].map(|()| desk.begin());
    assert_eq!(desk.arrive(arrival("a"), &lives[0], 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("b"), &lives[1], 1), Ok(Arrived::Held));
    admitted(desk.arrive(arrival("c"), &lives[2], 1));
    assert_eq!(*log.lock(), ["admitted c"]);
    assert_eq!((desk.counts().held_now, desk.counts().unclassified), (2, 1));
}

#[test]
fn releasing_what_is_not_held_is_counted_and_keeps_no_other_waiting() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let says = |words: &str| match words {
            "responding a" => vec![release("nobody"), release("a"), release("b"), release("b")],
            _ => Vec::new(),
        };
        noting(&told, |id| id == "b", says)
    });
    let (a, b) = (desk.begin(), desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    assert_eq!(desk.arrive(arrival("b"), &b, 1), Ok(Arrived::Held));
    a.responding();
    desk.catch_up(2);
    assert_eq!(released(&desk), [(b.generation(), "default".to_owned())]);
    assert!(desk.counts().failures.contains(&(Cause::BadOutput, 1)), "one call, one failure");
}

#[test]
fn a_panic_admits_what_is_held_and_the_next_instance_is_told_what_is_live() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let (asked, told) = (told.clone(), told.clone());
        asked.lock().push("made".to_owned());
        classifying(
            10,
            move |request| match &*request.arrival.request_id {
                "poison" => panic!("it can't be read"),
                "a" => Ok(admit()),
                _ => Ok(Verdict::Hold),
            },
            move |event, _| {
                told.lock().push(in_words(event));
                Ok(Vec::new())
            },
        )
    });
    let [a, b, c, poison] = [(); 4].map(|()| desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    assert_eq!(desk.arrive(arrival("b"), &b, 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("c"), &c, 1), Ok(Arrived::Held));
    a.sent(rank(1, 0));
    admitted(desk.arrive(arrival("poison"), &poison, 1));
    let expected = [b.generation(), c.generation()].map(|life| (life, "default".to_owned()));
    assert_eq!(released(&desk), expected);
    assert_eq!(desk.due_at_ms(1), Some(1), "another is to be made");
    desk.catch_up(1);
    let expected = [
        "made",
        "sent a 1/0",
        "made",
        "inherited a",
        "inherited b",
        "inherited c",
        "inherited poison",
    ];
    assert_eq!(*log.lock(), expected);
    let counts = desk.counts();
    assert_eq!((counts.lost, counts.let_go, counts.held_now), (1, 2, 0));
    assert!(counts.failures.contains(&(Cause::Trap, 1)));
}

#[test]
fn one_that_keeps_failing_is_not_asked_for_a_while() {
    let asked = Arc::new(AtomicU64::new(0));
    let desk = Desk::new();
    // It never gets as far as to be told of what it failed on: that would be a good call.
    desk.replace(Some(seat_of(OnClassifierFailure::Reject, {
        let count = asked.clone();
        move || {
            let count = count.clone();
            classifying(
                10,
                move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                    Err(StageError::refused("not today"))
                },
                |_, _| Ok(Vec::new()),
            )
        }
    })));
    let lives: Vec<Lifecycle> = (0..20).map(|_| desk.begin()).collect();
    for (at, life) in lives.iter().enumerate() {
        let failed = desk.arrive(arrival(&format!("r{at}")), life, 1);
        let cause = if at < 5 { Cause::Refused } else { Cause::Unavailable };
        assert_eq!(failed, Err(ClassificationError::Failed(cause)), "{at}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    assert_eq!(desk.due_at_ms(1), Some(101), "then another is made");
    let report = desk.report(1).expect("there is one");
    assert_eq!((report.open_for_ms, report.failures_in_a_row), (Some(100), 5));
    let life = desk.begin();
    let failed = desk.arrive(arrival("later"), &life, 101);
    assert_eq!(failed, Err(ClassificationError::Failed(Cause::Refused)), "it may try again");
}

#[test]
fn another_classifier_is_told_what_is_live_and_asked_about_what_is_held() {
    let log = Log::default();
    let desk = desk_of(|| {
        let holds = |request: &ClassifyRequest<'_>| {
            Ok(if &*request.arrival.request_id == "a" { admit() } else { Verdict::Hold })
        };
        classifying(10, holds, |_, _| Ok(Vec::new()))
    });
    desk.fleet_changed([Capacity { worker: rank(1, 0), total_kv_blocks: Some(5) }].into());
    let [a, b, c] = [(); 3].map(|()| desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    assert_eq!(desk.arrive(arrival("b"), &b, 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("c"), &c, 1), Ok(Arrived::Held));
    let told = log.clone();
    desk.replace(Some(seat_of(OnClassifierFailure::Default, move || {
        noting(&told, |id| id == "c", |_| Vec::new())
    })));
    assert_eq!(desk.due_at_ms(5), Some(5), "it is to be told at once");
    desk.catch_up(5);
    assert_eq!(*log.lock(), ["fleet 1", "inherited a", "classify b", "classify c"]);
    assert_eq!(released(&desk), [(b.generation(), "default".to_owned())]);
    let counts = desk.counts();
    assert_eq!((counts.held_now, counts.lost, counts.released), (1, 0, 1));
    desk.replace(None);
    assert!(!desk.is_wanted());
    assert_eq!(released(&desk), [(c.generation(), "default".to_owned())], "nobody is left behind");
}

#[test]
fn the_workers_capacities_are_told_when_they_change() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || noting(&told, |_| false, |_| Vec::new()));
    let one = |blocks| [Capacity { worker: rank(1, 0), total_kv_blocks: blocks }].into();
    for blocks in [None, None, Some(9), Some(9)] {
        desk.fleet_changed(one(blocks));
        desk.catch_up(1);
    }
    assert_eq!(*log.lock(), ["fleet 1", "fleet 1"]);
}

#[test]
fn ticks_come_at_the_declared_period_and_release_what_is_held() {
    let desk = desk_of(|| {
        let on_tick = |event: &LifecycleEvent<'_>, now_ms| {
            let due = matches!(event, LifecycleEvent::Tick) && now_ms >= 30;
            Ok(if due { vec![release("a")] } else { Vec::new() })
        };
        classifying(1, |_| Ok(Verdict::Hold), on_tick).ticking(10)
    });
    let life = desk.begin();
    assert_eq!(desk.arrive(arrival("a"), &life, 5), Ok(Arrived::Held));
    for now in [15, 25] {
        assert_eq!(desk.due_at_ms(now), Some(now));
        desk.catch_up(now);
        assert!(released(&desk).is_empty());
    }
    desk.catch_up(34);
    assert!(released(&desk).is_empty(), "not before its time");
    desk.catch_up(35);
    assert_eq!(released(&desk), [(life.generation(), "default".to_owned())]);
}

#[test]
fn whoever_works_at_the_desk_is_woken_by_what_happens() {
    let rung = Arc::new(AtomicU64::new(0));
    let desk = desk_of(|| noting(&Log::default(), |_| false, |_| Vec::new()));
    let bell = rung.clone();
    desk.on_mail(move || {
        bell.fetch_add(1, Ordering::Relaxed);
    });
    let before = rung.load(Ordering::Relaxed);
    let life = desk.begin();
    life.sent(rank(1, 0));
    drop(life);
    desk.fleet_changed(Arc::default());
    assert_eq!(rung.load(Ordering::Relaxed), before + 3);
}

/// Policies with a classifier that holds everything, made of this digest.
fn holding(digest: &str) -> Policies {
    let make = || classifying(10, |_| Ok(Verdict::Hold), |_, _| Ok(Vec::new()));
    let made =
        MadeClassifier::new("holding", make).with_digest(crate::policy::Digest(digest.into()));
    let mut policies = crate::testing::builtin("round-robin");
    policies.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
    let spec = classifier_spec("holding", OnClassifierFailure::Default);
    Policies { classifier: Some(spec), ..policies }
}

#[test]
fn a_router_gives_each_partition_that_answers_a_classifier_of_its_own() {
    let prefill = PartitionKey { role: Role::Prefill, ..key(Role::Aggregated) };
    let of_prefill = crate::fleet::WorkerSpec { partition: prefill.clone(), ..worker(2) };
    let router = router(holding("1"), [worker(1), of_prefill]);
    let desk = |key: &PartitionKey| router.partition(key).expect("there is one").desk().clone();
    assert!(desk(&key(Role::Aggregated)).is_wanted());
    assert!(!desk(&prefill).is_wanted(), "its requests are classified where they are answered");
}

#[test]
fn an_installation_changes_classifiers_where_they_change() {
    let router = router(holding("1"), [worker(1)]);
    let desk = router.partition(&key(Role::Aggregated)).expect("there is one").desk().clone();
    let life = desk.begin();
    assert_eq!(desk.arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    let install = |policies| {
        let prepared = router.prepare(policies).expect("they are made");
        router.install(prepared).expect("they are installed")
    };
    let classified = || desk.counts().classified;
    install(holding("1"));
    desk.catch_up(2);
    assert_eq!(classified(), 1, "the same goes on");
    install(holding("2"));
    desk.catch_up(3);
    assert_eq!((classified(), desk.counts().held_now), (2, 1), "another one is asked again");
    install(crate::testing::builtin("round-robin"));
    desk.catch_up(4);
    assert_eq!(released(&desk), [(life.generation(), "default".to_owned())]);
    let unknown = classifier_spec("nobody", OnClassifierFailure::Default);
    let refused = router.prepare(Policies { classifier: Some(unknown), ..holding("1") });
    let words = "request_classifier: unknown type \"nobody\"; known: holding";
    assert_eq!(refused.expect_err("there is none").to_string(), words);
}

#[test]
fn a_component_is_tried_and_what_fails_on_made_up_requests_is_refused() {
    let tried = |digest: &str, answer: fn() -> Result<Verdict, StageError>| {
        let make = move || classifying(10, move |_| answer(), |_, _| Ok(Vec::new()));
        let made = MadeClassifier::new("tried", make);
        let made = if digest.is_empty() {
            made
        } else {
            made.with_digest(crate::policy::Digest(digest.into()))
        };
        let mut policies = crate::testing::builtin("round-robin");
        policies.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
        let spec = classifier_spec("tried", OnClassifierFailure::Default);
        let policies = Policies { classifier: Some(spec), ..policies };
        policies.try_classifier(&key(Role::Aggregated), 16).map_err(|error| error.to_string())
    };
    assert_eq!(tried("1", || Ok(admit())), Ok(()));
    assert_eq!(tried("1", || Err(StageError::refused("no"))), Ok(()), "that is an answer");
    let unknown = || {
        let policy_class = Some("nobody".into());
        Ok(Verdict::Admit(Admission { policy_class, ..Admission::default() }))
    };
    let words = "request_classifier: type \"tried\" fails on made-up requests, in classify: \
                 bad-output: gave the unknown class \"nobody\"; known: default";
    assert_eq!(tried("1", unknown), Err(words.to_owned()));
    assert_eq!(tried("", unknown), Ok(()), "what is linked in is trusted");
}

#[test]
fn one_that_has_grown_too_large_is_replaced_and_holds_on() {
    #[derive(Debug)]
    struct Grows(u32);
    impl RequestClassifier for Grows {
        fn declaration(&self) -> ClassifierDeclaration {
            ClassifierDeclaration { tick_ms: 0, most_held: 10 }
        }
        fn classify(&mut self, _: &ClassifyRequest<'_>) -> Result<Verdict, StageError> {
            self.0 += 1;
            Ok(Verdict::Hold)
        }
        fn on_event(&mut self, _: &LifecycleEvent<'_>, _: u64) -> Result<Vec<Release>, StageError> {
            Ok(Vec::new())
        }
        fn is_worn(&self) -> bool {
            self.0 >= 2
        }
    }
    let desk = desk_of(|| Grows(0));
    let lives = [(); 3].map(|()| desk.begin());
    assert_eq!(desk.arrive(arrival("a"), &lives[0], 1), Ok(Arrived::Held));
    assert_eq!(desk.arrive(arrival("b"), &lives[1], 1), Ok(Arrived::Held));
    desk.catch_up(2);
    let counts = desk.counts();
    assert_eq!((counts.recycled, counts.lost, counts.held_now), (1, 0, 2));
    assert!(released(&desk).is_empty(), "nobody is let go for that");
}

#[test]
fn a_partition_is_not_forgotten_while_requests_wait_at_its_desk() {
    let router = router(holding("1"), [worker(1)]);
    let partition = router.partition(&key(Role::Aggregated)).expect("there is one");
    let life = partition.desk().begin();
    assert_eq!(partition.desk().arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    router.remove_worker(WorkerId(1)).expect("it was there");
    assert!(router.forget_vacant(0).is_empty());
    assert!(router.forget_vacant(10_000_000).is_empty());
    drop(life);
    partition.desk().catch_up(2);
    assert_eq!(router.forget_vacant(20_000_000), [key(Role::Aggregated)]);
}
