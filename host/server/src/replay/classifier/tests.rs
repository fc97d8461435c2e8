//! Promises of a repeated log, with classifiers made of closures and a desk that keeps one.

use std::collections::VecDeque;

use parking_lot::Mutex;
use pointsman_core::classifier::{
    Admission, ClassifierEnvironment, ClassifierLog, ClassifyRequest, Desk, LifecycleEvent, Seat,
};
use pointsman_core::ids::{DpRank, Role, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::policy::{Limits, OnFailure, RouterSettings, StageError};
use pointsman_core::testing::{MadeClassifier, arrival, classifying};

use super::*;

/// Keeps entries in memory.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<LogEntry>>);

impl ClassifierLog for Kept {
    fn note(&self, entry: LogEntry) {
        self.0.lock().push(entry);
    }
}

fn partition() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

fn worker() -> WorkerRank {
    WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) }
}

fn admit() -> Verdict {
    Verdict::Admit(Admission::default())
}

/// So many requests go at once; the others wait, and go in their order, or in the reverse one.
fn gate(most: usize, reversed: bool) -> impl RequestClassifier + 'static {
    let state = Arc::new(Mutex::new((0_usize, VecDeque::<Arc<str>>::new())));
    let its = state.clone();
    let classify = move |request: &ClassifyRequest<'_>| {
        let (going, waiting) = &mut *its.lock();
        if *going < most {
            *going += 1;
            return Ok(admit());
        }
        waiting.push_back(request.arrival.request_id.clone());
        Ok(Verdict::Hold)
    };
    let on_event = move |event: &LifecycleEvent<'_>, _: u64| {
        let (going, waiting) = &mut *state.lock();
        match event {
            LifecycleEvent::Admitted(id) => {
                waiting.retain(|other| **other != **id);
                *going += 1;
            }
            LifecycleEvent::Completed(..) => *going -= 1,
            LifecycleEvent::Aborted(id, _) => waiting.retain(|other| **other != **id),
            _ => {}
        }
        let mut releases = Vec::new();
        while *going < most
            && let Some(request_id) =
                if reversed { waiting.pop_back() } else { waiting.pop_front() }
        {
            *going += 1;
            releases.push(Release { request_id, verdict: admit() });
        }
        Ok(releases)
    };
    classifying(10, classify, on_event)
}

fn made<C: RequestClassifier + 'static>(
    make: impl Fn() -> C + Send + Sync + 'static,
) -> Arc<dyn ClassifierProvider> {
    Arc::new(MadeClassifier::new("made", make))
}

/// A desk that keeps its classifier's log.
fn desk(provider: Arc<dyn ClassifierProvider>) -> (Desk, Arc<Kept>) {
    let environment = ClassifierEnvironment {
        partition: partition(),
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::new(RouterSettings::default()),
        policy_classes: ["batch".into(), "default".into()].into(),
        workers: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: false,
    };
    let seat = Seat::new(provider, environment, OnFailure::Default);
    let (desk, kept) = (Desk::new(), Arc::<Kept>::default());
    desk.write_to(kept.clone());
    desk.replace(Some(seat.expect("it is made")));
    (desk, kept)
}

/// Four requests come at 1 ms; each is sent when it goes, and is done 10 ms after the one before.
fn four_through(provider: Arc<dyn ClassifierProvider>) -> Vec<LogEntry> {
    let (desk, kept) = desk(provider);
    let mut going = VecDeque::new();
    let mut waiting = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let life = desk.begin();
        match desk.arrive(arrival(id), &life, 1) {
            Ok(pointsman_core::classifier::Arrived::Admitted(_)) => going.push_back(life),
            other => waiting.push((other, life)),
        }
    }
    let mut now_ms = 1;
    while let Some(life) = going.pop_front() {
        life.sent(worker());
        life.responding();
        now_ms += 10;
        desk.catch_up(now_ms);
        life.completed(Some(7));
        desk.catch_up(now_ms);
        for released in desk.take_released() {
            let at = waiting.iter().position(|(_, its)| its.generation() == released.generation);
            going.push_back(waiting.remove(at.expect("it waits")).1);
        }
    }
    assert!(waiting.is_empty());
    std::mem::take(&mut *kept.0.lock())
}

