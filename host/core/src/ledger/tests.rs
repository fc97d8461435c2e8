//! Promises of the ledger.

use proptest::prelude::*;

use super::*;
use crate::fleet::{Fleet, WorkerSpec};
use crate::ids::Role;
use crate::testing::{fleet, key, rank, ranked, worker};

fn ledger(fleet: &Fleet) -> Arc<Ledger> {
    let ledger = Arc::new(Ledger::default());
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    ledger
}

fn charge(prefill_tokens: u64, decode_blocks: u64) -> Charge {
    Charge { prefill_tokens, decode_blocks }
}

/// Every row's (requests, prefill tokens, decode blocks).
fn loads(ledger: &Ledger) -> Vec<(u64, u64, u64)> {
    let loads = ledger.loads().into_iter();
    loads.map(|l| (l.active_requests, l.active_prefill_tokens, l.active_decode_blocks)).collect()
}

#[test]
fn a_booking_is_there_until_its_lease_is_dropped() {
    let ledger = ledger(&fleet([worker(1), worker(2)]));
    let snapshot = ledger.snapshot();
    let mut first = ledger.book(&snapshot, 1, charge(100, 7)).expect("the row is there");
    let second = ledger.book(&snapshot, 1, charge(50, 4)).expect("the row is there");
    assert_eq!(loads(&ledger), [(0, 0, 0), (2, 150, 11)]);
    assert_eq!(ledger.active_requests_of(WorkerId(2)), 2);
    first.prefill_done();
    first.prefill_done();
    assert_eq!(loads(&ledger), [(0, 0, 0), (2, 50, 11)], "prefill is given back once");
    drop(second);
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 0, 7)]);
    assert_eq!(ledger.live_leases(), 1);
    drop(first);
    assert_eq!(loads(&ledger), [(0, 0, 0), (0, 0, 0)]);
    assert_eq!(ledger.live_leases(), 0);
}

#[test]
fn load_follows_its_row_when_the_fleet_changes() {
    let mut fleet = fleet([worker(2), ranked(5, 0, 2)]);
    let ledger = ledger(&fleet);
    let lease = ledger.book(&ledger.snapshot(), 2, charge(8, 1)).expect("the row is there");
    fleet.upsert(worker(1)).expect("it is taken");
    fleet.remove(WorkerId(2)).expect("it is there");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    assert_eq!(loads(&ledger), [(0, 0, 0), (0, 0, 0), (1, 8, 1)]);
    assert_eq!(lease.worker(), rank(5, 1));
    drop(lease);
    assert_eq!(loads(&ledger), [(0, 0, 0); 3]);
}

#[test]
fn an_earlier_life_of_a_worker_never_touches_a_later_one() {
    let mut fleet = fleet([worker(1)]);
    let ledger = ledger(&fleet);
    let old_fleet = ledger.snapshot();
    let old = ledger.book(&old_fleet, 0, charge(8, 1)).expect("the row is there");
    fleet.remove(WorkerId(1)).expect("it is there");
    fleet.upsert(worker(1)).expect("it is taken");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    assert_eq!(loads(&ledger), [(0, 0, 0)], "what the earlier life carried is forgotten");
    let new = ledger.book(&ledger.snapshot(), 0, charge(3, 2)).expect("the row is there");
    assert_eq!(ledger.live_leases(), 2);
    drop(old);
    assert_eq!(loads(&ledger), [(1, 3, 2)]);
    assert!(ledger.book(&old_fleet, 0, charge(1, 1)).is_none(), "chosen from an old fleet");
    drop(new);
    assert_eq!((loads(&ledger), ledger.live_leases()), (vec![(0, 0, 0)], 0));
}

#[test]
fn a_choice_from_an_old_fleet_is_booked_where_its_row_is_now() {
    let mut fleet = fleet([worker(2)]);
    let ledger = ledger(&fleet);
    let old = ledger.snapshot();
    fleet.upsert(worker(1)).expect("it is taken");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    let lease = ledger.book(&old, 0, charge(8, 1)).expect("worker 2 is still there");
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 8, 1)]);
    drop(lease);
    assert_eq!(loads(&ledger), [(0, 0, 0), (0, 0, 0)]);
    assert!(ledger.book(&old, 1, charge(1, 1)).is_none(), "there was no such row");
}

#[test]
fn an_older_fleet_never_takes_the_place_of_a_newer_one() {
    let mut fleet = fleet([worker(1)]);
    let ledger = Arc::new(Ledger::default());
    let old = fleet.snapshot(&key(Role::Aggregated));
    fleet.upsert(worker(2)).expect("it is taken");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    ledger.realign(old);
    assert_eq!(ledger.snapshot().rows.len(), 2);
}

