//! Promises of predictions: when they begin to count, and when they no longer do.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod properties;
mod reference;

use super::*;
use crate::index::tests::model::{chain, rank, snapshot};

fn held(predictions: &Predictions, chain: &[u64]) -> Vec<f64> {
    let mut overlap = Overlap::default();
    predictions.look_up(chain, &snapshot(2), &mut overlap);
    overlap.blocks(Tier::Device).to_vec()
}

fn prompt(blocks: &[u64]) -> Arc<[u64]> {
    chain(blocks).into()
}

#[test]
fn a_prediction_ends_with_its_time_and_a_new_prompt_renews_what_it_shares() {
    let (keep, predictions) = (Keep::Time { ttl_ms: 1_000 }, Arc::new(Predictions::default()));
    let (long, short) = (prompt(&[1, 2, 3, 4]), prompt(&[1, 2]));
    predictions.record(keep, rank(0), &long, Some(10), 50);
    predictions.record(keep, rank(0), &short, None, 600);
    predictions.expire(1_099);
    assert_eq!(held(&predictions, &long), [4.0, 0.0]);
    predictions.expire(1_100);
    assert_eq!(held(&predictions, &long), [2.0, 0.0]);
    predictions.expire(1_600);
    assert_eq!(held(&predictions, &long), [0.0, 0.0]);
    assert_eq!(predictions.stats().blocks, 0);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
}

#[test]
fn a_full_memory_evicts_what_was_released_first_and_the_deepest_of_it() {
    let (keep, predictions) = (Keep::Capacity { ttl_ms: 1 }, Arc::new(Predictions::default()));
    let [a, b, c] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]].map(|blocks| prompt(&blocks));
    let first = predictions.record(keep, rank(0), &a, Some(7), 0).unwrap();
    let second = predictions.record(keep, rank(0), &b, Some(7), 0).unwrap();
    // Nothing of a running request goes: it is over the limit then.
    drop(first);
    let third = predictions.record(keep, rank(0), &c, Some(7), 0).unwrap();
    assert_eq!(held(&predictions, &a), [1.0, 0.0]);
    assert_eq!(held(&predictions, &b), [3.0, 0.0]);
    assert_eq!(held(&predictions, &c), [3.0, 0.0]);
    // Used again, it is the newest.
    let again = predictions.record(keep, rank(0), &a, Some(7), 0).unwrap();
    assert_eq!(held(&predictions, &a), [3.0, 0.0]);
    for running in [second, third, again] {
        drop(running);
    }
    predictions.record(keep, rank(0), &prompt(&[10, 11]), Some(7), 0);
    assert_eq!(held(&predictions, &a), [3.0, 0.0]);
    assert_eq!(held(&predictions, &b), [0.0, 0.0]);
    assert_eq!(held(&predictions, &c), [2.0, 0.0]);
}

#[test]
fn what_ended_in_an_earlier_life_touches_nothing_of_a_later() {
    let (keep, predictions) = (Keep::Capacity { ttl_ms: 100 }, Arc::new(Predictions::default()));
    let a = prompt(&[1, 2]);
    let earlier = predictions.record(keep, rank(0), &a, Some(2), 0).unwrap();
    predictions.remove_rank(rank(0));
    assert_eq!(held(&predictions, &a), [0.0, 0.0]);
    let _later = predictions.record(keep, rank(0), &a, Some(2), 0).unwrap();
    drop(earlier);
    predictions.record(keep, rank(0), &prompt(&[3]), Some(2), 0);
    assert_eq!(held(&predictions, &a), [2.0, 0.0], "it runs still");
    // By time, where the capacity isn't known.
    predictions.record(keep, rank(1), &a, None, 0);
    assert_eq!(held(&predictions, &a), [2.0, 2.0]);
    predictions.expire(100);
    assert_eq!(held(&predictions, &a), [2.0, 0.0]);
}

#[test]
fn prompts_that_fork_end_each_at_its_time() {
    let (keep, predictions) = (Keep::Time { ttl_ms: 1_000 }, Arc::new(Predictions::default()));
    let (left, right) = (prompt(&[1, 2, 3, 4]), prompt(&[1, 2, 5]));
    predictions.record(keep, rank(0), &left, None, 0);
    predictions.record(keep, rank(0), &right, None, 400);
    predictions.record(keep, rank(1), &left, None, 700);
    predictions.expire(1_000);
    assert_eq!(held(&predictions, &left), [2.0, 4.0]);
    assert_eq!(held(&predictions, &right), [3.0, 2.0]);
    predictions.expire(1_400);
    assert_eq!(held(&predictions, &right), [0.0, 2.0]);
    predictions.expire(1_700);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
    assert_eq!(predictions.stats().blocks, 0);
}