fn repeated(
    entries: &[LogEntry],
    provider: Arc<dyn ClassifierProvider>,
) -> (CallSummary, Vec<Differs>) {
    let mut replay = ClassifierReplay::by(provider, None);
    let mut differences = Vec::new();
    let mut note = |difference: Difference| differences.push(difference.what);
    for entry in entries {
        replay.repeat(entry, &mut note).expect("it is made");
    }
    replay.finish(&mut note);
    (replay.summary().clone(), differences)
}

fn hold(ms: u64) -> Option<Hold> {
    Some(Hold { ms, released: true })
}

#[test]
fn the_same_classifier_answers_the_same_call_by_call() {
    let entries = four_through(made(|| gate(1, false)));
    let (summary, differences) = repeated(&entries, made(|| gate(1, false)));
    assert_eq!(differences, []);
    assert!(summary.is_exact());
    assert_eq!((summary.instances, summary.calls), (1, entries.len() as u64 - 1));
    assert_eq!((summary.same, summary.overtaken), (summary.calls, 0));
    assert_eq!(summary.held_was, Holds { requests: 3, ms: 10 + 20 + 30 });
    assert_eq!(summary.held_now, summary.held_was);
}

#[test]
fn another_order_of_release_is_told_with_what_becomes_of_the_times() {
    let entries = four_through(made(|| gate(1, false)));
    let (summary, differences) = repeated(&entries, made(|| gate(1, true)));
    let order: Vec<(Vec<&str>, Vec<&str>)> = differences
        .iter()
        .filter_map(|differs| match differs {
            Differs::Released { event: "completed", was, now, .. } => {
                let ids = |of: &'_ Released| -> Vec<String> {
                    of.releases.iter().map(|one| one.request_id.to_string()).collect()
                };
                Some((ids(was), ids(now)))
            }
            _ => None,
        })
        .map(|(was, now)| (leak(was), leak(now)))
        .collect();
    assert_eq!(order.first(), Some(&(vec!["b"], vec!["d"])));
    assert!(!summary.is_exact() && summary.differ > 0);
    // `b` was sent after 10 ms while this one held it; it was told that the host admitted it.
    assert!(summary.overtaken >= 1, "{summary:?}");
    let b = differences.iter().find_map(|differs| match differs {
        Differs::Held { request_id, was, now } if &**request_id == "b" => Some((*was, *now)),
        _ => None,
    });
    assert_eq!(b, Some((hold(10), Some(Hold { ms: 20, released: false }))));
}

fn leak(ids: Vec<String>) -> Vec<&'static str> {
    ids.into_iter().map(|id| &*Box::leak(id.into_boxed_str())).collect()
}

#[test]
fn a_wider_gate_holds_fewer_and_each_verdict_that_differs_is_told() {
    let entries = four_through(made(|| gate(1, false)));
    let (summary, differences) = repeated(&entries, made(|| gate(2, false)));
    assert!(matches!(
        differences.first(),
        Some(Differs::Verdict { request_id, was: Answer::Gave(Verdict::Hold), now })
            if &**request_id == "b" && *now == Answer::Gave(admit())
    ));
    assert!(differences.contains(&Differs::Held {
        request_id: "b".into(),
        was: hold(10),
        now: None
    }));
    assert_eq!((summary.held_was.requests, summary.held_now.requests), (3, 2));
    assert!(summary.held_now.ms < summary.held_was.ms, "{summary:?}");
}

