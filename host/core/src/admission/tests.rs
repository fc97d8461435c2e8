//! Promises of the line before a partition: who passes, who waits, and who is told.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod overload;
mod prospects;
mod reports;
mod rig;

use std::num::NonZeroU64;

use super::*;
use crate::fleet::{Availability, WorkerSpec};
use crate::ids::WorkerId;
use crate::queue::{Bucket, ClassSpec, ProfileSpec};
use crate::testing::{ranked, request, worker};
use rig::{Rig, of, pinned_to, queueing};

#[test]
fn a_request_waits_only_while_all_its_workers_are_busy_and_is_decided_when_load_falls() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.5), Default::default()), [1, 2]);
    // More than half of a step of 1,000 tokens makes a worker busy.
    let first = rig.decide(request(500)).unwrap();
    let second = rig.decide(request(501)).unwrap();
    let third = rig.decide(request(10)).unwrap();
    assert_eq!(first.worker(), third.worker(), "500 of 1,000 is not more than half");
    assert_ne!(first.worker(), second.worker());
    assert_eq!(rig.come("waits", request(10)), Ok(Arrival::Waits(rig.last_key())));
    assert!(rig.look().is_empty());
    rig.now_ms += 70;
    drop(second);
    assert_eq!(rig.bell.rings(), 1);
    assert_eq!(rig.look(), ["waits"]);
    let counts = rig.line.report().swap_remove(0).counts;
    let decided_after = counts.decided_after.clone();
    assert_eq!((decided_after.count(), decided_after.sum_ms), (1, 70), "from its coming");
    let expected = ClassCounts { received: 4, waited: 1, decided_after, ..ClassCounts::default() };
    assert_eq!(counts, expected);
    drop((first, third));
    assert_eq!(rig.bell.rings(), 1, "nobody waits any more");
}

#[test]
fn the_first_token_and_a_changed_fleet_are_told_too() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.5), Default::default()), [1]);
    let mut busy = rig.decide(request(900)).unwrap();
    rig.come("first", request(900)).unwrap();
    busy.prefill_done();
    assert_eq!(rig.bell.rings(), 1);
    assert_eq!(rig.look(), ["first"]);
    rig.come("second", request(900)).unwrap();
    rig.come("third", request(900)).unwrap();
    rig.join(2);
    assert_eq!(rig.bell.rings(), 2);
    assert_eq!(rig.look(), ["second"]);
    // Those that are left have nobody to wait for.
    rig.router.set_availability(WorkerId(1), Availability::Unhealthy).unwrap();
    rig.router.set_availability(WorkerId(2), Availability::Draining).unwrap();
    assert_eq!(rig.bell.rings(), 3);
    assert_eq!(rig.look(), ["third: no_endpoints"]);
}

#[test]
fn a_pinned_request_waits_for_its_own_worker_alone() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.5), Default::default()), [1, 2]);
    let on_1 = rig.decide(pinned_to(1, request(900))).unwrap();
    assert!(matches!(rig.come("waits for 1", pinned_to(1, request(9))), Ok(Arrival::Waits(_))));
    let on_2 = rig.decide(request(900)).unwrap();
    rig.come("waits for any", request(9)).unwrap();
    rig.come("waits for 2", pinned_to(2, request(9))).unwrap();
    drop(on_2);
    assert_eq!(rig.look(), ["waits for any", "waits for 2"]);
    drop(on_1);
    assert_eq!(rig.look(), ["waits for 1"]);
}

#[test]
fn a_request_that_few_workers_may_have_holds_up_nobody_who_may_go_elsewhere() {
    let narrowings: [fn(&mut Constraints); 4] = [
        |to| to.allowed = Some([WorkerId(1)].into()),
        |to| to.tried = [WorkerId(2)].into(),
        |to| to.required_taints = ["a".to_owned()].into(),
        |to| to.adapter = Some("poet".into()),
    ];
    for narrow in narrowings {
        let mut rig = Rig::of(of(vec![queueing("a", 1)]), [2]);
        let first = WorkerSpec {
            taints: ["a".to_owned()].into(),
            lora_adapters: ["poet".into()].into(),
            ..worker(1)
        };
        rig.router.upsert_worker(first).unwrap();
        let on_1 = rig.decide(pinned_to(1, request(900))).unwrap();
        for name in ["few", "fewer"] {
            let mut narrowed = request(9);
            narrow(&mut narrowed.constraints);
            assert!(matches!(rig.come(name, narrowed), Ok(Arrival::Waits(_))));
        }
        assert_eq!(rig.come("any", request(9)), Ok(Arrival::Passes));
        assert!(rig.look().is_empty());
        drop(on_1);
        assert_eq!(rig.look(), ["few"], "in their order: it has the worker now");
    }
}