#[test]
fn a_prompt_that_comes_again_and_again_is_written_down_once() {
    let (keep, predictions) = (Keep::Time { ttl_ms: 1 << 40 }, Arc::new(Predictions::default()));
    let a = prompt(&[1, 2, 3]);
    for now in 0..10_000 {
        predictions.record(keep, rank(0), &a, None, now * 100);
    }
    assert_eq!(predictions.book.lock().counts(), (1, 3, 1));
    // It ends a time after the last.
    predictions.expire((1 << 40) + 999_800);
    assert_eq!(held(&predictions, &a), [3.0, 0.0]);
    predictions.expire((1 << 40) + 1_000_000);
    assert_eq!(held(&predictions, &a), [0.0, 0.0]);
}

#[test]
fn a_rank_that_is_to_forget_by_time_again_forgets_what_it_kept_by_capacity() {
    let predictions = Arc::new(Predictions::default());
    let (a, b, c) = (prompt(&[1, 2, 3]), prompt(&[1, 4]), prompt(&[9]));
    let (capacity, time) = (Keep::Capacity { ttl_ms: 1_000 }, Keep::Time { ttl_ms: 1_000 });
    let running = predictions.record(capacity, rank(0), &a, Some(100), 0);
    predictions.record(capacity, rank(0), &b, Some(100), 0);
    predictions.record(capacity, rank(1), &a, Some(100), 0);
    // One of the ranks gets a prompt, the other none.
    predictions.record(time, rank(0), &c, Some(100), 500);
    predictions.keep_by_time(1_000, 500);
    drop(running);
    predictions.expire(1_499);
    assert_eq!(held(&predictions, &a), [3.0, 3.0]);
    assert_eq!(held(&predictions, &b), [2.0, 1.0]);
    predictions.expire(1_500);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
    assert_eq!(predictions.stats().held, 0);
}

#[test]
fn a_rank_that_is_to_forget_by_capacity_evicts_what_was_predicted_by_time() {
    let predictions = Arc::new(Predictions::default());
    let (a, b, c) = (prompt(&[1, 2, 3]), prompt(&[1, 4]), prompt(&[8, 9]));
    predictions.record(Keep::Time { ttl_ms: 1_000 }, rank(0), &b, None, 0);
    predictions.record(Keep::Time { ttl_ms: 1_000 }, rank(0), &a, None, 500);
    let keep = Keep::Capacity { ttl_ms: 1_000 };
    let running = predictions.record(keep, rank(0), &c, Some(5), 600);
    // What would have ended first is gone; its time is no longer asked for.
    assert_eq!(held(&predictions, &b), [1.0, 0.0]);
    predictions.expire(1_000_000);
    assert_eq!((held(&predictions, &a)[0], held(&predictions, &c)[0]), (3.0, 2.0));
    assert_eq!(predictions.book.lock().counts(), (1, 5, 0));
    drop(running);
    predictions.record(keep, rank(0), &b, Some(2), 600);
    assert_eq!(held(&predictions, &b), [2.0, 0.0]);
    assert_eq!(predictions.stats().held, 2);
    // Its size is unknown: by time again.
    predictions.record(keep, rank(0), &b, None, 1_000_000);
    predictions.expire(1_001_000);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
}

#[test]
fn what_there_is_no_room_for_is_not_predicted() {
    let predictions = Arc::new(Predictions::new(4));
    let a = prompt(&[1, 2, 3, 4, 5, 6]);
    let keep = Keep::Time { ttl_ms: 1_000 };
    predictions.record(keep, rank(0), &a, None, 0);
    predictions.record(keep, rank(1), &a, None, 0);
    let running = predictions.record(Keep::Capacity { ttl_ms: 0 }, rank(1), &a, Some(9), 0);
    assert_eq!(held(&predictions, &a), [4.0, 0.0]);
    drop(running);
    predictions.expire(1_000);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
    let running = predictions.record(Keep::Capacity { ttl_ms: 0 }, rank(1), &a, Some(2), 0);
    assert_eq!(held(&predictions, &a), [0.0, 2.0], "no more than the memory holds");
    drop(running);
    predictions.record(Keep::Capacity { ttl_ms: 0 }, rank(1), &prompt(&[7]), Some(2), 0);
    assert_eq!(predictions.stats().held, 2);
    predictions.book.lock().check();
}