#[test]
fn class_due_time_charge_and_target_are_compared() {
    let of = |admission: Admission| {
        made(move || {
            let admission = admission.clone();
            classifying(0, move |_| Ok(Verdict::Admit(admission.clone())), |_, _| Ok(Vec::new()))
        })
    };
    let was = Admission {
        policy_class: Some("batch".into()),
        due_at_ms: Some(900),
        scheduling_cost_tokens: Some(7),
        selection_target: Some(WorkerTarget { worker_id: WorkerId(7), dp_rank: None }),
    };
    let entries = four_through(of(was.clone()));
    assert!(repeated(&entries, of(was.clone())).0.is_exact());
    for now in [
        Admission { policy_class: None, ..was.clone() },
        Admission { due_at_ms: Some(901), ..was.clone() },
        Admission { scheduling_cost_tokens: Some(8), ..was.clone() },
        Admission { selection_target: None, ..was.clone() },
    ] {
        let (summary, differences) = repeated(&entries, of(now.clone()));
        let request_id = "a".into();
        let (was, now) = (Verdict::Admit(was.clone()), Verdict::Admit(now));
        let expected =
            Differs::Verdict { request_id, was: Answer::Gave(was), now: Answer::Gave(now) };
        assert_eq!((summary.differ, differences.first()), (4, Some(&expected)));
    }
    let unknown = Admission { policy_class: Some("nobody".into()), ..Admission::default() };
    let (summary, _) = repeated(&entries, of(unknown));
    assert_eq!((summary.failed, summary.differ), (4, 4), "what no host would take has failed");
}

#[test]
fn of_a_request_that_it_refuses_it_is_told_the_end_alone() {
    let entries = four_through(made(|| gate(4, false)));
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let refuses = made(move || {
        let log = log.clone();
        let on_event = move |event: &LifecycleEvent<'_>, _: u64| {
            if let LifecycleEvent::Completed(id, _) = event {
                log.lock().push((*id).to_owned());
            } else {
                log.lock().push(format!("{event:?}"));
            }
            Ok(Vec::new())
        };
        classifying(0, |_| Ok(Verdict::Reject("no".to_owned())), on_event)
    });
    let (summary, _) = repeated(&entries, refuses);
    assert_eq!(*told.lock(), ["a", "b", "c", "d"]);
    assert_eq!((summary.differ, summary.overtaken), (4, 0));
}

#[test]
fn a_log_that_lacks_an_entry_is_repeated_up_to_there_and_says_so() {
    let whole = four_through(made(|| gate(1, false)));
    let mut gap = whole.clone();
    gap.remove(3);
    let (summary, _) = repeated(&gap, made(|| gate(1, false)));
    assert_eq!((summary.calls, summary.left_out), (2, whole.len() as u64 - 4));
    assert!(!summary.is_exact());
    let words = "the log of classifier instance 1 in m/default/aggregated has call 4 where call 3 \
                 should be, so that what the classifier knew by then isn't known, and the rest \
                 can't be repeated; name all files, oldest first";
    let told: Vec<String> = summary.gaps.iter().map(ToString::to_string).collect();
    assert_eq!(told, [words], "once");

    let (summary, _) = repeated(&whole[1..], made(|| gate(1, false)));
    assert_eq!((summary.calls, summary.instances), (0, 0));
    let words = "the log of classifier instance 1 in m/default/aggregated begins with call 1, so \
                 that what the classifier knew by then isn't known, and it can't be repeated; name \
                 the older files first, or have `recording.files` keep more of them";
    let told: Vec<String> = summary.gaps.iter().map(ToString::to_string).collect();
    assert_eq!(told, [words]);

    // Another life of the router goes on behind it, with instances that are counted anew.
    let again = [&gap[..], &whole[..]].concat();
    let (summary, differences) = repeated(&again, made(|| gate(1, false)));
    assert_eq!((summary.instances, differences.len(), summary.gaps.len()), (2, 0, 1));
}

#[test]
fn one_that_is_lost_is_asked_no_further() {
    let entries = four_through(made(|| gate(4, false)));
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let traps = made(move || {
        let count = count.clone();
        let classify = move |_: &ClassifyRequest<'_>| {
            *count.lock() += 1;
            Err(StageError::new(Cause::Trap, "it can't be read"))
        };
        classifying(0, classify, |_, _| Ok(Vec::new()))
    });
    let (summary, differences) = repeated(&entries, traps);
    assert_eq!(*asked.lock(), 1);
    assert!(differences.contains(&Differs::Lost { cause: Cause::Trap }), "{differences:?}");
    assert_eq!((summary.failed, summary.impossible), (1, entries.len() as u64 - 2));
    assert!(!summary.is_exact());
}
