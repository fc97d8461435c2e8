//! Promises of the ledger.

mod blocks;
mod growth;
mod prefill;
mod properties;

use super::*;
use crate::fleet::Fleet;
use crate::ids::{Role, WorkerId};
use crate::testing::{fleet, key, rank, ranked, worker};

fn ledger(fleet: &Fleet) -> Arc<Ledger> {
    let ledger = Arc::new(Ledger::default());
    realign(&ledger, fleet);
    ledger
}

fn charge(prefill_tokens: u64, decode_blocks: u64) -> Charge<'static> {
    Charge { prefill_tokens, prompt: PromptBlocks::own(decode_blocks), ..Charge::default() }
}

/// Books at the beginning of time.
fn book(ledger: &Arc<Ledger>, row: usize, charge: Charge<'_>) -> Lease {
    ledger.book(&ledger.snapshot(), row, charge, 0).expect("the row is there")
}

fn realign(ledger: &Ledger, fleet: &Fleet) {
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
}

/// A second count finds nothing wrong.
fn check(ledger: &Ledger) {
    let audit = ledger.audit();
    assert_eq!(audit.wrong, 0, "{audit:?}");
    assert_eq!(audit.bookings, ledger.live_leases());
    ledger.read(|books| books.blocks.check());
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
    let mut first = ledger.book(&snapshot, 1, charge(100, 7), 0).expect("the row is there");
    let second = ledger.book(&snapshot, 1, charge(50, 4), 0).expect("the row is there");
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
fn prefill_that_is_added_is_given_back_like_any() {
    let mut fleet = fleet([worker(1), worker(2)]);
    let ledger = ledger(&fleet);
    let mut lease = ledger.book(&ledger.snapshot(), 1, charge(0, 7), 0).expect("the row is there");
    lease.prefill_added(100);
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 100, 7)]);
    lease.prefill_done();
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 0, 7)]);
    lease.prefill_added(u64::MAX);
    fleet.remove(WorkerId(2)).expect("it is there");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    lease.prefill_added(100);
    assert_eq!(loads(&ledger), [(0, 0, 0)]);
    drop(lease);
    assert_eq!(loads(&ledger), [(0, 0, 0)]);
}

#[test]
fn load_follows_its_row_when_the_fleet_changes() {
    let mut fleet = fleet([worker(2), ranked(5, 0, 2)]);
    let ledger = ledger(&fleet);
    let lease = ledger.book(&ledger.snapshot(), 2, charge(8, 1), 0).expect("the row is there");
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
    let old = ledger.book(&old_fleet, 0, charge(8, 1), 0).expect("the row is there");
    fleet.remove(WorkerId(1)).expect("it is there");
    fleet.upsert(worker(1)).expect("it is taken");
    ledger.realign(fleet.snapshot(&key(Role::Aggregated)));
    assert_eq!(loads(&ledger), [(0, 0, 0)], "what the earlier life carried is forgotten");
    let new = ledger.book(&ledger.snapshot(), 0, charge(3, 2), 0).expect("the row is there");
    assert_eq!(ledger.live_leases(), 2);
    drop(old);
    assert_eq!(loads(&ledger), [(1, 3, 2)]);
    assert!(ledger.book(&old_fleet, 0, charge(1, 1), 0).is_none(), "chosen from an old fleet");
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
    let lease = ledger.book(&old, 0, charge(8, 1), 0).expect("worker 2 is still there");
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 8, 1)]);
    drop(lease);
    assert_eq!(loads(&ledger), [(0, 0, 0), (0, 0, 0)]);
    assert!(ledger.book(&old, 1, charge(1, 1), 0).is_none(), "there was no such row");
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
    let huge = ledger.book(&snapshot, 0, charge(u64::MAX, u64::MAX), 0).expect("the row is there");
    let small = ledger.book(&snapshot, 0, charge(3, 1), 0).expect("the row is there");
    assert_eq!(loads(&ledger), [(2, MAX_CHARGE + 3, MAX_CHARGE + 1)]);
    drop(huge);
    assert_eq!(loads(&ledger), [(1, 3, 1)]);
    drop(small);
    assert_eq!(loads(&ledger), [(0, 0, 0)]);
}

