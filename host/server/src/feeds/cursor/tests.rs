//! What the cursor promises, without any engine.

use super::*;

const APPLY: Judged = Judged { clear: false, verdict: Verdict::Apply };
const DUPLICATE: Judged = Judged { clear: false, verdict: Verdict::Duplicate };

fn recover(from: u64) -> Judged {
    Judged { clear: false, verdict: Verdict::Recover { from } }
}

/// An engine's clock: each batch has a time of its own.
fn ts(engine: u32, seq: u64) -> Option<f64> {
    Some(f64::from(engine) * 1_000_000.0 + seq as f64)
}

/// A cursor that has seen the batches 0 to `last` of engine 1, live.
fn at(last: u64, can_replay: bool) -> Cursor {
    let mut cursor = Cursor::new(can_replay);
    assert_eq!(cursor.opened(), can_replay.then_some(0));
    cursor.replay_ended(true);
    for seq in 0..=last {
        assert_eq!(cursor.live(seq, ts(1, seq)), APPLY);
    }
    cursor
}

#[test]
fn batches_in_order_are_applied() {
    let mut cursor = at(9, false);
    assert_eq!(cursor.next(), 10);
    assert_eq!(cursor.take_tally(), Tally::default());
}

#[test]
fn a_gap_is_asked_for_once_and_filled() {
    let mut cursor = at(9, true);
    // 9 is known: it tells that the engine is the same.
    assert_eq!(cursor.live(13, ts(1, 13)), recover(9));
    assert_eq!(cursor.replayed(9, ts(1, 9)), Replayed::Known);
    for seq in 10..=14 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(13, ts(1, 13)), DUPLICATE);
    assert_eq!(cursor.live(14, ts(1, 14)), DUPLICATE);
    assert_eq!(cursor.live(15, ts(1, 15)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, duplicates: 2, ..Tally::default() });
}

#[test]
fn an_answer_with_more_than_was_asked_for_is_no_harm() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.live(13, ts(1, 13)), recover(9));
    for seq in 0..=9 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Known);
    }
    for seq in 10..=12 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(13, ts(1, 13)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, ..Tally::default() });
}

#[test]
fn a_gap_that_cant_be_filled_is_lost_and_not_asked_for_again() {
    for complete in [true, false] {
        let mut cursor = at(9, true);
        assert_eq!(cursor.live(13, ts(1, 13)), recover(9));
        assert_eq!(cursor.replay_ended(complete), Ended::default());
        assert_eq!(cursor.live(13, ts(1, 13)), APPLY);
        assert_eq!(cursor.take_tally(), Tally { gaps: 1, lost: 3, ..Tally::default() });
    }
    let mut cursor = at(9, false);
    assert_eq!(cursor.live(13, ts(1, 13)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, lost: 3, ..Tally::default() });
}

#[test]
fn a_buffer_that_is_too_short_fills_what_it_can() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.live(20, ts(1, 20)), recover(9));
    for seq in 16..=20 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(20, ts(1, 20)), DUPLICATE);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, lost: 6, duplicates: 1, restarts: 0 });
}

#[test]
fn the_first_event_of_all_shows_a_gap_too() {
    let mut cursor = Cursor::new(false);
    assert_eq!(cursor.opened(), None);
    assert_eq!(cursor.live(5, ts(1, 5)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, lost: 5, ..Tally::default() });

    // The engine had nothing to replay when it was asked, then events were lost.
    let mut cursor = Cursor::new(true);
    assert_eq!(cursor.opened(), Some(0));
    cursor.replay_ended(true);
    assert_eq!(cursor.live(5, ts(1, 5)), recover(0));
    for seq in 0..=5 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    cursor.replay_ended(true);
    assert_eq!(cursor.live(5, ts(1, 5)), DUPLICATE);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, duplicates: 1, ..Tally::default() });
}

