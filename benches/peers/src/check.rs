//! What the figures have to be.

use crate::report::Report;

/// The most that native and sandboxed selection may take of the peer's time, up to so many rows.
const SELECT: [(u64, f64, f64); 3] =
    [(64, 1.0 / 5.0, 0.75), (1_024, 1.0 / 10.0, 1.0 / 4.0), (u64::MAX, 1.0 / 12.0, 1.0 / 5.0)];

/// The most that a decision may take of the peer's time, up to so many workers.
const DECISION: [(u64, f64); 2] = [(64, 1.0 / 5.0), (u64::MAX, 1.0 / 7.0)];

/// The most that a decision without the lock may take.
const HOSTED_NS: f64 = 60.0;

/// The least that two threads have to do together of what one does.
const HOSTED_TWO: f64 = 1.7;

/// What is missed, in words.
pub fn missed(report: &Report) -> Vec<String> {
    let mut missed = Vec::new();
    let mut at_most = |what: String, found: f64, most: f64| {
        // Whatever isn't a number is missed too.
        if !matches!(found.partial_cmp(&most), Some(order) if order.is_le()) {
            missed.push(format!("{what}: {found:.3}, and not at most {most:.3}"));
        }
    };
    for f in &report.select {
        let most = SELECT.iter().find(|(rows, ..)| f.rows <= *rows);
        if let Some(&(_, native, component)) = most {
            let of = format!("select, {} rows", f.rows);
            at_most(format!("{of}, native by peer"), f.native_us / f.peer_us, native);
            at_most(format!("{of}, component by peer"), f.component_us / f.peer_us, component);
            at_most(format!("{of}, native allocations"), f.native_allocations, 0.0);
        }
    }
    for f in &report.decision {
        let of = format!("decision, {} workers, index {}", f.workers, f.index);
        let most = DECISION.iter().find(|(workers, _)| f.workers <= *workers);
        if let Some(&(_, most)) = most {
            at_most(format!("{of}, ours by peer"), f.ours_us / f.peer_us, most);
        }
        at_most(format!("{of}, allocations"), f.ours_allocations, 0.0);
    }
    for f in &report.hosted {
        let of = format!("hosted, {} workers", f.workers);
        at_most(format!("{of}, ns"), f.ours_ns, HOSTED_NS);
        at_most(format!("{of}, one by two threads"), HOSTED_TWO / f.throughput_of_two, 1.0);
        at_most(format!("{of}, allocations"), f.allocations as f64, 0.0);
    }
    missed
}
