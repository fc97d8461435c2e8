//! Promises of a record as JSON.

use super::*;
use crate::testing::rank;

fn recording() -> Recording {
    let mut columns = RecordedColumns::default();
    columns.push(Input::ActiveRequests, &[2.0; 3]);
    columns.push(Input::CachedTokens, &[0.1, 1e300, -0.0]);
    let facts = Facts { seed: u64::MAX, prefix_hashes: vec![1, u64::MAX], ..Facts::default() };
    Recording {
        facts,
        rows: vec![rank(1, 0), rank(u64::MAX, 0), rank(u64::MAX, 7)].into(),
        columns,
        stages: vec![],
        kept: Some(vec![0, 2]),
        costs: vec![0.3, 0.1 + 0.2],
    }
}

#[test]
fn a_record_comes_back_from_json_bit_for_bit() {
    let before = recording();
    let json = serde_json::to_string(&before).expect("it is JSON");
    assert!(json.contains(r#""active-requests":2.0"#), "a constant column is a number: {json}");
    let after: Recording = serde_json::from_str(&json).expect("it is read");
    assert_eq!(after.check(), Ok(()));
    assert_eq!(
        (&after.facts, &after.rows, &after.kept),
        (&before.facts, &before.rows, &before.kept)
    );
    for (a, b) in after.costs.iter().zip(&before.costs) {
        assert_eq!(a.to_bits(), b.to_bits());
    }
    for input in [Input::ActiveRequests, Input::CachedTokens] {
        for row in 0..3 {
            let bits = |of: &Recording| of.columns.value(input, row).map(f64::to_bits);
            assert_eq!(bits(&after), bits(&before), "{input} {row}");
        }
    }
    assert!(!after.columns.has(Input::DecodeCostBlocks));
    assert_eq!(after.ties(), 1);
    assert_eq!(after.margin(), Some(0.1 + 0.2 - 0.3));
}

type Change<'a> = &'a dyn Fn(&mut serde_json::Value);

#[test]
fn what_is_no_record_is_refused_with_what_is_wrong() {
    let refused = |change: Change<'_>| {
        let mut json = serde_json::to_value(recording()).expect("it is JSON");
        change(&mut json);
        match serde_json::from_str::<Recording>(&json.to_string()) {
            Ok(read) => read.check().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
        .expect_err("it is refused")
    };
    let rows = |r: &mut serde_json::Value| r["rows"] = serde_json::json!([]);
    let order = |r: &mut serde_json::Value| r["rows"].as_array_mut().expect("a list").reverse();
    let set = |at: &'static str, to: serde_json::Value| {
        move |r: &mut serde_json::Value| *r.pointer_mut(at).expect("it is there") = to.clone()
    };
    let short = set("/columns/cached-tokens", serde_json::json!([1.0, 2.0]));
    let costs = set("/costs", serde_json::json!([1.0]));
    let seed = set("/facts/seed", serde_json::json!("-1"));
    let hashes = set("/facts/prefix_hashes", serde_json::json!(["x"]));
    let worth = |r: &mut serde_json::Value| r["columns"]["worth"] = serde_json::json!(1.0);
    let cases: [(Change<'_>, &str); 7] = [
        (&rows, "no row"),
        (&order, "ascending"),
        (&short, "\"cached-tokens\" has 2 values for 3 rows"),
        (&worth, "unknown input \"worth\""),
        (&costs, "1 costs"),
        (&seed, "decimal digits"),
        (&hashes, "decimal digits"),
    ];
    for (change, told) in cases {
        let error = refused(change);
        assert!(error.contains(told), "{error}");
    }
}
