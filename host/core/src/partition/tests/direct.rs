//! Promises of bookings that somebody else has decided.

use super::*;
use crate::partition::DirectError;

/// A prompt of four whole blocks and half a block.
fn prompt() -> RouteRequest {
    RouteRequest { chain: [1, 2, 3, 4].into(), prompt_tokens_exact: true, ..request(72) }
}

fn row(router: &Router, row: usize) -> (u64, u64, u64) {
    let load = partition(router).ledger().loads()[row];
    (load.active_requests, load.active_prefill_tokens, load.active_decode_blocks)
}

fn book(
    router: &Router,
    request: &RouteRequest,
    at: WorkerRank,
    prefill: Option<u64>,
) -> Result<DirectBooking, DirectError> {
    partition(router).book_directly(request, &router.settings(), (at, None), prefill, 0)
}

#[test]
fn it_charges_what_a_decision_would_and_counts_as_cached_as_if_it_had_been_decided() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    let mut booked = book(&router, &prompt(), rank(2, 0), None).expect("the worker is there");
    assert_eq!((booked.prefill_tokens, row(&router, 1)), (72, (1, 72, 5)));
    booked.lease.prefill_done();
    let decided = route(&router, &prompt(), 1).expect("it is routed");
    assert_eq!(decided.receipt.worker, rank(2, 0), "who has the prompt");
    assert_eq!(decided.receipt.overlap.device_blocks, 4);
    // Both share four blocks; the half is each one's own.
    assert_eq!(row(&router, 1), (2, 8, 6));
    let again = book(&router, &prompt(), rank(2, 0), None).expect("the worker is there");
    assert_eq!(again.prefill_tokens, 8, "what isn't cached");
    drop((booked, decided, again));
    assert_eq!(row(&router, 1), (0, 0, 0));
    assert_eq!(partition(&router).audit().wrong, 0);
}

#[test]
fn what_is_to_be_computed_is_the_callers_to_say_and_the_settings_where_he_doesnt() {
    let settings = RouterSettings { router_track_prefill_tokens: false, ..Default::default() };
    let policies = Policies { settings: Arc::new(settings), ..builtin("default") };
    let router = router(policies, [worker(1)]);
    let at = rank(1, 0);
    let prefill = |request: &RouteRequest, prefill| {
        book(&router, request, at, prefill).expect("the worker is there").prefill_tokens
    };
    assert_eq!(prefill(&prompt(), None), 0);
    assert_eq!(prefill(&prompt(), Some(13)), 13);
    let tracked = RouteRequest { track_prefill_tokens: Some(true), ..request(72) };
    assert_eq!(prefill(&tracked, None), 72);
    assert_eq!(row(&router, 0), (0, 0, 0));
}

#[test]
fn blocks_are_booked_by_the_names_that_their_owner_has_for_them() {
    let router = router(builtin("default"), [worker(1)]);
    let named = |names: [u64; 4]| RouteRequest { booked_chain: Some(names.into()), ..prompt() };
    let first = book(&router, &named([11, 12, 13, 14]), rank(1, 0), Some(0)).expect("it is there");
    let same = book(&router, &named([11, 12, 13, 14]), rank(1, 0), Some(0)).expect("it is there");
    assert_eq!(row(&router, 0).2, 6);
    let other = book(&router, &named([21, 22, 23, 24]), rank(1, 0), Some(0)).expect("it is there");
    assert_eq!(row(&router, 0).2, 11);
    // Caches know the prompt by its own.
    let decided = route(&router, &prompt(), 1).expect("it is routed");
    assert_eq!(decided.receipt.overlap.device_blocks, 4);
    drop((first, same, other, decided));
    assert_eq!(partition(&router).audit().wrong, 0);
}

#[test]
fn nothing_is_booked_on_who_isnt_there_or_isnt_who_was_meant() {
    let router = router(builtin("default"), [worker(1)]);
    let none = book(&router, &prompt(), rank(7, 0), None).map(|_| ());
    assert_eq!(none, Err(DirectError::NoWorker(rank(7, 0))));
    let none = book(&router, &prompt(), rank(1, 3), None).map(|_| ());
    assert_eq!(none, Err(DirectError::NoRank(rank(1, 3))));
    let epoch = router.worker(WorkerId(1)).expect("it is there").epoch;
    router.remove_worker(WorkerId(1)).expect("it is there");
    router.upsert_worker(worker(1)).expect("it is taken");
    let at = (rank(1, 0), Some(epoch));
    let booked = partition(&router).book_directly(&prompt(), &router.settings(), at, None, 0);
    assert_eq!(booked.map(|_| ()), Err(DirectError::AnotherLife(rank(1, 0))));
    assert_eq!(row(&router, 0), (0, 0, 0));
}

#[test]
fn what_a_prompt_would_add_to_each_row_is_told_and_not_booked() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    let booked = book(&router, &prompt(), rank(2, 0), None).expect("the worker is there");
    let settings = router.settings();
    let loads = partition(&router).potential_loads(&prompt(), &settings, 0);
    let told = |load: &PotentialLoad| {
        (load.potential_prefill_tokens, load.potential_decode_blocks, load.active_requests)
    };
    assert_eq!(loads.iter().map(told).collect::<Vec<_>>(), [(72, 5, 0), (72 + 8, 6, 1)]);
    let nothing = partition(&router).potential_loads(&request(0), &settings, 0);
    assert_eq!(nothing.iter().map(told).collect::<Vec<_>>(), [(0, 0, 0), (72, 5, 1)]);
    drop(booked);
    assert_eq!(row(&router, 1), (0, 0, 0));
}
