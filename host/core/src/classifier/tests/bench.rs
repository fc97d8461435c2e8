//! Promises of `last-good`: the version before stands in for one that fails.

use std::sync::atomic::AtomicBool;

use super::*;

/// A desk of a classifier that holds `b`, `c` and what comes after, and of another one that takes its
/// place and fails while `fails` is set; both write down what they are told.
fn replaced(fails: &Arc<AtomicBool>, on_failure: OnFailure) -> (Desk, Log) {
    let log = Log::default();
    let told = log.clone();
    let desk = Desk::new();
    desk.replace(Some(seat_of(OnFailure::Default, move || {
        told.lock().push("old".to_owned());
        noting(&told, |id| id != "a", |_| Vec::new())
    })));
    desk.catch_up(1);
    let (told, fails) = (log.clone(), fails.clone());
    desk.replace(Some(seat_of(on_failure, move || {
        told.lock().push("new".to_owned());
        let (asked, told, fails) = (told.clone(), told.clone(), fails.clone());
        let classify = move |request: &ClassifyRequest<'_>| {
            asked.lock().push(format!("classify {}", request.arrival.request_id));
            match fails.load(Ordering::Relaxed) {
                true => Err(StageError::refused("not today")),
                false => Ok(admit()),
            }
        };
        let on_event = move |event: &LifecycleEvent<'_>, _: u64| {
            told.lock().push(in_words(event));
            Ok(Vec::new())
        };
        classifying(100, classify, on_event)
    })));
    desk.catch_up(2);
    log.lock().clear();
    (desk, log)
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock())
}

#[test]
fn what_a_new_version_fails_on_the_one_before_is_asked_about_and_stands_in_for_a_while() {
    let fails = Arc::new(AtomicBool::new(false));
    let (desk, log) = replaced(&fails, OnFailure::LastGood);
    let [a, b, c, d] = [(); 4].map(|()| desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 10));
    fails.store(true, Ordering::Relaxed);
    assert_eq!(desk.arrive(arrival("b"), &b, 11), Ok(Arrived::Held), "it is offered to another");
    assert_eq!(desk.due_at_ms(11), Some(11), "at once");
    desk.catch_up(11);
    let expected = ["classify a", "classify b", "old", "inherited a", "classify b"];
    assert_eq!(take(&log), expected);
    // It is asked about what comes meanwhile, and told what happens.
    assert_eq!(desk.arrive(arrival("c"), &c, 12), Ok(Arrived::Held));
    a.sent(rank(1, 0));
    desk.catch_up(12);
    assert_eq!(take(&log), ["classify c", "sent a 1/0"]);
    let counts = desk.counts();
    assert_eq!((counts.stood_in, counts.lost, counts.let_go, counts.held_now), (1, 1, 0, 2));
    assert_eq!(counts.unclassified, 0, "nobody passed unasked");
    // The one that failed is tried again after a second, and fails once more: it then waits for two.
    assert_eq!(desk.due_at_ms(12), Some(1_011));
    desk.catch_up(1_011);
    assert_eq!(take(&log), ["new", "inherited a", "classify b"]);
    desk.catch_up(1_011);
    assert_eq!(take(&log), ["old", "inherited a", "classify b", "classify c"]);
    assert_eq!(desk.due_at_ms(1_011), Some(3_011));
    fails.store(false, Ordering::Relaxed);
    desk.catch_up(3_011);
    assert_eq!(take(&log), ["new", "inherited a", "classify b", "classify c"]);
    let default = "default".to_owned();
    assert_eq!(released(&desk), [(b.generation(), default.clone()), (c.generation(), default)]);
    admitted(desk.arrive(arrival("d"), &d, 3_012));
    assert_eq!(take(&log), ["classify d"]);
}

#[test]
fn a_new_version_that_has_proven_itself_fails_as_any_other() {
    let fails = Arc::new(AtomicBool::new(false));
    let (desk, log) = replaced(&fails, OnFailure::LastGood);
    for at in 0..1_000 {
        admitted(desk.arrive(arrival(&format!("r{at}")), &desk.begin(), 10));
    }
    take(&log);
    fails.store(true, Ordering::Relaxed);
    let life = desk.begin();
    admitted(desk.arrive(arrival("x"), &life, 11));
    assert_eq!(take(&log).last().map(String::as_str), Some("admitted x"));
    let counts = desk.counts();
    assert_eq!((counts.stood_in, counts.unclassified, counts.lost), (0, 1, 0));
}