#[test]
fn hashes_that_are_no_prompts_end_too() {
    let predictions = Arc::new(Predictions::default());
    let odd: [Arc<[u64]>; 5] = [
        vec![5, 5].into(),
        vec![5, 6, 5].into(),
        vec![1, 6].into(),
        vec![6].into(),
        vec![6, 5, 1, 6, 2].into(),
    ];
    for keep in [Keep::Time { ttl_ms: 100 }, Keep::Capacity { ttl_ms: 100 }] {
        let mut running = Vec::new();
        for round in 0..20 {
            let chain = &odd[round % 5];
            running.push(predictions.record(keep, rank(round as u64 % 2), chain, Some(3), 0));
            predictions.book.lock().check();
        }
        drop(running);
        predictions.keep_by_time(100, 0);
        predictions.expire(100);
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0), "{keep:?}");
        assert_eq!(predictions.stats().held, 0);
    }
}

#[test]
fn a_rank_that_leaves_leaves_nothing() {
    let predictions = Arc::new(Predictions::default());
    for round in 0..200 {
        let keep = Keep::Capacity { ttl_ms: 100 };
        let a = prompt(&[1, 2, round]);
        let running = predictions.record(keep, rank(round), &a, Some(8), round);
        predictions.record(keep, rank(round + 1), &a, None, round);
        if round % 2 == 0 {
            predictions.remove_rank(rank(round));
        } else {
            predictions.remove_ranks(|other| other == rank(round));
        }
        predictions.remove_rank(rank(round + 1));
        drop(running);
    }
    predictions.expire(1_000);
    while predictions.tidy(1_000) {}
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
    let stats = predictions.stats();
    assert_eq!((stats.ranks, stats.blocks, stats.held), (0, 0, 0));
}

#[test]
fn of_one_prompt_no_more_is_predicted_than_a_memory_holds() {
    let blocks: Vec<u64> = (1..=MOST_PREDICTED as u64 + 5_000).collect();
    let long = prompt(&blocks);
    for keep in [Keep::Time { ttl_ms: 100 }, Keep::Capacity { ttl_ms: 100 }] {
        for (capacity, expected) in [
            (None, MOST_PREDICTED),
            (Some(0), MOST_PREDICTED),
            (Some(70_000), 70_000),
            (Some(9), 9),
        ] {
            let predictions = Arc::new(Predictions::default());
            let mut running = predictions.record(keep, rank(0), &long, capacity, 0).unwrap();
            running.predict();
            assert_eq!(held(&predictions, &long), [expected as f64, 0.0]);
            drop(running);
            assert_eq!(held(&predictions, &long), [expected as f64, 0.0]);
            predictions.keep_by_time(100, 0);
            predictions.expire(100);
            assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
            assert_eq!(predictions.stats().held, 0);
        }
    }
}

/// No step of any kind keeps the book for more than about a thousand blocks.
#[test]
fn a_long_prompt_comes_and_goes_little_by_little() {
    let blocks: Vec<u64> = (1..=20_000).collect();
    let long = prompt(&blocks);
    for (keep, capacity) in
        [(Keep::Time { ttl_ms: 100 }, None), (Keep::Capacity { ttl_ms: 100 }, Some(30_000))]
    {
        let predictions = Arc::new(Predictions::default());
        let counted =
            |which: fn(&(usize, usize, usize)) -> usize| which(&predictions.book.lock().counts());
        let mut running = predictions.record(keep, rank(0), &long, capacity, 0).unwrap();
        assert_eq!(counted(|counts| counts.1), book::STEP);
        let mut steps = 1;
        while predictions.book.lock().take_in(&predictions.index, &mut running.open) {
            steps += 1;
            assert!(counted(|counts| counts.1) <= steps * book::STEP);
        }
        assert_eq!(counted(|counts| counts.1), 20_000);
        // Refused, and sent again.
        let mut left = 20_000;
        while predictions.book.lock().close(&predictions.index, &mut running.open, false) {
            left -= book::STEP;
            assert_eq!(counted(|counts| counts.1), left);
        }
        drop(running);
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        let mut running = predictions.record(keep, rank(0), &long, capacity, 0).unwrap();
        running.predict();
        drop(running);
        predictions.keep_by_time(100, 0);
        let (mut steps, mut before) = (0, 20_000);
        while predictions.book.lock().expire(&predictions.index, 200) {
            steps += 1;
            let now = counted(|counts| counts.1);
            assert!(before - now <= book::STEP, "{before} to {now}");
            before = now;
        }
        assert!(steps >= 19, "{steps}");
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        // A memory that has become smaller, too.
        let capacity = Some(30_000);
        let all = Keep::Capacity { ttl_ms: 100 };
        let mut running = predictions.record(all, rank(0), &long, capacity, 0).unwrap();
        running.predict();
        drop(running);
        predictions.record(all, rank(0), &prompt(&[0]), Some(10), 0);
        let now = counted(|counts| counts.1);
        assert!(now >= 20_000 - 2 * book::STEP, "{now}");
        for _ in 0..20 {
            predictions.record(all, rank(0), &prompt(&[0]), Some(10), 0);
        }
        assert_eq!(counted(|counts| counts.1), 10);
        predictions.book.lock().check();
    }
}

