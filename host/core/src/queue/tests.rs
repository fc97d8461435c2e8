//! Promises of the queue.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod profiles;
mod properties;

use super::*;
use crate::ids::{WorkerId, WorkerTarget};

const TERMS: Terms = Terms {
    lane: Lane::Anybody,
    strict_priority: 0,
    priority_jump: 0.0,
    due_at_ms: None,
    arrived_ms: 0,
    cost_tokens: 1,
    isl_tokens: 1,
    cached_tokens: 0,
};

fn class(name: &str, quantum: u64) -> ClassSpec {
    ClassSpec { quantum, prefill_busy_threshold: Some(0), ..ClassSpec::new(name) }
}

fn profile(policy_classes: Vec<ClassSpec>) -> Arc<Profile> {
    let default_policy_family = policy_classes.first().map(|class| class.name.clone());
    let spec = ProfileSpec { default_policy_family, policy_classes, ..ProfileSpec::default() };
    Arc::new(Profile::new(spec).unwrap())
}

fn queue(policy_classes: Vec<ClassSpec>) -> Queue<u32> {
    Queue::new(profile(policy_classes))
}

fn at(arrived_ms: u64) -> Terms {
    Terms { arrived_ms, ..TERMS }
}

fn pinned(id: u64) -> Lane {
    Lane::Target(WorkerTarget { worker_id: WorkerId(id), dp_rank: None })
}

impl<T> Queue<T> {
    fn add(&mut self, class: usize, terms: Terms, ticket: T) -> QueueKey {
        self.join(class, terms, 1, || ticket).unwrap()
    }

    /// Everybody, in the order in which they are served.
    fn drain(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.next(|_, _| true).map(|waiting| waiting.ticket)).collect()
    }
}

