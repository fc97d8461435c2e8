//! Promises to a request: from the door to its one end.

use super::*;

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
fn one_that_is_refused_is_aborted_too_and_only_once() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let told = told.clone();
        classifying(
            0,
            |_| Ok(Verdict::Reject("not today".to_owned())),
            move |event, _| {
                told.lock().push(in_words(event));
                Ok(Vec::new())
            },
        )
    });
    let life = desk.begin();
    for now_ms in [1, 2] {
        let refused = desk.arrive(arrival("a"), &life, now_ms);
        assert_eq!(refused, Err(ClassificationError::Rejected));
    }
    // It goes nowhere, whatever its task says.
    life.sent(rank(1, 0));
    drop(life);
    desk.catch_up(3);
    desk.catch_up(4);
    assert_eq!(*log.lock(), ["aborted a nowhere"]);
    assert_eq!(desk.live(), 0);
}

#[test]
fn what_it_refuses_to_hear_releases_nobody_and_costs_it_nothing() {
    let log = Log::default();
    let told = log.clone();
    let desk = desk_of(move || {
        let told = told.clone();
        classifying(
            10,
            |request| Ok(if &*request.arrival.request_id == "a" { admit() } else { Verdict::Hold }),
            move |event, _| {
                let words = in_words(event);
                told.lock().push(words.clone());
                match words.as_str() {
                    "responding a" => Err(StageError::refused("I don't want to know")),
                    "completed a None" => Ok(vec![release("b")]),
                    _ => Ok(Vec::new()),
                }
            },
        )
    });
    let (a, b) = (desk.begin(), desk.begin());
    admitted(desk.arrive(arrival("a"), &a, 1));
    assert_eq!(desk.arrive(arrival("b"), &b, 1), Ok(Arrived::Held));
    a.responding();
    desk.catch_up(2);
    assert!(released(&desk).is_empty());
    a.completed(None);
    desk.catch_up(3);
    assert_eq!(released(&desk), [(b.generation(), "default".to_owned())]);
    // The same instance goes on: nothing is told again.
    assert_eq!(*log.lock(), ["responding a", "completed a None"]);
    let counts = desk.counts();
    assert!(counts.lost == 0 && counts.failures.contains(&(Cause::Refused, 1)), "{counts:?}");
}
