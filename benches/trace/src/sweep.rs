//! What a sweep of the default policy's parameters comes down to.
//!
//! Owns the question how much of what its parameters could give the default policy gives as it
//! comes: its cached share over the best run's, among those that keep the load even and among all.
//! The best of many runs owes a little to luck, so that both are run again with other seeds, and
//! the means of those are compared.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::plan::{Common, Planned};
use crate::requests::TraceRequest;
use crate::runs::{Row, run_all};

/// How many times their defaults the parameters are at most.
const REACHES: [f64; 2] = [2.0, 4.0];

/// Seeds that the default and the best are run again with.
const SEEDS: std::ops::Range<u64> = 101..106;

/// A sweep.
#[derive(Debug, Serialize)]
pub struct Sweep {
    pub default: Compared,
    /// One parameter at a time.
    pub alone: Vec<Row>,
    pub reaches: Vec<Reach>,
}

/// The runs whose parameters go so far.
#[derive(Debug, Serialize)]
pub struct Reach {
    /// How many times its default a parameter is at most.
    pub most: f64,
    pub runs: usize,
    /// Those that keep the load even.
    pub balanced_runs: usize,
    pub best_balanced: Compared,
    pub best_of_all: Compared,
    /// The default's cached share over that of the best.
    pub default_over_balanced: f64,
    pub default_over_all: f64,
}

/// A run, and what came of it with other seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub row: Row,
    /// The mean of the cached shares.
    pub cached_share: f64,
    /// The worst of the balances.
    pub balance: f64,
}

/// Runs the default and its sweep. `balance` is the most that a worker may have over the mean.
pub fn sweep(trace: &[TraceRequest], common: Common, balance: f64) -> Result<Sweep> {
    let as_it_comes = run_all(trace, vec![common.as_it_comes()])?.pop();
    let default = compare(trace, as_it_comes.context("one plan is one run")?)?;
    let alone = run_all(trace, common.alone())?;
    let mut rows = run_all(trace, common.sweep())?;
    rows.sort_by(|a, b| b.figures.cached_share.total_cmp(&a.figures.cached_share));
    let reach = |most: f64| -> Result<Reach> {
        let near: Vec<&Row> = rows.iter().filter(|row| row.planned.reach() <= most).collect();
        let even: Vec<&Row> =
            near.iter().copied().filter(|row| row.figures.balance() <= balance).collect();
        let best = |rows: &[&Row]| -> Result<Compared> {
            let best =
                rows.first().context("no run keeps the load so even; give --balance more")?;
            compare(trace, (*best).clone())
        };
        let (best_balanced, best_of_all) = (best(&even)?, best(&near)?);
        Ok(Reach {
            most,
            runs: near.len(),
            balanced_runs: even.len(),
            default_over_balanced: default.cached_share / best_balanced.cached_share,
            default_over_all: default.cached_share / best_of_all.cached_share,
            best_balanced,
            best_of_all,
        })
    };
    let reaches = REACHES.into_iter().map(reach).collect::<Result<_>>()?;
    Ok(Sweep { default, alone, reaches })
}

fn compare(trace: &[TraceRequest], row: Row) -> Result<Compared> {
    let plans: Vec<Planned> = SEEDS.map(|seed| row.planned.with_seed(seed)).collect();
    let again = run_all(trace, plans)?;
    let shares: f64 = again.iter().map(|row| row.figures.cached_share).sum();
    let balances = again.iter().map(|row| row.figures.balance());
    Ok(Compared {
        cached_share: shares / again.len() as f64,
        balance: balances.fold(row.figures.balance(), f64::max),
        row,
    })
}