#[test]
fn charges_past_all_reason_are_still_given_back_exactly() {
    let ledger = ledger(&fleet([worker(1)]));
    let snapshot = ledger.snapshot();
    let huge = ledger.book(&snapshot, 0, charge(u64::MAX, u64::MAX)).expect("the row is there");
    let small = ledger.book(&snapshot, 0, charge(3, 1)).expect("the row is there");
    assert_eq!(loads(&ledger), [(2, MAX_CHARGE + 3, MAX_CHARGE + 1)]);
    drop(huge);
    assert_eq!(loads(&ledger), [(1, 3, 1)]);
    drop(small);
    assert_eq!(loads(&ledger), [(0, 0, 0)]);
}

/// What may happen to a ledger. Numbers choose among what there is then.
#[derive(Clone, Debug)]
enum Step {
    Book(usize, Charge),
    BookFromOldFleet(usize, Charge),
    PrefillDone(usize),
    Drop(usize),
    Register(u64, u32),
    Remove(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let charge = || (0..5_000_u64, 0..300_u64).prop_map(|(tokens, blocks)| charge(tokens, blocks));
    prop_oneof![
        4 => (any::<usize>(), charge()).prop_map(|(row, charge)| Step::Book(row, charge)),
        1 => (any::<usize>(), charge()).prop_map(|(row, charge)| Step::BookFromOldFleet(row, charge)),
        2 => any::<usize>().prop_map(Step::PrefillDone),
        3 => any::<usize>().prop_map(Step::Drop),
        1 => (0..4_u64, 1..4_u32).prop_map(|(id, ranks)| Step::Register(id, ranks)),
        1 => (0..4_u64).prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn the_columns_are_always_the_sum_of_the_live_leases(steps in prop::collection::vec(step(), 1..80)) {
        let mut fleet = fleet([worker(0), ranked(1, 3, 2)]);
        let ledger = ledger(&fleet);
        let mut old_fleet = ledger.snapshot();
        // The model: each lease beside what it still holds.
        let mut leases: Vec<(Lease, Charge)> = Vec::new();
        for step in steps {
            match step {
                Step::Book(row, charge) | Step::BookFromOldFleet(row, charge) => {
                    let from = match step {
                        Step::Book(..) => ledger.snapshot(),
                        _ => old_fleet.clone(),
                    };
                    let row = row % from.rows.len().max(1);
                    if let Some(lease) = ledger.book(&from, row, charge) {
                        prop_assert_eq!(lease.worker(), from.rows[row]);
                        leases.push((lease, charge));
                    }
                }
                Step::PrefillDone(at) if !leases.is_empty() => {
                    let at = at % leases.len();
                    leases[at].0.prefill_done();
                    leases[at].1.prefill_tokens = 0;
                }
                Step::Drop(at) if !leases.is_empty() => {
                    leases.swap_remove(at % leases.len());
                }
                Step::PrefillDone(_) | Step::Drop(_) => {}
                Step::Register(id, ranks) => {
                    old_fleet = ledger.snapshot();
                    let spec = WorkerSpec { taints: [ranks.to_string()].into(), ..ranked(id, id as u32, ranks) };
                    fleet.upsert(spec).expect("it is taken");
                    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
                }
                Step::Remove(id) => {
                    old_fleet = ledger.snapshot();
                    let _ = fleet.remove(WorkerId(id));
                    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
                }
            }
            let snapshot = ledger.snapshot();
            let expected: Vec<_> = snapshot.rows.iter().enumerate().map(|(row, &rank)| {
                let epoch = snapshot.worker(row).map(|worker| worker.epoch);
                let mine = leases.iter().filter(|(lease, _)| {
                    lease.worker() == rank && Some(lease.epoch()) == epoch
                });
                mine.fold((0, 0, 0), |sum, (_, held)| {
                    (sum.0 + 1, sum.1 + held.prefill_tokens, sum.2 + held.decode_blocks)
                })
            }).collect();
            prop_assert_eq!(loads(&ledger), expected);
            prop_assert_eq!(ledger.live_leases(), leases.len() as u64);
            ledger.read(|books| {
                let columns = &books.columns;
                let all = [&columns.active_requests, &columns.active_prefill_tokens, &columns.active_decode_blocks];
                assert!(all.iter().all(|column| column.iter().all(|load| *load >= 0.0)));
            });
        }
        leases.clear();
        prop_assert!(loads(&ledger).iter().all(|load| *load == (0, 0, 0)));
        prop_assert_eq!(ledger.live_leases(), 0);
    }
}
