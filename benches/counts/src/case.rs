//! What is counted.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use pointsman_benches::decision::Deciding;
use pointsman_benches::fleet;
use pointsman_benches::selection::Selection;
use pointsman_core::clock::Moment;
use pointsman_core::partition::Mode;
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use serde_json::Map;

/// A way to decide.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Case {
    /// A request and the fleet's state to a row, by the built-in `default`.
    Select,
    /// Hash, look up, select, reserve, free; caches are predicted.
    IndexOff,
    /// The same; engines tell of their caches.
    IndexOn,
    /// `round-robin` without the partition's lock: choose, book, free, receipt.
    Hosted,
}

impl Case {
    /// Those that have a record.
    pub const RECORDED: [Self; 4] = [Self::Select, Self::IndexOff, Self::IndexOn, Self::Hosted];

    /// What it is called, also on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::IndexOff => "index-off",
            Self::IndexOn => "index-on",
            Self::Hosted => "hosted",
        }
    }

    /// Decides so often.
    pub fn run(self, workers: u64, times: u64) -> Result<()> {
        let catalog = Catalog::builtin();
        match self {
            Self::Select => select(&catalog, "default", workers, times),
            Self::IndexOff | Self::IndexOn => {
                let index = matches!(self, Self::IndexOn);
                let mut deciding = Deciding::new(&catalog, workers, index)?;
                (0..times).try_for_each(|_| deciding.decide().map(drop))
            }
            Self::Hosted => hosted(&catalog, workers, times),
        }
    }
}

fn select(catalog: &Catalog, policy: &str, workers: u64, times: u64) -> Result<()> {
    let mut selection = Selection::new(catalog, policy, workers)?;
    (0..times).try_for_each(|_| selection.select().map(drop))
}

fn hosted(catalog: &Catalog, workers: u64, times: u64) -> Result<()> {
    let router = fleet::router(catalog, "round-robin", &Map::new(), &Arc::default(), workers)?;
    let request = RouteRequest::new("r", fleet::key(), 2_048);
    (0..times).try_for_each(|n| {
        let decision = router.route(&request, Moment { now_ms: 1, seed: n }, Mode::Book)?;
        decision.receipt.hosted.then_some(()).context("a decision took the lock")
    })
}
