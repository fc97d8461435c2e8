//! Promises of sessions: who leads, who waits, what binds, what moves a binding and what ends it.

mod properties;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::testing::rank;

const TTL: u64 = 60_000;

fn session(id: &str) -> Session {
    Session { id: id.into(), parent_id: None, is_final: None, evict: None }
}

fn bound(worker: u64) -> Bound {
    Bound { worker: rank(worker, 0), epoch: Epoch(1) }
}

fn pin(worker: u64) -> Option<WorkerTarget> {
    Some(WorkerTarget { worker_id: rank(worker, 0).worker_id, dp_rank: None })
}

/// Enters sessions of one mode, whose workers are all there.
struct Door {
    affinity: Arc<Affinity>,
    terms: AffinityTerms,
}

impl Door {
    fn new(mode: AffinityMode) -> Self {
        Self { affinity: Arc::default(), terms: AffinityTerms { mode, ttl_ms: TTL } }
    }

    fn ask<'a>(&self, session: &'a Session, pinned: Option<WorkerTarget>, now_ms: u64) -> Ask<'a> {
        Ask { session, pinned, terms: self.terms, now_ms }
    }

    fn at(&self, now_ms: u64, session: &Session) -> Entry {
        let ask = self.ask(session, None, now_ms);
        self.affinity.enter(&ask, |_| true).expect("there is no pin")
    }

    fn enter(&self, id: &str) -> Entry {
        self.at(0, &session(id))
    }

    fn held(&self, id: &str) -> SessionLease {
        held(self.enter(id))
    }

    /// Binds a session to a worker by a request that ends at once.
    fn bind(&self, id: &str, worker: u64) {
        self.held(id).started(bound(worker));
    }

    fn target(&self, id: &str) -> Option<Bound> {
        self.affinity.peek(&self.ask(&session(id), None, 0))
    }

    fn expire(&self, now_ms: u64) {
        while self.affinity.expire(now_ms, Some(TTL), 7, |_| true) {}
    }

    fn counts(&self) -> AffinityCounts {
        self.affinity.counts()
    }
}

fn held(entry: Entry) -> SessionLease {
    match entry {
        Entry::Held(lease) => lease,
        other => panic!("expected a lease, got {other:?}"),
    }
}