#[test]
fn an_engine_that_runs_already_is_caught_up_with() {
    let mut cursor = Cursor::new(true);
    assert_eq!(cursor.opened(), Some(0));
    // Its buffer begins at 3.
    for seq in 3..=6 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    // These had been on their way.
    assert_eq!(cursor.live(5, ts(1, 5)), DUPLICATE);
    assert_eq!(cursor.live(6, ts(1, 6)), DUPLICATE);
    assert_eq!(cursor.live(7, ts(1, 7)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, lost: 3, duplicates: 2, restarts: 0 });
}

#[test]
fn a_number_that_goes_back_is_a_restart() {
    let cleared = Judged { clear: true, verdict: Verdict::Apply };
    let mut cursor = at(9, false);
    assert_eq!(cursor.live(0, ts(2, 0)), cleared);
    assert_eq!(cursor.next(), 1);
    assert_eq!(cursor.take_tally(), Tally { restarts: 1, ..Tally::default() });
    // The same number twice is one as well.
    assert_eq!(cursor.live(0, ts(3, 0)), cleared);

    // Also on a new connection, and in the middle.
    let mut cursor = at(9, false);
    cursor.opened();
    assert_eq!(cursor.live(4, ts(2, 4)), cleared);
    assert_eq!(cursor.take_tally(), Tally { restarts: 1, gaps: 1, lost: 4, ..Tally::default() });

    // Where batches can be asked for, the missing ones are.
    let mut cursor = at(9, true);
    let judged = cursor.live(4, ts(2, 4));
    assert_eq!(judged, Judged { clear: true, verdict: Verdict::Recover { from: 0 } });
    for seq in 0..=4 {
        assert_eq!(cursor.replayed(seq, ts(2, seq)), Replayed::Apply);
    }
    cursor.replay_ended(true);
    assert_eq!(cursor.live(4, ts(2, 4)), DUPLICATE);
    assert_eq!(cursor.live(5, ts(2, 5)), APPLY);
    // Having gone on live, a number of the replay that comes again isn't a late one.
    assert!(cursor.live(4, ts(3, 4)).clear);
}

#[test]
fn a_restart_that_nothing_shows_is_found_at_the_next_connection() {
    // The new engine has published as much as the old one: 10 batches.
    let mut cursor = at(9, true);
    assert_eq!(cursor.opened(), Some(9));
    assert_eq!(cursor.replayed(9, ts(2, 9)), Replayed::Restarted);
    for seq in 0..=9 {
        assert_eq!(cursor.replayed(seq, ts(2, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(10, ts(2, 10)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { restarts: 1, ..Tally::default() });
}

#[test]
fn an_engine_that_lacks_its_last_batch_has_restarted() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.opened(), Some(9));
    assert_eq!(cursor.replay_ended(true), Ended { restarted: true });
    // Asked again, from the first batch on, it has some.
    assert_eq!(cursor.replayed(0, ts(2, 0)), Replayed::Apply);
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(1, ts(2, 1)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { restarts: 1, ..Tally::default() });
}

#[test]
fn the_same_engine_at_a_new_connection_keeps_its_blocks() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.opened(), Some(9));
    assert_eq!(cursor.replayed(9, ts(1, 9)), Replayed::Known);
    assert_eq!(cursor.replayed(10, ts(1, 10)), Replayed::Apply);
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(11, ts(1, 11)), APPLY);
    assert_eq!(cursor.take_tally(), Tally::default());
}

#[test]
fn no_answer_is_no_restart() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.opened(), Some(9));
    assert_eq!(cursor.replay_ended(false), Ended::default());
    assert_eq!(cursor.live(10, ts(1, 10)), APPLY);
    assert_eq!(cursor.take_tally(), Tally::default());
}

