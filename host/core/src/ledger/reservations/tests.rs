//! Promises of bookings that are owned by a name.

use super::*;
use crate::fleet::Fleet;
use crate::ids::{Role, WorkerId};
use crate::ledger::{Charge, Growth, Ledger, PromptBlocks, RowLoad};
use crate::testing::{fleet, key, rank, worker};

struct Fixture {
    fleet: Fleet,
    ledger: Arc<Ledger>,
    reservations: Reservations,
}

fn fixture() -> Fixture {
    let fleet = fleet([worker(1), worker(2)]);
    let ledger = Arc::new(Ledger::default());
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    Fixture { fleet, ledger, reservations: Reservations::new(Duration::from_secs(300), 3) }
}

const FIRST: AttemptId = AttemptId(1);
const SECOND: AttemptId = AttemptId(2);

impl Fixture {
    fn lease(&self, row: usize) -> Lease {
        let charge = Charge {
            prefill_tokens: 100,
            prompt: PromptBlocks::own(7),
            growth: Some(Growth::new(100, 16, None)),
            ..Charge::default()
        };
        self.ledger.book(&self.ledger.snapshot(), row, charge, 0).expect("the row is there")
    }

    fn add(
        &self,
        id: &str,
        attempt: AttemptId,
        row: usize,
        now_ms: u64,
    ) -> Result<(), ReserveError> {
        self.reservations.add(id.into(), attempt, self.lease(row), now_ms)
    }

    /// Every row's (requests, prefill tokens, decode blocks).
    fn loads(&self) -> Vec<(u64, u64, u64)> {
        let load = |load: RowLoad| {
            (load.active_requests, load.active_prefill_tokens, load.active_decode_blocks)
        };
        self.ledger.loads().into_iter().map(load).collect()
    }
}

#[test]
fn every_step_is_done_once_and_again_is_nothing() {
    let fixture = fixture();
    fixture.add("a", FIRST, 1, 0).expect("it is new");
    let all = &fixture.reservations;
    assert_eq!(all.worker_of("a"), Some(rank(2, 0)));
    assert_eq!(fixture.loads(), [(0, 0, 0), (1, 100, 7)]);
    assert_eq!(all.prefill_complete("a", FIRST, 1), Change::Done);
    assert_eq!(all.prefill_complete("a", FIRST, 2), Change::None);
    assert_eq!(fixture.loads()[1], (1, 0, 7));
    assert_eq!(all.output_block("a", FIRST, None, 3), Change::Done);
    assert_eq!(fixture.loads()[1], (1, 0, 8));
    // Half is still to come: so all eight weigh half.
    assert_eq!(all.output_block("a", FIRST, Some(0.5), 3), Change::Done);
    assert_eq!(fixture.loads()[1], (1, 0, 5), "nine halves, rounded");
    assert_eq!(all.free("a", FIRST), Change::Done);
    assert_eq!(all.free("a", FIRST), Change::None);
    assert_eq!((fixture.loads(), all.len()), (vec![(0, 0, 0); 2], 0));
    assert_eq!(all.worker_of("a"), None);
}

#[test]
fn a_second_booking_of_a_request_is_refused_by_the_worker_that_has_it() {
    let fixture = fixture();
    fixture.add("a", FIRST, 1, 0).expect("it is new");
    for attempt in [FIRST, SECOND] {
        let error = fixture.add("a", attempt, 0, 0).expect_err("it is there");
        let expected = ReserveError::Duplicate { request_id: "a".into(), worker: rank(2, 0) };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("\"a\""), "{error}");
    }
    assert_eq!(fixture.loads(), [(0, 0, 0), (1, 100, 7)], "what was refused is given back");
}

#[test]
fn a_late_word_of_an_old_attempt_changes_nothing_of_the_new_one() {
    let fixture = fixture();
    let all = &fixture.reservations;
    fixture.add("a", FIRST, 0, 0).expect("it is new");
    assert_eq!(all.free("a", FIRST), Change::Done);
    fixture.add("a", SECOND, 1, 0).expect("the first is over");
    assert_eq!(all.free("a", FIRST), Change::None);
    assert_eq!(all.prefill_complete("a", FIRST, 0), Change::None);
    assert_eq!(all.output_block("a", FIRST, None, 0), Change::None);
    assert_eq!(all.progress("a", FIRST, 500, 0), Change::None);
    assert_eq!(all.touch("a", FIRST, 0), Change::None);
    assert_eq!(fixture.loads(), [(0, 0, 0), (1, 100, 7)]);
    assert_eq!(all.progress("a", SECOND, 13, 0), Change::Done);
    assert_eq!(fixture.loads(), [(0, 0, 0), (1, 0, 8)], "113 tokens are eight blocks");
}