#[test]
fn all_ranks_of_a_worker_count_and_the_ratio_says_how_many() {
    let class = |busy_worker_ratio| ClassSpec { busy_worker_ratio, ..queueing("a", 1) };
    let waits = |ratio, busy| {
        let mut rig = Rig::of(of(vec![class(ratio)]), []);
        rig.router.upsert_worker(ranked(1, 4, 4)).unwrap();
        let _busy: Vec<_> = (0..busy).map(|_| rig.decide(request(900)).unwrap()).collect();
        matches!(rig.come("r", request(1)), Ok(Arrival::Waits(_)))
    };
    assert_eq!([waits(None, 3), waits(None, 4)], [false, true]);
    assert_eq!([waits(Some(0.5), 1), waits(Some(0.5), 2)], [false, true]);
    assert_eq!([waits(Some(0.3), 1), waits(Some(0.25), 1)], [false, true]);
}

#[test]
fn who_comes_passes_nobody_who_could_go_first() {
    let mut rig = Rig::of(of(vec![queueing("a", 1), queueing("b", 1)]), [1]);
    let busy = rig.decide(request(900)).unwrap();
    rig.come("first", request(9)).unwrap();
    drop(busy);
    // Load has fallen, and nobody has looked yet.
    assert!(!rig.partition().ledger().relief().is_awaited());
    let mut second = request(9);
    second.admission.policy_class = Some("b".into());
    assert!(matches!(rig.come_unsettled("second", second), Ok(Arrival::Waits(_))));
    assert_eq!(rig.look(), ["first"]);
}

#[test]
fn what_would_wait_and_may_not_is_refused_in_words() {
    let mut spec = queueing("a", 1);
    spec.request_queue_limit_per_worker = Some(1);
    let mut rig = Rig::of(of(vec![spec, queueing("b", 1)]), [1]);
    let _busy = rig.decide(request(900)).unwrap();
    rig.come("a", request(1)).unwrap();
    let error = rig.come("b", request(1)).unwrap_err();
    assert_eq!(error.kind(), "queue_rejected");
    assert_eq!(
        error.to_string(),
        "class \"a\" has 1 requests waiting, and 1 may wait; try again later, or raise \
         `request_queue_limit_per_worker` (m/default/aggregated)"
    );
    let mut unwilling = request(1);
    unwilling.admission.do_not_queue = true;
    unwilling.admission.policy_class = Some("b".into());
    let error = rig.come("c", unwilling).unwrap_err();
    assert_eq!(error.kind(), "do_not_queue");
    assert_eq!(
        error.to_string(),
        "all workers of m/default/aggregated that may have the request are busy, and \
         `do_not_queue` is set; try again later, or let it wait in class \"b\""
    );
    let report = rig.line.report();
    assert_eq!((report[0].counts.rejected, report[1].counts.unwilling), ([1, 0, 0, 0], 1));
}

#[test]
fn no_request_outlives_its_due_time() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.5), Default::default()), [1]);
    let due = |due_at_ms| {
        let mut request = request(1);
        request.admission.due_at_ms = Some(due_at_ms);
        request
    };
    rig.now_ms = 100;
    let error = rig.come("past", due(90)).unwrap_err();
    assert_eq!((error.kind(), rig.line.len()), ("deadline_exceeded", 0));
    assert_eq!(
        error.to_string(),
        "the request for m/default/aggregated was due 10 ms ago, and still waited; give it \
         more time, or try again later"
    );
    let _busy = rig.decide(request(900)).unwrap();
    rig.come("later", due(300)).unwrap();
    rig.come("sooner", due(200)).unwrap();
    rig.now_ms = 199;
    assert!(rig.look().is_empty());
    rig.now_ms = 200;
    assert_eq!(rig.look(), ["sooner: deadline_exceeded"]);
    rig.now_ms = 1_000;
    assert_eq!(rig.look(), ["later: deadline_exceeded"]);
    assert_eq!(rig.line.report()[0].counts.late, 3);
}

#[test]
fn who_leaves_is_gone_from_the_line_and_its_counts() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.5), Default::default()), [1]);
    let busy = rig.decide(request(900)).unwrap();
    let Ok(Arrival::Waits(key)) = rig.come("a", request(40)) else { panic!("it waits") };
    rig.come("b", request(60)).unwrap();
    assert_eq!(rig.line.report()[0].pending.isl_tokens, 100);
    assert_eq!(rig.line.take(key), Some("a"));
    let pending = rig.line.report()[0].pending;
    assert_eq!((pending.requests, pending.isl_tokens), (1, 60));
    drop(busy);
    assert_eq!(rig.look(), ["b"]);
    assert_eq!(rig.line.take(key), None);
}