fn waits(entry: Entry) -> Waiting {
    match entry {
        Entry::Wait(waiting) => waiting,
        other => panic!("expected to wait, got {other:?}"),
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rung(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll(waiting: &mut Waiting, bell: &Arc<Bell>) -> Poll<()> {
    let waker = Waker::from(bell.clone());
    Pin::new(waiting).poll(&mut Context::from_waker(&waker))
}

#[test]
fn the_first_request_leads_and_the_next_goes_where_it_was_answered() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let door = Door::new(mode);
        let mut first = door.held("s");
        assert_eq!(first.target(), None);
        assert_eq!(door.target("s"), None, "nothing is bound before a worker answers");
        first.started(bound(3));
        assert_eq!(door.held("s").target(), Some(bound(3)));
        drop(first);
        assert_eq!(door.held("s").target(), Some(bound(3)));
        assert_eq!((door.counts().bound, door.counts().hits), (1, 2));
    }
}

#[test]
fn a_first_request_that_fails_before_its_answer_leaves_no_binding() {
    let door = Door::new(AffinityMode::Hard);
    drop(door.held("s"));
    assert!(door.affinity.is_empty());
    assert_eq!(door.held("s").target(), None, "the next one leads");
    assert_eq!((door.counts().given_up, door.counts().bound), (2, 0));
}

#[test]
fn others_wait_for_the_first_and_go_on_when_it_is_answered_or_gone() {
    let door = Door::new(AffinityMode::Hard);
    for answered in [true, false] {
        let mut first = door.held("s");
        let bells: [Arc<Bell>; 3] = Default::default();
        let mut waiting: Vec<_> = bells.iter().map(|_| waits(door.enter("s"))).collect();
        for (waiting, bell) in waiting.iter_mut().zip(&bells) {
            assert!(poll(waiting, bell).is_pending());
            assert!(poll(waiting, bell).is_pending(), "asked again it still waits, once");
        }
        // One loses patience.
        drop(waiting.pop());
        if answered {
            first.started(bound(1));
        } else {
            drop(first);
        }
        assert_eq!(bells.each_ref().map(|bell| bell.rung()), [1, 1, 0]);
        for (waiting, bell) in waiting.iter_mut().zip(&bells) {
            assert!(poll(waiting, bell).is_ready());
        }
        if answered {
            assert_eq!(door.held("s").target(), Some(bound(1)));
            door.affinity.end("s");
        } else {
            // The fastest leads, and the others wait for that one.
            let _next = door.held("s");
            drop(waits(door.enter("s")));
        }
    }
    assert_eq!(door.counts().waited, 7);
}

#[test]
fn who_comes_to_wait_too_late_goes_on_at_once() {
    let door = Door::new(AffinityMode::Soft);
    let mut first = door.held("s");
    let mut waiting = waits(door.enter("s"));
    first.started(bound(1));
    assert!(poll(&mut waiting, &Arc::default()).is_ready());
    // Not even if another turn has begun since.
    let mut waiting = {
        let _first = door.held("t");
        waits(door.enter("t"))
    };
    let _next = door.held("t");
    assert!(poll(&mut waiting, &Arc::default()).is_ready());
}

#[test]
fn a_soft_binding_follows_the_worker_that_answers_and_only_that() {
    let door = Door::new(AffinityMode::Soft);
    door.bind("s", 1);
    let mut long = door.held("s");
    long.started(bound(1));
    let mut moved = door.held("s");
    assert_eq!(door.target("s"), Some(bound(1)), "a decision moves nothing");
    moved.started(bound(2));
    drop(long);
    drop(moved);
    assert_eq!(door.target("s"), Some(bound(2)));
    // One that fails before its answer moves nothing either.
    drop(door.held("s"));
    assert_eq!(door.target("s"), Some(bound(2)));
    assert_eq!(door.counts().rebound, 1);
}

#[test]
fn a_hard_binding_moves_only_when_its_worker_is_lost() {
    let door = Door::new(AffinityMode::Hard);
    door.bind("s", 1);
    door.held("s").started(bound(2));
    assert_eq!(door.target("s"), Some(bound(1)));
    let (mut one, mut other) = (door.held("s"), door.held("s"));
    assert!(one.lost(), "who finds it out leads");
    assert!(!other.lost(), "who finds it out later enters again");
    drop(other);
    let waiting = waits(door.enter("s"));
    one.started(bound(2));
    drop(waiting);
    assert_eq!(door.target("s"), Some(bound(2)));
    let counts = door.counts();
    assert_eq!((counts.invalidated, counts.rebound, counts.bound), (1, 1, 1));
}

#[test]
fn a_request_that_the_lost_worker_still_answers_does_not_bring_it_back() {
    let door = Door::new(AffinityMode::Hard);
    door.bind("s", 1);
    let mut late = door.held("s");
    let mut leads = door.held("s");
    assert!(leads.lost());
    late.started(bound(1));
    leads.started(bound(2));
    late.started(bound(1));
    assert_eq!(door.target("s"), Some(bound(2)));
}

#[test]
fn a_binding_to_a_worker_that_is_gone_is_lost_to_whoever_enters() {
    for mode in [AffinityMode::Hard, AffinityMode::Soft] {
        let door = Door::new(mode);
        door.bind("s", 1);
        let begun_anew = Bound { epoch: Epoch(2), ..bound(1) };
        let asked = session("s");
        let entry = door.affinity.enter(&door.ask(&asked, None, 0), |to| *to == begun_anew);
        let mut lease = held(entry.expect("there is no pin"));
        assert_eq!(lease.target(), None);
        drop(waits(door.enter("s")));
        lease.started(begun_anew);
        assert_eq!(door.target("s"), Some(begun_anew));
        assert_eq!((door.counts().invalidated, door.counts().rebound), (1, 1));
    }
}

#[test]
fn a_lost_binding_whose_retry_fails_too_is_none() {
    let door = Door::new(AffinityMode::Hard);
    door.bind("s", 1);
    let mut lease = door.held("s");
    assert!(lease.lost());
    drop(lease);
    assert!(door.affinity.is_empty());
}

#[test]
fn a_pin_that_disagrees_with_a_hard_binding_is_refused_and_one_that_agrees_is_not() {
    let door = Door::new(AffinityMode::Hard);
    door.bind("s", 1);
    let asked = session("s");
    let enter = |pinned| door.affinity.enter(&door.ask(&asked, pinned, 0), |_| true);
    let conflict = enter(pin(2)).expect_err("it is bound to worker 1");
    assert_eq!(conflict.bound, bound(1));
    let words = conflict.to_string();
    assert!(words.contains("worker 1/0") && words.contains("pinned to 2"), "{words}");
    let other_rank = WorkerTarget { dp_rank: Some(rank(1, 1).dp_rank), ..bound(1).target() };
    assert!(enter(Some(other_rank)).is_err());
    assert_eq!(held(enter(pin(1)).expect("it agrees")).target(), Some(bound(1)));
    assert_eq!(held(enter(Some(bound(1).target())).expect("it agrees")).target(), Some(bound(1)));
    assert_eq!(door.counts().conflicts, 2);
}

#[test]
fn a_soft_binding_gives_way_to_a_pin_and_follows_it() {
    let door = Door::new(AffinityMode::Soft);
    let asked = session("s");
    let first = door.held("s");
    let enter = || door.affinity.enter(&door.ask(&asked, pin(2), 0), |_| true).expect("it is soft");
    assert!(matches!(enter(), Entry::Unbound), "who knows where to go waits for nobody");
    drop(first);
    door.bind("s", 1);
    held(enter()).started(bound(2));
    assert_eq!(door.target("s"), Some(bound(2)));
}

#[test]
fn subagents_of_one_session_share_a_binding_that_is_not_its_own() {
    let door = Door::new(AffinityMode::Hard);
    let child = |id: &str| Session { parent_id: Some("p".into()), ..session(id) };
    door.bind("p", 1);
    held(door.at(0, &child("a"))).started(bound(2));
    assert_eq!(held(door.at(0, &child("b"))).target(), Some(bound(2)));
    assert_eq!(door.target("p"), Some(bound(1)));
    // One that is pinned goes by itself.
    let (asked, now) = (child("c"), 0);
    let entry = door.affinity.enter(&door.ask(&asked, pin(3), now), |_| true);
    held(entry.expect("its own session isn't bound")).started(bound(3));
    assert_eq!(door.target("c"), Some(bound(3)));
    // The last request of one isn't the last of all.
    drop(door.at(0, &Session { is_final: Some(true), ..child("a") }));
    assert_eq!(held(door.at(0, &child("b"))).target(), Some(bound(2)));
    assert_eq!(door.affinity.end("p"), 2);
}

#[test]
fn the_last_request_of_a_session_ends_its_binding_once_nothing_runs() {
    let door = Door::new(AffinityMode::Soft);
    door.bind("s", 1);
    let running = door.held("s");
    let last = Session { is_final: Some(true), ..session("s") };
    let lease = held(door.at(0, &last));
    assert_eq!(lease.target(), Some(bound(1)), "it goes where the session is");
    drop(lease);
    assert_eq!(door.target("s"), Some(bound(1)));
    drop(running);
    assert!(door.affinity.is_empty());
    // One that goes on after its last request was mistaken.
    door.bind("s", 1);
    let running = door.held("s");
    drop(door.at(0, &last));
    drop(door.held("s"));
    drop(running);
    assert_eq!(door.target("s"), Some(bound(1)));
    // A session of one request leaves nothing.
    held(door.at(0, &Session { is_final: Some(true), ..session("t") })).started(bound(2));
    assert_eq!((door.target("t"), door.counts().ended), (None, 2));
}

#[test]
fn a_session_ends_when_it_has_been_idle_for_its_time_and_never_while_a_request_runs() {
    let door = Door::new(AffinityMode::Hard);
    let mut lease = door.held("s");
    lease.started(bound(1));
    door.expire(10 * TTL);
    assert_eq!(door.target("s"), Some(bound(1)));
    drop(lease);
    // The first look after its last request begins its time.
    door.expire(20 * TTL);
    let at = |now_ms| door.affinity.peek(&door.ask(&session("s"), None, now_ms));
    door.expire(21 * TTL - 1);
    assert_eq!(at(21 * TTL - 1), Some(bound(1)));
    // Over is over, looked at or not.
    assert_eq!(at(21 * TTL), None);
    let renewed = held(door.at(21 * TTL - 1, &session("s")));
    assert_eq!(renewed.target(), Some(bound(1)));
    drop(renewed);
    door.expire(21 * TTL);
    assert_eq!(held(door.at(22 * TTL, &session("s"))).target(), None, "it begins anew");
    assert_eq!(door.counts().expired, 1);
    door.bind("t", 1);
    door.expire(30 * TTL);
    door.expire(31 * TTL);
    assert!(door.affinity.is_empty());
    assert_eq!(door.counts().expired, 2);
}

#[test]
fn a_shorter_time_to_live_counts_for_who_is_idle_already_and_none_ends_all() {
    let door = Door::new(AffinityMode::Hard);
    door.bind("s", 1);
    door.bind("t", 1);
    let running = door.held("t");
    door.expire(0);
    while door.affinity.expire(1_000, Some(1_000), 7, |_| true) {}
    assert_eq!((door.target("s"), door.affinity.len()), (None, 1));
    door.bind("s", 1);
    while door.affinity.expire(1_000, None, 7, |_| true) {}
    assert_eq!(door.affinity.len(), 1, "what runs is let run");
    drop(running);
    while door.affinity.expire(1_000, None, 7, |_| true) {}
    assert!(door.affinity.is_empty());
}

#[test]
fn sessions_of_a_worker_that_is_gone_go_with_it() {
    let door = Door::new(AffinityMode::Hard);
    (0..20).for_each(|n| door.bind(&n.to_string(), n % 2));
    while door.affinity.expire(0, Some(TTL), 3, |to| *to == bound(1)) {}
    assert_eq!((door.affinity.len(), door.counts().invalidated), (10, 10));
    assert_eq!((door.target("4"), door.target("5")), (None, Some(bound(1))));
}

#[test]
fn a_full_table_leaves_requests_unbound_and_takes_more_when_there_is_room() {
    let door = Door { affinity: Arc::new(Affinity::of(2)), ..Door::new(AffinityMode::Hard) };
    door.bind("a", 1);
    door.bind("b", 1);
    assert!(matches!(door.enter("c"), Entry::Unbound));
    assert_eq!(door.held("a").target(), Some(bound(1)), "who is bound stays so");
    assert_eq!((door.affinity.end("a"), door.counts().full), (1, 1));
    door.bind("c", 2);
    assert_eq!(door.target("c"), Some(bound(2)));
    assert_eq!(Affinity::default().table.lock().most(), 65_536);
}

#[test]
fn an_id_that_is_too_long_binds_nothing() {
    let door = Door::new(AffinityMode::Hard);
    let long = "x".repeat(MAX_SESSION_ID_BYTES + 1);
    assert!(matches!(door.enter(&long), Entry::Unbound));
    let child = Session { parent_id: Some(long.into()), ..session("s") };
    assert!(matches!(door.at(0, &child), Entry::Unbound));
    assert!(matches!(door.enter(&"x".repeat(MAX_SESSION_ID_BYTES)), Entry::Held(_)));
}

#[test]
fn what_is_late_for_an_ended_binding_does_nothing_to_the_next() {
    let door = Door::new(AffinityMode::Soft);
    door.bind("s", 1);
    let (mut late, mut lost) = (door.held("s"), door.held("s"));
    let bell = Arc::default();
    assert_eq!(door.affinity.end("s"), 1);
    let mut first = door.held("s");
    let mut waiting = waits(door.enter("s"));
    assert!(poll(&mut waiting, &bell).is_pending());
    late.started(bound(1));
    assert!(!lost.lost());
    drop((late, lost));
    assert!(poll(&mut waiting, &bell).is_pending());
    // Who is told by an operator that it is over leads no more, and nobody waits for it.
    assert_eq!((door.affinity.end("s"), bell.rung()), (1, 1));
    first.started(bound(1));
    assert_eq!(door.target("s"), None);
    assert!(poll(&mut waiting, &bell).is_ready());
}

#[test]
fn sessions_are_shown_a_page_at_a_time() {
    let door = Door::new(AffinityMode::Soft);
    (0..5).for_each(|n| door.bind(&n.to_string(), n));
    let _running = door.held("1");
    door.expire(100);
    let leads = door.held("new");
    let mut waiting = waits(door.enter("new"));
    assert!(poll(&mut waiting, &Arc::default()).is_pending());
    let (mut from, mut all) = (Some(0), Vec::new());
    while let Some(place) = from {
        let (page, next) = door.affinity.list(place, 2, 350);
        assert!(page.len() <= 2);
        all.extend(page);
        from = next;
    }
    assert_eq!(all.len(), 6);
    let [zero, one, .., new] = &all[..] else { panic!("there are six") };
    assert_eq!((zero.idle_ms, one.idle_ms, one.active_requests), (Some(250), None, 1));
    let shown = serde_json::to_value(zero).expect("it is shown");
    let expected = serde_json::json!({ "kind": "session", "id": "0", "state": "bound",
        "worker_id": 0, "dp_rank": 0, "epoch": 1, "active_requests": 0, "idle_ms": 250 });
    assert_eq!(shown, expected);
    assert_eq!(new.state, SessionState::Initializing { waiting: 1 });
    drop(leads);
    assert_eq!(door.affinity.list(0, 0, 0), (Vec::new(), Some(0)));
    assert_eq!(door.affinity.list(9, 5, 0), (Vec::new(), None));
}
