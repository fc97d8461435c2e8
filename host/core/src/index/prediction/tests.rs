#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

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
    assert!(predictions.record(keep, rank(0), &long, Some(10), 50).is_none());
    predictions.record(keep, rank(0), &short, None, 600);
    predictions.expire(1_099);
    assert_eq!(held(&predictions, &long), [4.0, 0.0]);
    predictions.expire(1_100);
    assert_eq!(held(&predictions, &long), [2.0, 0.0]);
    predictions.expire(1_600);
    assert_eq!(held(&predictions, &long), [0.0, 0.0]);
    assert_eq!(predictions.stats().blocks, 0);
    assert!(predictions.book.lock().ranks.is_empty());
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