#[test]
fn within_a_class_strict_priority_counts_then_due_time_then_score_then_arrival() {
    let mut queue = queue(vec![class("a", 1)]);
    queue.add(0, at(3_000), 5);
    queue.add(0, at(3_000), 6);
    queue.add(0, Terms { priority_jump: 2.5, ..at(5_000) }, 4);
    queue.add(0, Terms { due_at_ms: Some(90_000), ..at(9_000) }, 3);
    queue.add(0, Terms { due_at_ms: Some(80_000), ..at(9_500) }, 2);
    queue.add(0, Terms { strict_priority: 1, ..at(9_900) }, 1);
    queue.add(0, Terms { priority_jump: f64::NAN, ..at(4_000) }, 7);
    assert_eq!(queue.drain(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn each_policy_scores_as_its_users_know() {
    let jump = |priority_jump, terms| Terms { priority_jump, ..terms };
    for (queue_policy, order) in [
        (QueuePolicy::Fcfs, [3, 1, 2]),
        (QueuePolicy::Lcfs, [3, 2, 1]),
        (QueuePolicy::Wspt, [2, 3, 1]),
    ] {
        let profile = Profile::of_threshold(Some(0.5), queue_policy);
        let mut queue = Queue::new(Arc::new(profile));
        queue.add(0, Terms { cost_tokens: 900, ..at(1_000) }, 1);
        queue.add(0, Terms { cost_tokens: 100, ..at(2_000) }, 2);
        queue.add(0, jump(8.0, Terms { cost_tokens: 1_000, ..at(3_000) }), 3);
        assert_eq!(queue.drain(), order, "{queue_policy:?}");
    }
}

#[test]
fn strict_priority_never_waits_behind_lower_whatever_the_classes() {
    let mut queue = queue(vec![class("large", 1_000), class("small", 1)]);
    for ticket in 10..20 {
        queue.add(0, TERMS, ticket);
    }
    // In the middle of the large class's turn.
    assert_eq!(queue.next(|_, _| true).unwrap().ticket, 10);
    queue.add(1, Terms { strict_priority: 1, cost_tokens: 50_000, ..TERMS }, 1);
    queue.add(1, Terms { strict_priority: 2, cost_tokens: 50_000, ..TERMS }, 0);
    assert_eq!(queue.drain()[..3], [0, 1, 11]);
}

#[test]
fn classes_that_compete_share_by_their_quanta_and_a_turn_lasts_as_long_as_its_credit() {
    let mut queue = queue(vec![class("a", 3), class("b", 1)]);
    for ticket in 0..12 {
        queue.add(0, TERMS, ticket);
        queue.add(1, TERMS, 100 + ticket);
    }
    assert_eq!(queue.drain()[..8], [0, 1, 2, 100, 3, 4, 5, 101]);
}

#[test]
fn a_request_that_costs_many_rounds_is_served_in_its_turn_without_walking_them() {
    let mut queue = queue(vec![class("a", 1), class("b", 2)]);
    queue.add(0, Terms { cost_tokens: MOST_TOKENS, ..TERMS }, 0);
    for ticket in 1..4 {
        queue.add(1, Terms { cost_tokens: MOST_TOKENS, ..TERMS }, ticket);
    }
    // Twice the share: two of b for one of a.
    assert_eq!(queue.drain(), [1, 0, 2, 3]);
}

#[test]
fn a_class_that_empties_loses_its_credit() {
    let mut queue = queue(vec![class("a", 100), class("b", 1)]);
    queue.add(0, TERMS, 0);
    for ticket in 10..14 {
        queue.add(1, TERMS, ticket);
    }
    assert_eq!(queue.next(|_, _| true).unwrap().ticket, 0);
    // Ninety-nine were left. They are gone, so that this takes two more turns of a.
    queue.add(0, Terms { cost_tokens: 150, ..TERMS }, 1);
    assert_eq!(queue.drain(), [10, 11, 1, 12, 13]);
}

#[test]
fn nobody_gains_or_loses_anything_while_nobody_may_pass() {
    let mut queue = queue(vec![class("a", 3), class("b", 1)]);
    for ticket in 0..6 {
        queue.add(0, TERMS, ticket);
        queue.add(1, TERMS, 100 + ticket);
    }
    let mut served = Vec::new();
    while !queue.is_empty() {
        for _ in 0..5 {
            assert!(queue.next(|_, _| false).is_none());
        }
        served.push(queue.next(|_, _| true).unwrap().ticket);
    }
    assert_eq!(served[..8], [0, 1, 2, 100, 3, 4, 5, 101]);
}

#[test]
fn a_head_that_may_not_pass_holds_up_its_lane_and_nobody_else() {
    let mut queue = queue(vec![class("a", 1), class("b", 1)]);
    queue.add(0, TERMS, 0);
    queue.add(0, TERMS, 1);
    queue.add(0, Terms { lane: pinned(7), ..TERMS }, 2);
    queue.add(0, Terms { lane: pinned(8), ..TERMS }, 3);
    queue.add(0, Terms { lane: pinned(7), ..TERMS }, 4);
    queue.add(1, TERMS, 5);
    let mut asked = Vec::new();
    let mut free = |class: &ClassSpec, waiting: &Waiting<u32>| {
        asked.push(waiting.ticket);
        *class.name == *"b" || waiting.terms.lane == pinned(7)
    };
    let mut next = || queue.next(&mut free).map(|waiting| waiting.ticket);
    assert_eq!([next(), next(), next(), next()], [Some(2), Some(5), Some(4), None]);
    assert!(!asked.contains(&1), "it isn't at the head");
    assert_eq!(queue.len(), 3);
}

#[test]
fn who_crosses_a_limit_is_taken_and_the_next_is_not() {
    let rejected = |limit_kind, current, limit| QueueRejected {
        policy_class: "a".into(),
        limit_kind,
        current,
        limit,
    };
    let limited = |requests, isl, cached| ClassSpec {
        request_queue_limit_per_worker: requests,
        raw_isl_token_queue_limit_per_worker: isl,
        cached_token_queue_limit_per_worker: cached,
        ..class("a", 1)
    };
    let terms = Terms { isl_tokens: 70, cached_tokens: 30, ..TERMS };
    for (spec, taken, why) in [
        (limited(Some(2), None, None), 6, rejected(LimitKind::Requests, 6, 6)),
        (limited(None, Some(30), None), 2, rejected(LimitKind::RawIslTokens, 140, 90)),
        (limited(None, None, Some(25)), 3, rejected(LimitKind::CachedTokens, 90, 75)),
        (limited(Some(0), None, None), 0, rejected(LimitKind::Requests, 0, 0)),
    ] {
        let mut queue = queue(vec![spec, class("b", 1)]);
        for _ in 0..taken {
            queue.join(0, terms, 3, || 0).unwrap();
        }
        let refused = queue.join(0, terms, 3, || unreachable!("nobody waits")).unwrap_err();
        assert_eq!(refused, why);
        // Other classes have limits of their own, and room comes back.
        queue.join(1, terms, 3, || 0).unwrap();
        if taken > 0 {
            queue.next(|class, _| *class.name == *"a").unwrap();
            queue.join(0, terms, 3, || 0).unwrap();
        }
    }
    let text = rejected(LimitKind::RawIslTokens, 140, 90).to_string();
    assert_eq!(
        text,
        "class \"a\" has 140 prompt tokens waiting, and 90 may wait; try again later, or raise \
         `raw_isl_token_queue_limit_per_worker`"
    );
}

#[test]
fn no_more_wait_in_a_partition_than_the_memory_is_meant_for() {
    let mut queue = queue(vec![class("a", 1)]);
    for _ in 0..MOST_WAITING {
        queue.add(0, TERMS, 0);
    }
    let refused = queue.join(0, TERMS, 1, || 0).unwrap_err();
    assert_eq!((refused.limit_kind, refused.current), (LimitKind::Partition, 65_536));
    queue.next(|_, _| true).unwrap();
    queue.add(0, TERMS, 0);
}

#[test]
fn who_leaves_is_out_at_once_and_whoever_is_due_is_told_in_order() {
    let mut queue = queue(vec![class("a", 1)]);
    let due = |due_at_ms| Terms { due_at_ms: Some(due_at_ms), isl_tokens: 10, ..TERMS };
    let keys = [30, 10, 20, 40].map(|ms| queue.add(0, due(ms), ms as u32));
    assert_eq!(queue.take(keys[2]).unwrap().ticket, 20);
    assert!(queue.take(keys[2]).is_none());
    assert_eq!(
        queue.pending().next().unwrap().1,
        Pending { requests: 3, isl_tokens: 30, cached_tokens: 0 }
    );
    assert!(queue.take_late(9).is_none());
    let late = |queue: &mut Queue<u32>| queue.take_late(30).map(|waiting| waiting.ticket);
    assert_eq!([late(&mut queue), late(&mut queue), late(&mut queue)], [Some(10), Some(30), None]);
    assert!(queue.take(keys[0]).is_none());
    assert_eq!(queue.drain(), [40]);
    assert_eq!(queue.pending().next().unwrap().1, Pending::default());
}

#[test]
fn whoever_waits_stays_when_classes_change() {
    let mut queue = queue(vec![class("a", 1), class("b", 1)]);
    let long = Terms { cost_tokens: 100, ..at(1_000) };
    let short = Terms { cost_tokens: 10, due_at_ms: Some(70_000), ..at(2_000) };
    let keys = [queue.add(0, long, 0), queue.add(1, at(3_000), 1), queue.add(1, long, 2)];
    queue.add(0, short, 3);
    let wspt = ClassSpec {
        queue_policy: QueuePolicy::Wspt,
        request_queue_limit_per_worker: Some(0),
        ..class("c", 1)
    };
    queue.reclass(profile(vec![wspt]), |_, waiting| if waiting.ticket == 3 { 9 } else { 0 });
    assert_eq!((queue.len(), queue.pending().next().unwrap().1.requests), (4, 4));
    assert!(queue.join(0, TERMS, 1, || 9).is_err(), "limits are for those who come");
    assert_eq!(queue.take(keys[2]).unwrap().ticket, 2);
    assert_eq!(queue.drain(), [3, 1, 0]);
}
