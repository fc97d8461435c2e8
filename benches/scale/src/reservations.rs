//! Time against the requests that workers have now.

use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_benches::decision::{PROMPTS, prompt};
use pointsman_benches::fleet::{self, BLOCK_SIZE};
use pointsman_core::clock::Moment;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ledger::Lease;
use pointsman_core::partition::Mode;
use pointsman_core::policy::{Catalog, RouterSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use serde_json::Map;

use crate::report::{Cell, Table};
use crate::timing::{Subject, in_turns};

const LIVE: [usize; 4] = [10, 1_000, 100_000, 1_000_000];

const WORKERS: u64 = 64;

/// How many times as much a decision, with a first token and the end of an earlier request, may cost
/// among 1,000,000 requests as among 10.
const MOST: f64 = 10.0;

/// A router, and the requests that its workers have.
pub struct Live {
    router: Router,
    request: RouteRequest,
    chains: Vec<Arc<[u64]>>,
    leases: Vec<Lease>,
    /// Whether the first token comes at once; else never.
    decoding: bool,
    n: u64,
}

impl Live {
    /// So many, of these prompts in turns; without any the prompt isn't known. Nothing is predicted of
    /// caches, as engines tell of theirs.
    pub fn new(policy: &str, chains: Vec<Arc<[u64]>>, live: usize, decoding: bool) -> Result<Self> {
        let catalog = Catalog::builtin();
        let settings = RouterSettings { use_kv_events: true, ..RouterSettings::default() };
        let settings = Arc::new(settings);
        let router = fleet::router(&catalog, policy, &Map::new(), &settings, WORKERS)?;
        let partition = fleet::partition(&router)?;
        for rank in &partition.ledger().snapshot().rows {
            partition.cache().expect_events(*rank);
        }
        let request = RouteRequest::new("r", fleet::key(), 2_048);
        let leases = Vec::with_capacity(live);
        let mut its = Self { router, request, chains, leases, decoding, n: 0 };
        its.fill(live)?;
        Ok(its)
    }

    /// More of them, until there are so many.
    pub fn fill(&mut self, live: usize) -> Result<()> {
        while self.leases.len() < live {
            let lease = self.begin()?;
            self.leases.push(lease);
        }
        Ok(())
    }

    /// One more begins.
    fn begin(&mut self) -> Result<Lease> {
        self.n += 1;
        if !self.chains.is_empty() {
            self.request.chain = self.chains[self.n as usize % self.chains.len()].clone();
        }
        let moment = Moment { now_ms: 1 + self.n / 100, seed: self.n };
        let decision = self.router.route(&self.request, moment, Mode::Book)?;
        let mut lease = decision.lease.context("it was to be booked")?;
        if self.decoding {
            lease.prefill_done_at(moment.now_ms);
        }
        Ok(lease)
    }

    /// One begins and any other ends.
    fn turn(&mut self) -> Result<()> {
        let lease = self.begin()?;
        let any = self.n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = any as usize % self.leases.len();
        self.leases[at] = lease;
        Ok(())
    }
}

/// Sixteen prompts that share their first half.
pub fn chains() -> Vec<Arc<[u64]>> {
    let chain = |at| {
        let mut chain = Vec::new();
        sequence_hashes(&prompt(at), BLOCK_SIZE, Scope::default(), &mut chain);
        chain.into()
    };
    (0..PROMPTS).map(chain).collect()
}

pub fn measure(rounds: usize) -> Result<Table> {
    let mut all = Vec::new();
    for live in LIVE {
        all.push(Live::new("default", chains(), live, true)?);
        all.push(Live::new("default", chains(), live, false)?);
        all.push(Live::new("round-robin", Vec::new(), live, true)?);
    }
    let names = ["decoding", "waiting for a first token", "hosted"];
    let mut subjects: Vec<_> = all.iter_mut().map(|live| Subject::new(|| live.turn())).collect();
    let figures = in_turns(rounds, &mut subjects)?;
    let mut table = Table::new(
        "reservations",
        "A booking changes its row's numbers and its own entry, found by its place; with many requests that entry, and what it shares of its prompt, is no longer near.",
        &[
            "live reservations",
            "decoding, ns",
            "waiting for a first token, ns",
            "hosted, ns",
            "allocations, decoding",
            "allocations, waiting",
            "allocations, hosted",
        ],
    );
    for (live, figures) in LIVE.into_iter().zip(figures.chunks(names.len())) {
        let times = figures.iter().map(|figures| Cell::from(figures.ns));
        let allocations = figures.iter().map(|figures| Cell::from(figures.allocations));
        table.row([Cell::from(live as f64)].into_iter().chain(times).chain(allocations));
    }
    for (at, name) in names.into_iter().enumerate() {
        let by_least = figures[figures.len() - names.len() + at].ns / figures[at].ns;
        table.at_most(format!("{name}, 1,000,000 by 10"), by_least, MOST);
    }
    Ok(table)
}
