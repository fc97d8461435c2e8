//! Promises under random traffic, on a virtual clock.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::clock::Chance;

/// Fairness under overload: arrivals at three times the capacity, three classes, requests of 50 to
/// 4,000 tokens.
#[test]
fn under_overload_each_class_gets_its_quantums_share_of_the_served_tokens() {
    // Shares that the traffic's own shares don't follow.
    let quanta = [5_000, 3_000, 2_000];
    let names = ["gold", "silver", "bronze"];
    for seed in 0..3 {
        let mut queue =
            queue(names.iter().zip(quanta).map(|(name, quantum)| class(name, quantum)).collect());
        let mut chance = Chance::new(seed);
        let (mut served, mut free_at, mut arrived) = ([0_u64; 3], 0_u64, 0_u64);
        // One worker computes a token in a microsecond; three tokens come in the same time.
        for now_us in (0..20_000_000_u64).step_by(1_000) {
            while arrived < 3 * now_us {
                let cost = 50 + chance.below(3_951) as u64;
                arrived += cost;
                let terms = Terms { cost_tokens: cost, ..at(now_us / 1_000) };
                // As much of each class as of any other.
                let _ = queue.join(chance.below(3), terms, 1, || 0);
            }
            while free_at <= now_us {
                let Some(next) = queue.next(|_, _| true) else { break };
                free_at = free_at.max(now_us) + next.terms.cost_tokens;
                served[next.class] += next.terms.cost_tokens;
            }
        }
        let all: u64 = served.iter().sum();
        assert!(all > 10_000_000, "the worker was at work");
        for (class, quantum) in quanta.into_iter().enumerate() {
            let (share, due) = (served[class] as f64 / all as f64, quantum as f64 / 10_000.0);
            let off = (share / due - 1.0).abs();
            assert!(off < 0.02, "{}: {share} of {due}", names[class]);
        }
    }
}