#[test]
fn the_load_of_an_owner_that_vanished_goes_after_five_minutes_without_a_word() {
    let fixture = fixture();
    let all = &fixture.reservations;
    for (id, at) in [("a", 0), ("b", 0), ("c", 10)] {
        fixture.add(id, FIRST, 0, at).expect("it is new");
    }
    assert_eq!(all.touch("b", FIRST, 200_000), Change::Done);
    assert_eq!(all.expire(299_999), 0);
    assert_eq!(all.expire(300_000), 1, "a");
    assert_eq!(all.expire(499_999), 1, "c");
    assert_eq!(fixture.loads()[0].0, 1);
    assert_eq!(all.expire(500_000), 1, "b, which was spoken of");
    assert_eq!((fixture.loads(), all.is_empty()), (vec![(0, 0, 0); 2], true));
    assert_eq!(Reservations::<()>::default().expiry_ms, 300_000);
    assert_eq!(Reservations::<()>::new(Duration::ZERO, 1).expiry_ms, 300_000, "never is no choice");
}

#[test]
fn there_are_never_more_than_so_many_and_who_comes_looks_for_the_expired() {
    let fixture = fixture();
    for id in ["a", "b", "c"] {
        fixture.add(id, FIRST, 0, 1_000).expect("there is room");
    }
    assert_eq!(fixture.add("d", FIRST, 0, 300_000), Err(ReserveError::Full { most: 3 }));
    assert_eq!(fixture.loads()[0].0, 3);
    // Half a minute has not gone by since the last look.
    assert_eq!(fixture.add("d", FIRST, 0, 301_000), Err(ReserveError::Full { most: 3 }));
    fixture.add("d", FIRST, 0, 330_000).expect("the others have expired");
    assert_eq!((fixture.loads()[0].0, fixture.reservations.len()), (1, 1));
}

#[test]
fn a_worker_that_left_takes_its_load_along_and_its_owners_end_in_peace() {
    let mut fixture = fixture();
    fixture.add("a", FIRST, 0, 0).expect("it is new");
    fixture.fleet.remove(WorkerId(1)).expect("it is there");
    fixture.fleet.upsert(worker(1)).expect("it is taken");
    fixture.ledger.realign(fixture.fleet.snapshot(&key(Role::Aggregated)));
    assert_eq!(fixture.loads(), [(0, 0, 0); 2]);
    let all = &fixture.reservations;
    let _ = all.progress("a", FIRST, 1_000, 0);
    assert_eq!(all.free("a", FIRST), Change::Done);
    assert_eq!(fixture.loads(), [(0, 0, 0); 2]);
    assert_eq!(fixture.ledger.live_leases(), 0);
}

#[test]
fn each_booking_has_a_lease_of_its_own_and_what_goes_along_ends_with_it() {
    let fixture = fixture();
    let all = Reservations::<Arc<()>>::new(Duration::from_secs(300), 10);
    let (short, long) = (Arc::new(()), Arc::new(()));
    let terms = |ms, companion: &Arc<()>| Terms {
        expiry: Some(Duration::from_millis(ms)),
        companion: companion.clone(),
    };
    all.add_on("short".into(), FIRST, fixture.lease(0), terms(100, &short), 0).expect("new");
    all.add_on("long".into(), FIRST, fixture.lease(0), terms(10_000, &long), 0).expect("new");
    let again = all.add_on("long".into(), SECOND, fixture.lease(1), terms(1, &short), 0);
    assert!(matches!(again, Err(ReserveError::Duplicate { .. })));
    assert_eq!((Arc::strong_count(&short), fixture.loads()[1].0), (2, 0), "what wasn't taken ends");
    assert_eq!(all.expire(99), 0);
    assert_eq!(all.step("short", FIRST, 50, |lease, _| lease.worker()), Some(rank(1, 0)));
    let view = |id| all.view(id, 60, |view, _| (view.expiry_ms, view.expires_in_ms));
    assert_eq!(
        (view("short"), view("long"), view("none")),
        (Some((100, 90)), Some((10_000, 9_940)), None)
    );
    assert_eq!(all.expire(149), 0, "somebody spoke of it at 50");
    assert_eq!(all.expire(150), 1);
    assert_eq!((Arc::strong_count(&short), fixture.loads()[0].0), (1, 1));
    let taken = all.take("long", SECOND).map(|_| ());
    assert_eq!(taken, None, "another attempt's");
    let taken = all.take("long", FIRST);
    assert!(taken.is_some() && all.is_empty() && fixture.loads()[0].0 == 1);
    drop(taken);
    assert_eq!((Arc::strong_count(&long), fixture.loads()[0].0), (1, 0));
}