/// Neither the change itself nor any step after it looks at more than about a thousand blocks.
#[test]
fn a_rank_that_is_to_forget_by_something_else_changes_little_by_little() {
    let (many, short) = (30_000_u64, prompt(&[0]));
    let long: Vec<Arc<[u64]>> = (0..3)
        .map(|of| prompt(&(0..many / 3).map(|at| 1 + of * many + at).collect::<Vec<_>>()))
        .collect();
    let (capacity, time) = (Keep::Capacity { ttl_ms: 1_000 }, Keep::Time { ttl_ms: 1_000 });
    for (before, after) in [(capacity, time), (time, capacity)] {
        let predictions = Arc::new(Predictions::default());
        let known = Some(1 << 20);
        for long in &long {
            predictions.record(before, rank(0), long, known, 0).unwrap().predict();
        }
        let behind = || predictions.book.lock().behind();
        // A part of the table is looked at as a whole.
        let most = book::STEP + 300;
        let running = predictions.record(after, rank(0), &short, known, 100);
        let mut left = behind();
        assert!(left > many as usize - most && left < many as usize, "{left}");
        let mut steps = 0;
        while left > 0 {
            predictions.tidy(100);
            assert!(left - behind() <= most, "{left} to {}", behind());
            (left, steps) = (behind(), steps + 1);
        }
        assert!(steps > 20, "{steps}");
        assert!(long.iter().all(|long| held(&predictions, long)[0] == long.len() as f64));
        drop(running);
        predictions.keep_by_time(1_000, 100);
        predictions.expire(1_099);
        let expected = if after == time { 1 } else { many as usize + 1 };
        assert!(predictions.book.lock().counts().1 >= expected);
        predictions.expire(1_100);
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        assert_eq!(predictions.stats().held, 0);
    }
}

#[test]
fn what_was_behind_a_refused_prompt_ends_although_its_memory_turned_meanwhile() {
    let predictions = Arc::new(Predictions::in_steps_of(2));
    let capacity = Keep::Capacity { ttl_ms: 100 };
    let short = |of: u64| prompt(&[10 * of, 10 * of + 1]);
    for of in 0..2_000 {
        predictions.record(capacity, rank(0), &short(of), Some(10_000), 0);
    }
    predictions.keep_by_time(100, 0);
    // Each goes on where one ended that was there before, and most of those don't know yet.
    let longer = |of: u64| prompt(&[10 * of, 10 * of + 1, 10 * of + 2]);
    let time = Keep::Time { ttl_ms: 100 };
    let open: Vec<_> =
        (0..8).map(|of| predictions.record(time, rank(0), &longer(of), None, 0)).collect();
    assert!(predictions.book.lock().behind() > 2_000);
    predictions.expire(0);
    assert_eq!(predictions.book.lock().behind(), 0);
    open.into_iter().flatten().for_each(RunningPrompt::refused);
    assert_eq!(predictions.book.lock().counts().1, 4_000);
    predictions.expire(100);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
}

