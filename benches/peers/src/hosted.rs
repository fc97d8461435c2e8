//! Our `round-robin` without the partition's lock. There is no such thing of the peer's in this process
//! to compare it with.

use anyhow::Result;
use pointsman_core::policy::Catalog;
use serde::Serialize;

use crate::bytes;

/// Nanoseconds and allocations for one decision.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub workers: u64,
    pub ours_ns: f64,
    pub allocations: u64,
    /// How many times as many decisions two threads make in the same time.
    pub throughput_of_two: f64,
}

pub fn measure(workers: u64, rounds: usize) -> Result<Figures> {
    // The least of many counts, so there have to be many.
    let measure = |rounds| {
        let catalog = Catalog::builtin();
        pointsman_benches::hosted::measure(
            &catalog,
            "round-robin",
            workers,
            rounds,
            bytes::allocations,
        )
    };
    let timed = measure(rounds * 10)?;
    let (counted, _) = bytes::counted(|| measure(1));
    Ok(Figures {
        workers,
        ours_ns: timed.one_ns,
        allocations: counted?.allocations,
        throughput_of_two: timed.throughput_of_two(),
    })
}
