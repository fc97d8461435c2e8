//! Promises of `two-tier`: when the longest prefix wins, and when the least load does.

use super::*;
use crate::policy::StageError;

/// Asks over rows of (active requests, device blocks), for a prompt of so many blocks.
fn pick_row(
    parameters: serde_json::Value,
    rows: &[(f64, f64)],
    blocks: u64,
    seed: u64,
) -> Result<usize, StageError> {
    let mut policy = instance("two-tier", parameters);
    let stage = policy.declaration().picker.clone().expect("a picker");
    let mut matrix = Matrix::new(&stage.inputs);
    matrix.fill(rows.len(), |input, column| {
        for (to, (requests, device)) in column.iter_mut().zip(rows) {
            *to = if input == Requests { *requests } else { *device };
        }
    });
    let ids = ids(rows.len());
    let candidates = Candidates::new(&ids, &matrix, stage.input_set(), &[]);
    let request = request(blocks * 16);
    policy.pick(&view(&request, moment(seed), true), &candidates, &vec![0.0; rows.len()])
}

fn picked(rows: &[(f64, f64)], blocks: u64) -> usize {
    pick_row(serde_json::json!({}), rows, blocks, 1).expect("it picks")
}

#[test]
fn more_than_half_of_the_prompt_beats_less_load_and_half_does_not() {
    assert_eq!(picked(&[(0.0, 0.0), (5.0, 6.0)], 10), 1);
    assert_eq!(picked(&[(0.0, 0.0), (5.0, 5.0)], 10), 0);
    // Of several that have as much, the least loaded.
    assert_eq!(picked(&[(3.0, 6.0), (0.0, 5.0), (2.0, 6.0), (4.0, 6.0)], 10), 2);
    // A prompt of no block has nothing cached.
    assert_eq!(picked(&[(0.0, 0.0), (5.0, 6.0)], 0), 0);
}

#[test]
fn imbalance_needs_both_gates() {
    // 33 more than 0 is more than 32, and more than 1.1 times.
    assert_eq!(picked(&[(33.0, 10.0), (0.0, 0.0)], 10), 1);
    assert_eq!(picked(&[(32.0, 10.0), (0.0, 0.0)], 10), 0);
    // 640 * 1.1 = 704.
    assert_eq!(picked(&[(704.0, 10.0), (640.0, 0.0)], 10), 0);
    assert_eq!(picked(&[(705.0, 10.0), (640.0, 0.0)], 10), 1);
    // The third row is neither, and has most of the prompt.
    assert_eq!(picked(&[(40.0, 0.0), (0.0, 0.0), (20.0, 10.0)], 10), 1);
}

#[test]
fn thresholds_are_parameters() {
    let rows = [(0.0, 0.0), (5.0, 5.0)];
    let with = |parameters| pick_row(parameters, &rows, 10, 1).expect("it picks");
    assert_eq!(with(serde_json::json!({"cache_threshold": 0.4})), 1);
    assert_eq!(with(serde_json::json!({"cache_threshold": 0, "balance_abs_threshold": 4})), 0);
    assert_eq!(with(serde_json::json!({"cache_threshold": 0, "balance_abs_threshold": 5})), 1);
    let balanced = serde_json::json!({
        "cache_threshold": 0.4, "balance_abs_threshold": 0, "balance_rel_threshold": 1e300,
    });
    // No load is more than any number of times none, but for more than none.
    assert_eq!(pick_row(balanced.clone(), &[(1.0, 0.0), (5.0, 5.0)], 10, 1).expect("it picks"), 1);
    assert_eq!(pick_row(balanced, &rows, 10, 1).expect("it picks"), 0);
}

#[test]
fn what_is_out_of_range_or_unknown_is_refused_by_name() {
    let catalog = Catalog::builtin();
    let make = |parameters| {
        let provider = catalog.get("two-tier").expect("a built-in");
        provider.instantiate(&environment(Role::Aggregated, parameters)).map(|_| ())
    };
    for parameters in [
        serde_json::json!({}),
        serde_json::json!({"cache_threshold": 0, "balance_rel_threshold": 1}),
        serde_json::json!({"cache_threshold": 1.0, "balance_abs_threshold": 0}),
    ] {
        assert_eq!(make(parameters), Ok(()));
    }
    for (parameters, named) in [
        (serde_json::json!({"cache_threshold": 1.01}), "cache_threshold: 1.01 is out of range"),
        (serde_json::json!({"cache_threshold": -0.1}), "cache_threshold"),
        (serde_json::json!({"balance_abs_threshold": -1}), "balance_abs_threshold"),
        (serde_json::json!({"balance_rel_threshold": 0.9}), "expected a finite number, at least 1"),
        (serde_json::json!({"balance_threshold": 3}), "balance_threshold"),
        (serde_json::json!({"cache_threshold": "half"}), "half"),
    ] {
        let refusal = make(parameters).expect_err("it is refused").to_string();
        assert!(refusal.contains(named), "{refusal}");
    }
}

#[test]
fn ties_are_even_and_the_seed_decides() {
    for rows in [[(1.0, 0.0), (1.0, 0.0), (2.0, 0.0)], [(1.0, 9.0), (1.0, 9.0), (0.0, 0.0)]] {
        let mut counts = [0; 3];
        for seed in 0..400 {
            let row = pick_row(serde_json::json!({}), &rows, 10, seed);
            assert_eq!(pick_row(serde_json::json!({}), &rows, 10, seed), row);
            counts[row.expect("it picks")] += 1;
        }
        assert!(counts[0] > 150 && counts[1] > 150 && counts[2] == 0, "{counts:?}");
    }
}
