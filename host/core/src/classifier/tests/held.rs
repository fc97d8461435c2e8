//! Promises to requests that are held.

use super::*;

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