#[test]
fn a_worker_that_only_got_other_marks_keeps_its_load_and_one_that_restarts_begins_at_zero() {
    let mut fleet = fleet([ranked(1, 0, 2), worker(2)]);
    let ledger = ledger(&fleet);
    let shared: Arc<[u64]> = [1, 2, 3].into();
    let on = |ledger: &Arc<Ledger>, row| {
        let prompt = PromptBlocks::shared(&shared, 4);
        book(ledger, row, Charge { prefill_tokens: 10, prompt, ..Charge::default() })
    };
    let leases = [on(&ledger, 1), on(&ledger, 1), on(&ledger, 2)];
    assert_eq!(loads(&ledger), [(0, 0, 0), (2, 20, 5), (1, 10, 4)]);
    let mut marked = ranked(1, 0, 2);
    marked.taints = ["gpu".to_owned()].into();
    fleet.upsert(marked).expect("it is taken");
    realign(&ledger, &fleet);
    assert_eq!(loads(&ledger), [(0, 0, 0), (2, 20, 5), (1, 10, 4)]);
    // It restarts with more ranks; the other's rows move.
    fleet.upsert(ranked(1, 0, 3)).expect("it is taken");
    realign(&ledger, &fleet);
    assert_eq!(loads(&ledger), [(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 10, 4)]);
    check(&ledger);
    // What was booked on the life before is shared with nobody in the new one.
    let again = on(&ledger, 1);
    assert_eq!(loads(&ledger)[1], (1, 10, 4));
    let [mut first, second, other] = leases;
    first.prefill_done();
    first.progress(1_000);
    drop((first, second));
    assert_eq!(loads(&ledger), [(0, 0, 0), (1, 10, 4), (0, 0, 0), (1, 10, 4)]);
    check(&ledger);
    drop((again, other));
    assert_eq!((loads(&ledger), ledger.live_leases()), (vec![(0, 0, 0); 4], 0));
    ledger.read(|books| assert_eq!(books.blocks.len(), 0));
}

#[test]
fn a_second_count_sees_what_is_wrong() {
    let ledger = ledger(&fleet([worker(1), worker(2)]));
    let chain: Arc<[u64]> = [1, 2, 3].into();
    let charge =
        Charge { prefill_tokens: 5, prompt: PromptBlocks::shared(&chain, 3), ..Charge::default() };
    let _lease = book(&ledger, 1, charge);
    check(&ledger);
    let wrong = |spoil: &dyn Fn(&mut Books)| {
        let mut books = ledger.books.lock();
        spoil(&mut books);
        drop(books);
        let audit = ledger.audit();
        assert_eq!(audit.wrong as usize, audit.discrepancies.len());
        audit.discrepancies
    };
    let found = wrong(&|books| books.columns.active_requests[0] += 1.0);
    let expected =
        Discrepancy { worker: rank(1, 0), column: "active_requests", shown: 1.0, expected: 0.0 };
    assert_eq!(found, [expected]);
    let columns = |found: Vec<Discrepancy>| found.iter().map(|d| d.column).collect::<Vec<_>>();
    let found = wrong(&|books| books.columns.active_requests[0] = 0.0);
    assert!(found.is_empty());
    // Less than is rounded to nothing is still wrong.
    assert_eq!(columns(wrong(&|books| books.weights[1] += 1)), ["active_decode_blocks"]);
    let _ = wrong(&|books| books.weights[1] -= 1);
    assert_eq!(
        columns(wrong(&|books| {
            books.blocks.hold(&[1, 2].into(), 2, 1, 77, |_, _| {});
        })),
        ["active_block_holders"]
    );
}