#[test]
fn without_a_version_before_or_without_the_wish_for_it_nobody_stands_in() {
    for on_failure in [OnFailure::Default, OnFailure::Skip, OnFailure::LastGood] {
        let fails = Arc::new(AtomicBool::new(true));
        // Nothing was in place before the first one.
        let desk = Desk::new();
        desk.replace(Some(seat_of(on_failure, || {
            let refuses = |_: &ClassifyRequest<'_>| Err(StageError::refused("no"));
            classifying(10, refuses, |_, _| Ok(Vec::new()))
        })));
        let life = desk.begin();
        assert_eq!(admitted(desk.arrive(arrival("a"), &life, 1)), arrival("a").unchanged());
        assert_eq!(desk.counts().unclassified, 1);
        if on_failure != OnFailure::LastGood {
            let (desk, log) = replaced(&fails, on_failure);
            let life = desk.begin();
            admitted(desk.arrive(arrival("b"), &life, 10));
            assert_eq!(take(&log), ["classify b", "admitted b"]);
            assert_eq!(desk.counts().stood_in, 0);
        }
    }
}

#[test]
fn what_a_lost_version_holds_is_offered_to_the_one_before_and_not_let_go() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let says = |words: &str| match words {
            "responding a" => vec![release("b")],
            _ => Vec::new(),
        };
        noting(&told, |id| id != "a", says)
    });
    desk.catch_up(1);
    desk.replace(Some(seat_of(OnFailure::LastGood, || {
        let panics = |event: &LifecycleEvent<'_>, _: u64| match event {
            LifecycleEvent::Sent(..) => panic!("it can't be read"),
            _ => Ok(Vec::new()),
        };
        let holds = |request: &ClassifyRequest<'_>| {
            Ok(if &*request.arrival.request_id == "a" { admit() } else { Verdict::Hold })
        };
        classifying(10, holds, panics)
    })));
    let [a, b, c] = [(); 3].map(|()| desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 2));
    assert_eq!(desk.arrive(arrival("b"), &b, 2), Ok(Arrived::Held));
    a.sent(rank(1, 0));
    // It is lost by this one's coming, which is asked about in its turn.
    assert_eq!(desk.arrive(arrival("c"), &c, 3), Ok(Arrived::Held));
    desk.catch_up(3);
    assert!(released(&desk).is_empty());
    assert_eq!(*log.lock(), ["inherited a", "classify b", "classify c"]);
    a.responding();
    desk.catch_up(4);
    assert_eq!(released(&desk), [(b.generation(), "default".to_owned())]);
    assert_eq!((desk.counts().stood_in, desk.counts().let_go), (1, 0));
}

#[test]
fn the_version_before_stays_while_those_after_it_only_fail_and_the_report_names_whom_it_replaces() {
    let digest = |text: &str| crate::policy::Digest(text.into());
    let of = |name: &str, fails: bool| {
        let make = move || {
            let classify = move |_: &ClassifyRequest<'_>| match fails {
                true => Err(StageError::refused("no")),
                false => Ok(Verdict::Hold),
            };
            classifying(10, classify, |_, _| Ok(Vec::new()))
        };
        let made = MadeClassifier::new("made", make).with_digest(digest(name));
        Some(Seat::new(Arc::new(made), environment(), OnFailure::LastGood).expect("it is made"))
    };
    let desk = Desk::new();
    desk.replace(of("1", false));
    desk.replace(of("2", true));
    desk.replace(of("3", true));
    let life = desk.begin();
    assert_eq!(desk.arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    desk.catch_up(1);
    let report = desk.report(1).expect("there is one");
    assert_eq!((report.digest, report.stands_in_for), (Some(digest("1")), Some(digest("3"))));
    desk.replace(of("4", true));
    desk.catch_up(2);
    desk.catch_up(2);
    let report = desk.report(2).expect("there is one");
    assert_eq!((report.digest, report.stands_in_for), (Some(digest("1")), Some(digest("4"))));
    assert_eq!(desk.counts().held_now, 1);
    desk.replace(None);
    assert!(desk.report(3).is_none());
    assert_eq!(released(&desk), [(life.generation(), "default".to_owned())]);
}
