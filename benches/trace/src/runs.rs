//! Many runs beside one another.
//!
//! Owns how plans become rows: on as many threads as there are cores, in the order of the plans. A
//! run is the same whatever runs beside it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::figures::Figures;
use crate::plan::Planned;
use crate::replay::replay;
use crate::requests::TraceRequest;

/// One run and its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub planned: Planned,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Runs all plans.
pub fn run_all(trace: &[TraceRequest], plans: Vec<Planned>) -> Result<Vec<Row>> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (plans, next) = (&plans, &AtomicUsize::new(0));
    let work = || {
        let mut rows = vec![];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(planned) = plans.get(at) else { return anyhow::Ok(rows) };
            let outcome = replay(trace, &planned.setup)?;
            let figures = Figures::of(trace, &planned.setup, &outcome);
            rows.push((at, Row { planned: planned.clone(), figures }));
        }
    };
    let mut rows = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut rows = vec![];
        for worker in workers {
            rows.extend(worker.join().ok().context("a run broke off")??);
        }
        anyhow::Ok(rows)
    })?;
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}