#[test]
fn a_look_for_the_expired_misses_none_whatever_was_added_renewed_and_freed() {
    let fixture = fixture();
    let all = Reservations::<()>::new(Duration::from_secs(300), 1_000);
    let mut ends = std::collections::BTreeMap::new();
    let mut chance = crate::clock::Chance::new(7);
    for step in 0..2_000_u64 {
        let now = step * 5;
        let id = format!("r{}", chance.below(40));
        match chance.below(4) {
            0 | 1 => {
                let ms = 1 + chance.below(400) as u64;
                let expiry = Some(Duration::from_millis(ms));
                let terms = Terms { expiry, companion: () };
                if all.add_on(id.as_str().into(), FIRST, fixture.lease(0), terms, now).is_ok() {
                    ends.insert(id, (now + ms, ms));
                }
            }
            2 => {
                if all.touch(&id, FIRST, now) == Change::Done {
                    let ms = ends[&id].1;
                    ends.insert(id, (now + ms, ms));
                }
            }
            _ => {
                let freed = all.free(&id, FIRST) == Change::Done;
                assert_eq!(freed, ends.remove(&id).is_some(), "{id} at {now}");
            }
        }
        let before = ends.len();
        ends.retain(|_, (end, _)| *end > now);
        assert_eq!(all.expire(now), before - ends.len(), "at {now}");
        assert_eq!((all.len(), fixture.ledger.live_leases()), (ends.len(), ends.len() as u64));
    }
}

#[test]
fn many_that_end_at_once_are_given_back_a_few_at_a_time_and_all_of_them() {
    let fixture = fixture();
    let all = Reservations::<()>::new(Duration::from_millis(100), 10_000);
    let many = 5 * AT_A_TIME + 7;
    for i in 0..many {
        all.add(format!("r{i}").as_str().into(), FIRST, fixture.lease(0), 0).expect("new");
    }
    let (some, is_last) = all.some_expired(100);
    assert_eq!((some.len(), is_last, all.len()), (AT_A_TIME, false, many - AT_A_TIME));
    drop(some);
    assert_eq!(all.expire(100), many - AT_A_TIME);
    assert_eq!((all.is_empty(), fixture.ledger.live_leases()), (true, 0));
}

#[test]
fn the_line_of_ends_has_each_booking_once_however_often_it_is_renewed_and_freed() {
    let fixture = fixture();
    let all = Reservations::<()>::new(Duration::from_millis(100), 10_000);
    for round in 0..50 {
        let now = round * 40;
        for i in 0..10 {
            let id = format!("r{i}");
            let _ = all.touch(&id, FIRST, now);
            if i % 3 == 0 {
                let _ = all.free(&id, FIRST);
            }
            let _ = all.add(id.as_str().into(), FIRST, fixture.lease(0), now);
        }
        assert_eq!(all.expire(now), 0, "all were spoken of");
        assert_eq!((all.len(), all.state.lock().line.len()), (10, 10));
    }
    assert_eq!(all.expire(50 * 40 + 100), 10);
    assert_eq!(all.state.lock().line.len(), 0);
}

#[test]
fn a_booking_is_taken_only_if_it_is_the_one_that_is_meant() {
    let fixture = fixture();
    let all = Reservations::<u8>::new(Duration::from_secs(1), 10);
    let terms = Terms { expiry: None, companion: 7 };
    all.add_on("a".into(), FIRST, fixture.lease(0), terms, 0).expect("new");
    assert!(all.take_if("a", FIRST, |&companion| companion == 8).is_none());
    assert_eq!((all.len(), fixture.loads()[0].0), (1, 1));
    assert!(all.take_if("a", FIRST, |&companion| companion == 7).is_some());
    assert_eq!((all.len(), fixture.loads()[0].0), (0, 0));
}