/// What a request of the model is.
#[derive(Clone, Debug)]
enum Step {
    Join { class: usize, lane: u64, strict: u32, due: Option<u64>, cost: u64, jump: u8 },
    Leave(usize),
    Serve { busy_lanes: u8, busy_classes: u8 },
    Pass(u64),
    Reclass(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let due = prop::option::of(0..200_u64);
    prop_oneof![
        6 => (0..3_usize, 0..4_u64, 0..3_u32, due, 1..500_u64, 0..3_u8).prop_map(
            |(class, lane, strict, due, cost, jump)| Step::Join { class, lane, strict, due, cost, jump }
        ),
        2 => (0..100_usize).prop_map(Step::Leave),
        5 => (any::<u8>(), 0..8_u8)
            .prop_map(|(busy_lanes, busy_classes)| Step::Serve { busy_lanes, busy_classes }),
        1 => (1..50_u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Reclass),
    ]
}

/// Somebody of the model.
#[derive(Clone, Debug)]
struct Guest {
    class: usize,
    terms: Terms,
    key: QueueKey,
}

fn policy(class: usize, other: bool) -> QueuePolicy {
    if (class == 1) == other { QueuePolicy::Fcfs } else { QueuePolicy::Wspt }
}

fn classes(other: bool) -> Arc<Profile> {
    let spec = |at| ClassSpec {
        queue_policy: policy(at, other),
        request_queue_limit_per_worker: (at == 2).then_some(4),
        ..class(["a", "b", "c"][at], 1 + at as u64 * 100)
    };
    profile((0..3).map(spec).collect())
}

/// Whether `one` is before `other` in the same class, by the rules as they are written.
fn before(one: &Guest, other: &Guest, policy: QueuePolicy) -> bool {
    let score = |guest: &Guest| match policy {
        QueuePolicy::Fcfs => guest.terms.priority_jump - guest.terms.arrived_ms as f64 / 1_000.0,
        QueuePolicy::Lcfs => guest.terms.priority_jump + guest.terms.arrived_ms as f64 / 1_000.0,
        QueuePolicy::Wspt => (1.0 + guest.terms.priority_jump) / guest.terms.cost_tokens as f64,
    };
    let due = |guest: &Guest| guest.terms.due_at_ms.unwrap_or(u64::MAX);
    if one.terms.strict_priority != other.terms.strict_priority {
        return one.terms.strict_priority > other.terms.strict_priority;
    }
    if due(one) != due(other) {
        return due(one) < due(other);
    }
    if score(one) != score(other) {
        return score(one) > score(other);
    }
    one.key < other.key
}

fn is_free(waits: &Terms, class: usize, busy_lanes: u8, busy_classes: u8) -> bool {
    let lane = match waits.lane {
        Lane::Target(target) => target.worker_id.0,
        Lane::Anybody | Lane::Narrowed(_) => 0,
    };
    busy_lanes >> (lane * 2) & 1 == 0 && busy_classes >> class & 1 == 0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_and_goes_the_queue_is_what_a_slow_one_would_be(
        steps in prop::collection::vec(step(), 1..150)
    ) {
        let mut other = false;
        let mut queue: Queue<u32> = Queue::new(classes(other));
        let mut guests: BTreeMap<u32, Guest> = BTreeMap::new();
        let (mut now_ms, mut tickets) = (0, 0);
        for step in steps {
            match step {
                Step::Join { class, lane, strict, due, cost, jump } => {
                    tickets += 1;
                    let terms = Terms {
                        lane: if lane > 0 { pinned(lane) } else { Lane::Anybody },
                        strict_priority: strict,
                        priority_jump: f64::from(jump),
                        due_at_ms: due.map(|due| now_ms + due),
                        arrived_ms: now_ms,
                        cost_tokens: cost,
                        isl_tokens: cost + 10,
                        cached_tokens: 10,
                    };
                    let there = guests.values().filter(|guest| guest.class == class).count();
                    match queue.join(class, terms, 2, || tickets) {
                        Ok(key) => {
                            prop_assert!(class != 2 || there < 8);
                            guests.insert(tickets, Guest { class, terms, key });
                        }
                        Err(rejected) => prop_assert_eq!((class, rejected.current), (2, there as u64)),
                    }
                }
                Step::Leave(nth) => {
                    let Some((&ticket, guest)) = guests.iter().nth(nth % guests.len().max(1)) else {
                        continue;
                    };
                    prop_assert_eq!(queue.take(guest.key).map(|waiting| waiting.ticket), Some(ticket));
                    prop_assert!(queue.take(guest.key).is_none(), "gone at once");
                    guests.remove(&ticket);
                }
                Step::Serve { busy_lanes, busy_classes } => {
                    let free = |guest: &Guest| {
                        is_free(&guest.terms, guest.class, busy_lanes, busy_classes)
                    };
                    let served = queue.next(|spec, waiting| {
                        let class = ["a", "b", "c"].iter().position(|name| *name == &*spec.name);
                        is_free(&waiting.terms, class.unwrap(), busy_lanes, busy_classes)
                    });
                    let heads: Vec<_> = guests
                        .values()
                        .filter(|guest| !guests.values().any(|rival| {
                            (rival.class, rival.terms.lane) == (guest.class, guest.terms.lane)
                                && before(rival, guest, policy(guest.class, other))
                        }))
                        .filter(|guest| free(guest))
                        .collect();
                    let highest = heads.iter().map(|guest| guest.terms.strict_priority).max();
                    match served {
                        None => prop_assert!(heads.is_empty(), "somebody could have passed"),
                        Some(waiting) => {
                            let guest = guests.get(&waiting.ticket).unwrap().clone();
                            prop_assert_eq!(Some(guest.terms.strict_priority), highest);
                            let passed = heads.iter().any(|head| {
                                head.class == guest.class
                                    && before(head, &guest, policy(guest.class, other))
                            });
                            prop_assert!(!passed, "somebody of its class was first");
                            prop_assert!(heads.iter().any(|head| head.key == guest.key));
                            prop_assert_eq!(waiting.class, guest.class);
                            guests.remove(&waiting.ticket);
                        }
                    }
                }
                Step::Pass(ms) => {
                    now_ms += ms;
                    while let Some(late) = queue.take_late(now_ms) {
                        let guest = guests.remove(&late.ticket).unwrap();
                        prop_assert!(guest.terms.due_at_ms.unwrap() <= now_ms);
                    }
                    let outlives = |guest: &Guest| guest.terms.due_at_ms.is_some_and(|due| due <= now_ms);
                    prop_assert!(!guests.values().any(outlives));
                }
                Step::Reclass(to) => {
                    other = to;
                    // Whoever is of a becomes b, and the other way round.
                    let swap = |class: usize| [1, 0, 2][class];
                    queue.reclass(classes(other), |_, waiting| swap(waiting.class));
                    guests.values_mut().for_each(|guest| guest.class = swap(guest.class));
                }
            }
            prop_assert_eq!(queue.len(), guests.len());
            for (class, (_, pending)) in queue.pending().enumerate() {
                let of = || guests.values().filter(|guest| guest.class == class);
                let isl: u64 = of().map(|guest| guest.terms.isl_tokens).sum();
                prop_assert_eq!(pending, Pending {
                    requests: of().count() as u64,
                    isl_tokens: isl,
                    cached_tokens: 10 * of().count() as u64,
                });
            }
        }
        prop_assert_eq!(queue.drain().len(), guests.len());
        prop_assert!(queue.places.is_empty() && queue.due.is_empty());
    }
}