#[test]
fn a_memory_that_turns_evicts_only_when_it_knows_what_goes_first() {
    let predictions = Arc::new(Predictions::default());
    let (first, second) =
        (prompt(&(1..=5_000).collect::<Vec<_>>()), prompt(&(10_001..=15_000).collect::<Vec<_>>()));
    let time = |ttl_ms| Keep::Time { ttl_ms };
    predictions.record(time(2_000), rank(0), &second, None, 0).unwrap().predict();
    predictions.record(time(1_000), rank(0), &first, None, 0).unwrap().predict();
    let capacity = Keep::Capacity { ttl_ms: 1 };
    predictions.record(capacity, rank(0), &prompt(&[7_000]), Some(5_001), 0);
    assert!(predictions.book.lock().counts().1 == 10_001 && predictions.book.lock().behind() > 0);
    for _ in 0..30 {
        predictions.record(capacity, rank(0), &prompt(&[7_000]), Some(5_001), 0);
    }
    assert_eq!(held(&predictions, &first), [0.0, 0.0]);
    assert_eq!(held(&predictions, &second), [5_000.0, 0.0]);
}

#[test]
fn a_refused_prompt_takes_back_what_it_alone_has_brought() {
    for keep in [Keep::Time { ttl_ms: 1_000 }, Keep::Capacity { ttl_ms: 1_000 }] {
        let predictions = Arc::new(Predictions::default());
        let record =
            |blocks: &[u64], now| predictions.record(keep, rank(0), &prompt(blocks), Some(50), now);
        let held = |blocks: &[u64]| held(&predictions, &chain(blocks))[0];
        record(&[1, 2], 0);
        // All of those under way at once are refused, in the order in which they came.
        let under_way: Vec<_> =
            [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]].map(|b| record(&b, 500)).into();
        assert_eq!((held(&[1, 2, 3, 4]), held(&[1, 2, 3, 5])), (4.0, 4.0));
        let mut expected = [(4.0, 4.0), (4.0, 3.0), (2.0, 2.0)].into_iter();
        for running in under_way.into_iter().flatten() {
            running.refused();
            assert_eq!((held(&[1, 2, 3, 4]), held(&[1, 2, 3, 5])), expected.next().unwrap());
        }
        // What was there before ends when it would have.
        predictions.keep_by_time(1_000, 0);
        predictions.expire(900);
        assert_eq!(held(&[1, 2, 3]), 2.0, "{keep:?}");
        predictions.expire(1_000);
        assert_eq!(held(&[1, 2, 3]), 0.0, "{keep:?}");
        // Nobody had brought anything.
        record(&[1, 2], 1_000).unwrap().refused();
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0), "{keep:?}");
        assert_eq!(predictions.stats().held, 0);
    }
}

#[test]
fn a_prompt_stays_until_it_is_answered_and_then_for_its_time() {
    let (keep, predictions) = (Keep::Time { ttl_ms: 1_000 }, Arc::new(Predictions::default()));
    let (a, b) = (prompt(&[1, 2, 3]), prompt(&[1, 2, 4]));
    let mut late = predictions.record(keep, rank(0), &a, None, 0).unwrap();
    let mut soon = predictions.record(keep, rank(0), &b, None, 0).unwrap();
    soon.answered();
    predictions.expire(999);
    assert_eq!(held(&predictions, &b), [3.0, 0.0]);
    predictions.expire(1_000);
    assert_eq!(held(&predictions, &b), [2.0, 0.0]);
    assert_eq!(held(&predictions, &a), [3.0, 0.0], "it is still under way");
    late.answered();
    predictions.expire(1_000);
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
    // Too late to be refused: it was answered.
    let mut again = predictions.record(keep, rank(0), &a, None, 2_000).unwrap();
    again.answered();
    again.refused();
    assert_eq!(held(&predictions, &a), [3.0, 0.0]);
    predictions.expire(3_000);
    drop((late, soon));
    assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
}

#[test]
fn a_rank_that_leaves_while_a_long_prompt_is_predicted_gets_nothing_of_the_rest() {
    let blocks: Vec<u64> = (1..=5_000).collect();
    let long = prompt(&blocks);
    for keep in [Keep::Time { ttl_ms: 100 }, Keep::Capacity { ttl_ms: 100 }] {
        let predictions = Arc::new(Predictions::default());
        let mut earlier = predictions.record(keep, rank(0), &long, Some(9_000), 0).unwrap();
        predictions.remove_rank(rank(0));
        earlier.predict();
        assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        let later = predictions.record(keep, rank(0), &prompt(&[1]), Some(9_000), 0);
        earlier.predict();
        earlier.refused();
        assert_eq!(held(&predictions, &long), [1.0, 0.0]);
        drop(later);
        predictions.book.lock().check();
    }
}
