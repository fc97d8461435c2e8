//! Promises of sessions beside a fleet that changes: whose loss ends a binding.

use super::*;
use crate::affinity::{AffinityMode, AffinityTerms, Ask, Bound, Entry};
use crate::request::Session;

const BOTH: [AffinityMode; 2] = [AffinityMode::Hard, AffinityMode::Soft];

fn session() -> Session {
    Session { id: "s".into(), parent_id: None, is_final: None, evict: None }
}

fn with<T>(mode: AffinityMode, ask: impl FnOnce(&Ask<'_>) -> T) -> T {
    let terms = AffinityTerms { mode, ttl_ms: 1_000 };
    ask(&Ask { session: &session(), pinned: None, terms, now_ms: 0 })
}

/// Decides a request that is answered, and binds its session.
fn bind(router: &Router, mode: AffinityMode) -> Bound {
    let entry = with(mode, |ask| partition(router).enter_session(ask).expect("there is no pin"));
    let Entry::Held(mut lease) = entry else { panic!("it leads: {entry:?}") };
    let receipt = route(router, &request(10), 1).expect("it is routed").receipt;
    let bound = Bound { worker: receipt.worker, epoch: receipt.epoch };
    lease.started(bound);
    bound
}

/// What the session's next request finds.
fn next(router: &Router, mode: AffinityMode) -> Option<Bound> {
    let peeked = with(mode, |ask| partition(router).peek_session(ask));
    let entry = with(mode, |ask| partition(router).enter_session(ask).expect("there is no pin"));
    let Entry::Held(lease) = entry else { panic!("nobody leads: {entry:?}") };
    assert_eq!(lease.target(), peeked, "a look tells what a request would find");
    lease.target()
}

#[test]
fn a_worker_that_takes_no_requests_is_lost_to_hard_bindings_and_not_to_soft_ones() {
    for (availability, lost) in [
        (Availability::Ready, false),
        (Availability::Overloaded, false),
        (Availability::Unhealthy, true),
        (Availability::Draining, true),
    ] {
        for mode in BOTH {
            let router = router(builtin("least-loaded"), [worker(1), worker(2)]);
            let bound = bind(&router, mode);
            let id = bound.worker.worker_id;
            router.set_availability(id, availability).expect("it is there");
            let expected = (!lost || mode == AffinityMode::Soft).then_some(bound);
            assert_eq!(next(&router, mode), expected, "{mode:?} {availability:?}");
        }
    }
}

#[test]
fn a_worker_that_is_gone_or_begins_anew_is_lost_to_every_binding() {
    for mode in BOTH {
        let router = router(builtin("least-loaded"), [worker(1), worker(2)]);
        let bound = bind(&router, mode);
        router.remove_worker(bound.worker.worker_id).expect("it is there");
        assert_eq!(next(&router, mode), None);
        // The same id, and another life.
        let bound = bind(&router, mode);
        let id = bound.worker.worker_id;
        router.remove_worker(id).expect("it is there");
        router.upsert_worker(worker(id.0)).expect("it is taken");
        assert_eq!(next(&router, mode), None);
        // The same life with other marks.
        let bound = bind(&router, mode);
        let id = bound.worker.worker_id;
        router.upsert_worker(tainted(id.0, &["fast"])).expect("it is taken");
        assert_eq!(next(&router, mode), Some(bound));
    }
}

#[test]
fn sessions_end_with_their_worker_and_when_none_is_to_be_bound() {
    let router = router(builtin("least-loaded"), [worker(1), worker(2)]);
    let bound = bind(&router, AffinityMode::Hard);
    let its = partition(&router);
    its.expire_sessions(0, Some(1_000));
    // Who is unhealthy for a while finds its sessions as they were, if they didn't ask meanwhile.
    let id = bound.worker.worker_id;
    router.set_availability(id, Availability::Unhealthy).expect("it is there");
    its.expire_sessions(999, Some(1_000));
    router.set_availability(id, Availability::Ready).expect("it is there");
    assert_eq!(next(&router, AffinityMode::Hard), Some(bound));
    router.remove_worker(id).expect("it is there");
    its.expire_sessions(999, Some(1_000));
    assert_eq!((its.affinity().len(), its.affinity().counts().invalidated), (0, 1));
    bind(&router, AffinityMode::Hard);
    its.expire_sessions(999, None);
    assert!(its.affinity().is_empty());
}

#[test]
fn bindings_outlast_an_installation() {
    let router = router(builtin("least-loaded"), [worker(1), worker(2)]);
    let bound = bind(&router, AffinityMode::Soft);
    let prepared = router.prepare(builtin("random")).expect("it can be made");
    assert_eq!(router.install(prepared).expect("it is installed").partitions, 1);
    assert_eq!(next(&router, AffinityMode::Soft), Some(bound));
}