#[test]
fn a_restart_shows_when_a_gap_is_filled() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.live(13, ts(2, 13)), recover(9));
    assert_eq!(cursor.replayed(9, ts(2, 9)), Replayed::Restarted);
    for seq in 0..=13 {
        assert_eq!(cursor.replayed(seq, ts(2, seq)), Replayed::Apply);
    }
    cursor.replay_ended(true);
    assert_eq!(cursor.live(13, ts(2, 13)), DUPLICATE);
    let tally = cursor.take_tally();
    assert_eq!(tally, Tally { gaps: 1, restarts: 1, duplicates: 1, lost: 0 });
}

#[test]
fn batches_from_before_the_subscription_are_found_when_it_has_settled() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.settle(), Some(9));
    assert_eq!(cursor.replayed(9, ts(1, 9)), Replayed::Known);
    assert_eq!(cursor.replayed(10, ts(1, 10)), Replayed::Apply);
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(10, ts(1, 10)), DUPLICATE);
    // An engine that keeps nothing for replays hasn't restarted.
    assert_eq!(cursor.settle(), Some(10));
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.take_tally(), Tally { duplicates: 1, ..Tally::default() });
    assert_eq!(at(9, false).settle(), None);
}

#[test]
fn giving_up_what_is_known_asks_for_all() {
    let mut cursor = at(9, true);
    assert_eq!(cursor.refill(), Some(0));
    for seq in 0..=9 {
        assert_eq!(cursor.replayed(seq, ts(1, seq)), Replayed::Apply);
    }
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(10, ts(1, 10)), APPLY);
    assert_eq!(cursor.take_tally(), Tally::default());
    assert_eq!(at(9, false).refill(), None);
}

#[test]
fn the_highest_number_does_not_overflow() {
    let mut cursor = Cursor::new(false);
    assert_eq!(cursor.live(u64::MAX, None), APPLY);
    assert!(cursor.live(0, None).clear);
}

/// Whatever an engine calls its batches, what it jumps over isn't lost.
#[test]
fn numbers_near_the_end_of_all_numbers_are_no_losses() {
    let last = u64::MAX - 1;
    for can_replay in [false, true] {
        let mut cursor = Cursor::new(can_replay);
        cursor.opened();
        for round in 0..3 {
            let from = cursor.refill().or_else(|| cursor.settle());
            assert_eq!(from.is_some(), can_replay);
            for seq in [last, u64::MAX, 5, last, 0, u64::MAX] {
                cursor.replayed(seq, ts(1, seq));
            }
            cursor.replay_ended(round % 2 == 0);
            for seq in [last, 3, u64::MAX, last, 0, last] {
                if let Verdict::Recover { .. } = cursor.live(seq, ts(2, seq)).verdict {
                    cursor.replay_ended(true);
                    cursor.live(seq, ts(2, seq));
                }
            }
        }
        let lost = cursor.take_tally().lost;
        assert!(lost < 100, "{lost}");
    }
}

#[test]
fn a_jump_that_no_engine_makes_is_a_restart_and_there_are_no_losses() {
    let mut cursor = at(9, false);
    let far = u64::MAX - 2;
    assert_eq!(cursor.live(far, ts(1, far)), Judged { clear: true, verdict: Verdict::Apply });
    assert_eq!(cursor.live(10, ts(1, 10)), Judged { clear: true, verdict: Verdict::Apply });
    assert_eq!(cursor.live(11, ts(1, 11)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 2, lost: 10, restarts: 2, duplicates: 0 });
    // One that can be asked is asked for all that it has.
    let mut cursor = at(9, true);
    assert_eq!(cursor.live(far, ts(1, far)), Judged { clear: true, ..recover(0) });
    assert_eq!(cursor.replay_ended(true), Ended::default());
    assert_eq!(cursor.live(far, ts(1, far)), APPLY);
    assert_eq!(cursor.take_tally(), Tally { gaps: 1, restarts: 1, ..Tally::default() });
    // A wide gap that an engine may make is one.
    let mut cursor = at(9, false);
    assert_eq!(cursor.live(4_000_000_000, None), APPLY);
    assert_eq!(cursor.take_tally().lost, 4_000_000_000 - 10);
}
