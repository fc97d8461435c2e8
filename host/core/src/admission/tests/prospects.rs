//! Promises to those who only ask what would become of a request.

use super::*;

#[test]
fn whoever_asks_is_told_what_a_request_would_meet_and_nothing_is_changed_by_it() {
    let limit = ClassSpec { request_queue_limit_per_worker: Some(1), ..queueing("chat", 1) };
    let mut rig = Rig::new(of(vec![limit, queueing("batch", 1)]), [1]);
    let asked = |rig: &mut Rig, change: fn(&mut RouteRequest)| {
        let mut request = request(100);
        change(&mut request);
        let foreseen = rig.foresee(&request);
        (foreseen.policy_class.to_string(), foreseen.outcome, foreseen.pending.requests)
    };
    let chat = |outcome, pending| ("chat".to_owned(), outcome, pending);
    assert_eq!(asked(&mut rig, |_| ()), chat("passes", 0));
    let busy = rig.decide(request(900)).unwrap();
    let before = rig.line.report();
    assert_eq!(asked(&mut rig, |_| ()), chat("waits", 0));
    let unwilling = |it: &mut RouteRequest| it.admission.do_not_queue = true;
    assert_eq!(asked(&mut rig, unwilling), chat("do_not_queue", 0));
    assert_eq!(
        asked(&mut rig, |it| it.admission.due_at_ms = Some(0)),
        chat("deadline_exceeded", 0)
    );
    assert_eq!(rig.line.report(), before, "nobody came");
    assert!(rig.line.is_empty() && rig.bell.rings() == 0);

    rig.come("waits", request(9)).unwrap();
    assert_eq!(asked(&mut rig, |_| ()), chat("queue_rejected", 1));
    let batch = |it: &mut RouteRequest| it.admission.policy_class = Some("batch".into());
    assert_eq!(asked(&mut rig, batch), ("batch".to_owned(), "waits", 0));
    // Of a class that there isn't: in the default.
    let odd = |it: &mut RouteRequest| it.admission.policy_class = Some("bacth".into());
    assert_eq!(asked(&mut rig, odd), chat("queue_rejected", 1));
    drop(busy);
    assert_eq!(rig.look(), ["waits"], "who asked stands in nobody's way");
}
