//! Promises of instances that are lost, replaced or outgrown.

use super::*;

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
    desk.replace(Some(seat_of(OnFailure::Reject, {
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
fn what_is_held_is_admitted_when_it_has_failed_too_often_in_a_row() {
    let desk = desk_of(|| {
        let classify = |request: &ClassifyRequest<'_>| match &*request.arrival.request_id {
            "held" => Ok(Verdict::Hold),
            _ => Err(StageError::refused("not today")),
        };
        classifying(10, classify, |_, _| Ok(Vec::new()))
    });
    let held = desk.begin();
    assert_eq!(desk.arrive(arrival("held"), &held, 1), Ok(Arrived::Held));
    let lives = [(); 5].map(|()| desk.begin());
    for (nth, life) in (1..).zip(&lives) {
        assert!(released(&desk).is_empty(), "before the {nth}. failure");
        admitted(desk.arrive(arrival(&format!("r{nth}")), life, 1));
    }
    desk.catch_up(1);
    assert_eq!(released(&desk), [(held.generation(), "default".to_owned())]);
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
    desk.replace(Some(seat_of(OnFailure::Default, move || {
        noting(&told, |id| id == "c", |_| Vec::new())
    })));
    assert_eq!(desk.due_at_ms(5), Some(5), "it is to be told at once");
    desk.catch_up(5);
    assert_eq!(*log.lock(), ["inherited a", "fleet 1", "classify b", "classify c"]);
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
fn good_calls_of_other_kinds_do_not_hide_that_one_kind_always_fails() {
    for fails_in in ["classify", "completed"] {
        let call = move |word: &str, count: &AtomicU64| {
            if word.starts_with(fails_in) {
                count.fetch_add(1, Ordering::Relaxed);
                panic!("as always");
            }
        };
        let failed = Arc::new(AtomicU64::new(0));
        let desk = Desk::new();
        desk.replace(Some(seat_of(OnFailure::Default, {
            let count = failed.clone();
            move || {
                let (asked, told) = (count.clone(), count.clone());
                classifying(
                    10,
                    move |_| {
                        call("classify", &asked);
                        Ok(admit())
                    },
                    move |event, _| {
                        call(&in_words(event), &told);
                        Ok(Vec::new())
                    },
                )
            }
        })));
        // One that goes on: each new instance is told of it, and takes that well.
        let goes_on = desk.begin();
        admitted(desk.arrive(arrival("goes on"), &goes_on, 1));
        for at in 0..20 {
            let life = desk.begin();
            admitted(desk.arrive(arrival(&format!("r{at}")), &life, 1));
            life.sent(rank(1, 0));
            life.responding();
            life.completed(None);
            desk.catch_up(1);
        }
        assert_eq!(failed.load(Ordering::Relaxed), 5, "{fails_in}");
        let report = desk.report(1).expect("there is one");
        assert_eq!((report.open_for_ms, report.failures_in_a_row), (Some(100), 5), "{fails_in}");
    }
}