#[test]
fn classes_are_chosen_by_what_the_best_eligible_worker_has_not_cached() {
    let bucket = |min_tokens, name: &str| Bucket { min_tokens, bucket: name.into() };
    let member = |name: &str, bucket: &str| ClassSpec {
        policy_family: Some("chat".into()),
        cache_bucket: Some(bucket.into()),
        ..queueing(name, 1)
    };
    let profile = Profile::new(ProfileSpec {
        default_policy_family: None,
        uncached_isl_buckets: vec![bucket(0, "short"), bucket(100, "long")],
        policy_classes: vec![member("short", "short"), member("long", "long")],
    });
    let mut rig = Rig::of(profile.unwrap(), [1, 2]);
    // Worker 1 has six of the ten blocks.
    let chain: Vec<u64> = (1..=10).collect();
    rig.hold(1, &chain[..6]);
    let _busy = [1, 2].map(|id| rig.decide(pinned_to(id, request(900))).unwrap());
    let prompt = || {
        let mut prompt = request(160);
        prompt.chain = chain.clone().into();
        prompt
    };
    rig.come("64 to compute", prompt()).unwrap();
    rig.come("160 to compute", pinned_to(2, prompt())).unwrap();
    let report = rig.line.report();
    let pending: Vec<_> = report.iter().map(|class| class.pending).collect();
    assert_eq!(pending[0], Pending { requests: 1, isl_tokens: 160, cached_tokens: 96 });
    assert_eq!(pending[1], Pending { requests: 1, isl_tokens: 160, cached_tokens: 0 });
    // Looking ahead is not counted as a decision's look-up.
    let asked = rig.partition().cache().activity().asked;
    assert_eq!(asked, 0, "prompts of the busy ones had no chain");
}

#[test]
fn wspt_serves_the_cheapest_first_and_a_cost_may_be_given() {
    let profile = Profile::of_threshold(Some(0.5), crate::queue::QueuePolicy::Wspt);
    let mut rig = Rig::new(profile, [1]);
    let busy = rig.decide(request(900)).unwrap();
    rig.come("80", request(80)).unwrap();
    rig.come("40", request(40)).unwrap();
    let mut given = request(100);
    given.admission.scheduling_cost_tokens = NonZeroU64::new(60);
    rig.come("60", given).unwrap();
    drop(busy);
    assert_eq!(rig.look(), ["40", "60", "80"]);
}

#[test]
fn whoever_waits_goes_on_under_new_classes() {
    let mut rig = Rig::of(of(vec![queueing("a", 1), queueing("b", 1)]), [1]);
    let _busy = rig.decide(request(900)).unwrap();
    for (ticket, class) in [("1", "a"), ("2", "b"), ("3", "b")] {
        let mut waits = request(1);
        waits.admission.policy_class = Some(class.into());
        rig.come(ticket, waits).unwrap();
    }
    // b is gone: its requests belong to the default. Nobody passes by that.
    let gone = of(vec![queueing("c", 1), queueing("a", 1)]);
    rig.profile = Arc::new(gone);
    assert!(rig.look().is_empty());
    let report = rig.line.report();
    let shown: Vec<_> =
        report.iter().map(|class| (&*class.policy_class, class.pending.requests)).collect();
    assert_eq!(shown, [("c", 2), ("a", 1)]);
    assert_eq!(report[1].counts.received, 2, "counts go by name");
    // Queueing is off: nobody has to wait any more.
    rig.profile = Arc::default();
    assert_eq!(rig.look(), ["1", "2", "3"]);
}

#[test]
fn a_partition_without_workers_keeps_nobody_waiting() {
    let mut rig = Rig::new(Profile::of_threshold(Some(0.0), Default::default()), [1]);
    let _busy = rig.decide(request(900)).unwrap();
    rig.come("waits", request(1)).unwrap();
    rig.router.remove_worker(WorkerId(1)).unwrap();
    assert_eq!(rig.look(), ["waits: no_endpoints"]);
    assert_eq!(rig.come("comes", request(1)), Ok(Arrival::Passes));
    rig.router.upsert_worker(worker(1)).unwrap();
    let _busy = rig.decide(request(900)).unwrap();
    rig.come("again", request(1)).unwrap();
    assert_eq!(rig.line.next_anyway().unwrap().1, "again");
}
