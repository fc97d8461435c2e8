//! The core and the wasm host as libraries: the examples, as they stand in the server's folder.

use anyhow::{Context, Result};
use pointsman_tests::guests;

#[path = "../../host/server/examples/component.rs"]
#[expect(dead_code, reason = "an example has a `main` of its own")]
mod component;
#[path = "../../host/server/examples/native_policy.rs"]
#[expect(dead_code, reason = "an example has a `main` of its own")]
mod native_policy;

#[test]
fn a_component_routes_among_three_workers_in_a_process_of_ones_own() -> Result<()> {
    let lines = component::choices(guests::least_busy())?;
    let (last, routed) = lines.split_last().context("there are lines")?;
    assert_eq!(last, "0 requests are under way at the end");
    assert_eq!(routed.len(), 10);
    let to = |line: &String| {
        line.split(" to ").nth(1).and_then(|it| it.split('/').next().map(str::to_owned))
    };
    let workers: Vec<_> = routed.iter().filter_map(to).collect();
    // The first of the least busy: what ends at once leaves its worker as it was.
    assert_eq!(workers, ["1", "1", "2", "3", "3", "1", "2", "2", "3", "1"], "{routed:#?}");
    assert!(routed.iter().all(|line| !line.contains(" 0 units of fuel")), "{routed:#?}");
    Ok(())
}

#[test]
fn a_native_policy_of_a_third_party_decides_and_is_checked() -> Result<()> {
    let lines = native_policy::choices()?;
    let expected = [
        "4000 tokens to worker 1",
        "100 tokens to worker 2",
        "200 tokens to worker 2",
        "50 tokens to worker 1",
    ];
    assert_eq!(lines[..4], expected);
    assert!(lines[4].starts_with("300 tokens: ") && lines[4].contains("filter"), "{}", lines[4]);
    Ok(())
}
