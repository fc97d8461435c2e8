//! Prompt tokens that melt while they wait.

use super::*;

fn waiting(prefill_tokens: u64, prefill_ms: Option<f64>) -> Charge<'static> {
    Charge { prefill_tokens, prefill_ms, ..Charge::default() }
}

fn at(ledger: &Arc<Ledger>, now_ms: u64, tokens: u64, ms: Option<f64>) -> Lease {
    ledger.book(&ledger.snapshot(), 0, waiting(tokens, ms), now_ms).expect("the row is there")
}

/// What is left on the first row at a moment; a policy is shown the same.
fn left(ledger: &Ledger, now_ms: u64) -> u64 {
    check(ledger);
    let shown = ledger.loads_at(now_ms)[0].active_prefill_tokens;
    let rows = ledger.snapshot().rows.len();
    ledger.read_at(now_ms, |books| {
        let mut all = vec![-1.0; rows];
        books.fill_prefill(now_ms, &(0..rows as u32).collect::<Vec<_>>(), &mut all);
        let mut first = [-1.0];
        books.fill_prefill(now_ms, &[0], &mut first);
        assert_eq!((all[0], first[0]), (shown as f64, shown as f64));
        assert!(all.iter().all(|left| *left >= 0.0));
    });
    shown
}

fn two_rows() -> Arc<Ledger> {
    ledger(&fleet([worker(1), worker(2)]))
}

#[test]
fn without_a_model_prefills_stand_until_the_first_token() {
    let ledger = two_rows();
    let mut lease = at(&ledger, 0, 1_000, None);
    assert_eq!(left(&ledger, 1_000_000), 1_000);
    lease.prefill_done_at(1_000_000);
    assert_eq!(left(&ledger, 1_000_000), 0);
}

#[test]
fn the_oldest_prefill_melts_in_its_time_and_not_below_nothing() {
    let ledger = two_rows();
    let _lease = at(&ledger, 1_000, 1_000, Some(500.0));
    let seen = [0, 1_000, 1_001, 1_250, 1_499, 1_500, 9_000].map(|now| left(&ledger, now));
    assert_eq!(seen, [1_000, 1_000, 998, 500, 2, 0, 0]);
    assert_eq!(ledger.loads()[0].active_prefill_tokens, 1_000, "as it was booked");
}

#[test]
fn what_is_left_is_rounded_up() {
    let ledger = two_rows();
    let _lease = at(&ledger, 0, 10, Some(1_000.0));
    assert_eq!([1, 99, 100, 101, 999].map(|now| left(&ledger, now)), [10, 10, 9, 9, 1]);
}

#[test]
fn where_all_durations_are_known_the_sum_melts_at_the_oldests_rate() {
    let ledger = two_rows();
    let _first = at(&ledger, 0, 1_000, Some(1_000.0));
    let _second = at(&ledger, 0, 500, Some(1.0));
    assert_eq!([400, 1_000, 1_200, 2_000].map(|now| left(&ledger, now)), [1_100, 500, 300, 0]);
}

#[test]
fn where_one_isnt_known_only_the_oldest_melts() {
    let ledger = two_rows();
    let mut first = at(&ledger, 0, 1_000, Some(1_000.0));
    let unknown = at(&ledger, 0, 500, None);
    assert_eq!([400, 1_000, 5_000].map(|now| left(&ledger, now)), [1_100, 500, 500]);
    // The one that nothing is known of is the oldest now, and stands.
    first.prefill_done_at(5_000);
    assert_eq!(left(&ledger, 9_000), 500);
    drop(unknown);
    assert_eq!(left(&ledger, 9_000), 0);
}

#[test]
fn the_next_begins_when_the_oldest_has_its_first_token() {
    let ledger = two_rows();
    let mut first = at(&ledger, 0, 1_000, Some(1_000.0));
    let mut second = at(&ledger, 100, 600, Some(300.0));
    first.prefill_done_at(700);
    assert_eq!([700, 800, 1_000].map(|now| left(&ledger, now)), [600, 400, 0]);
    first.prefill_done_at(900);
    second.prefill_done_at(900);
    assert_eq!(left(&ledger, 900), 0);
}

#[test]
fn who_doesnt_say_when_it_ended_leaves_the_next_to_begin_at_the_next_look() {
    let ledger = two_rows();
    let first = at(&ledger, 0, 1_000, Some(1_000.0));
    let _second = at(&ledger, 0, 600, Some(300.0));
    drop(first);
    assert_eq!([500, 600, 800].map(|now| left(&ledger, now)), [600, 400, 0]);
}

#[test]
fn one_that_leaves_from_the_middle_takes_along_what_was_thought_done_of_it() {
    let ledger = two_rows();
    let _first = at(&ledger, 0, 1_000, Some(1_000.0));
    let mut second = at(&ledger, 0, 300, Some(300.0));
    let _third = at(&ledger, 0, 200, Some(200.0));
    assert_eq!(left(&ledger, 400), 1_100);
    // 400 were thought done, 300 of them are the second's: 100 of the rest.
    second.prefill_done_at(400);
    assert_eq!([400, 500, 1_500].map(|now| left(&ledger, now)), [1_100, 1_000, 0]);
    let mut fourth = at(&ledger, 500, 900, Some(900.0));
    assert_eq!(left(&ledger, 500), 1_900);
    // 200 were thought done, which are less than the 900 that leave.
    fourth.prefill_done_at(500);
    assert_eq!([500, 600].map(|now| left(&ledger, now)), [1_200, 1_100]);
}

#[test]
fn an_oldest_that_is_overdue_does_nothing_of_what_comes_later() {
    let ledger = two_rows();
    let _first = at(&ledger, 0, 100, Some(100.0));
    assert_eq!(left(&ledger, 5_000), 0);
    let _second = at(&ledger, 5_000, 500, Some(500.0));
    assert_eq!([5_000, 5_100, 5_500].map(|now| left(&ledger, now)), [500, 400, 0]);
}

#[test]
fn what_melts_follows_its_row_when_the_fleet_changes() {
    let mut fleet = fleet([worker(2)]);
    let ledger = ledger(&fleet);
    let first = at(&ledger, 0, 1_000, Some(1_000.0));
    let _second = at(&ledger, 0, 100, Some(100.0));
    fleet.upsert(worker(1)).expect("it is taken");
    realign(&ledger, &fleet);
    assert_eq!(left(&ledger, 400), 0);
    assert_eq!(ledger.loads_at(400)[1].active_prefill_tokens, 700);
    drop(first);
    fleet.remove(WorkerId(1)).expect("it is there");
    realign(&ledger, &fleet);
    // Nobody has said since when the second is at work.
    assert_eq!([1_000, 1_050].map(|now| left(&ledger, now)), [100, 50]);
}

#[test]
fn a_duration_that_is_none_is_unknown_and_a_tiny_one_is_over_at_once() {
    let ledger = two_rows();
    for ms in [f64::NAN, f64::INFINITY, 0.0, -5.0] {
        let _lease = at(&ledger, 0, 10, Some(ms));
        assert_eq!(left(&ledger, 1_000), 10);
    }
    let _lease = at(&ledger, 2_000, 10, Some(f64::MIN_POSITIVE));
    assert_eq!([left(&ledger, 2_000), left(&ledger, 2_001)], [10, 0]);
}
