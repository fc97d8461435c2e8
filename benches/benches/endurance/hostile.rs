//! A well-behaved partition beside hostile neighbours: how long its decisions take, and whether all
//! that the neighbours do is contained.
//!
//! One thread decides in the well-behaved partition and takes the time of each decision; another has
//! nothing to do, or decides in another well-behaved one, or in hostile ones, in short batches that
//! alternate, so that what else the machine does hits all three alike.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::Role;
use pointsman_core::partition::Mode;
use pointsman_core::policy::OnFailure;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::json;

use crate::neighbours::{Neighbours, failures};
use crate::quantiles::Times;
use crate::report::{Part, Readings, process, ratio};
use crate::setting::{instance, partition, policies, populate};

/// Rounds through all neighbours.
const ROUNDS: u64 = 40;
const FEWEST_ROUNDS: u64 = 10;
/// Every so many rounds, something is compiled that takes long.
const COMPILED: u64 = 5;
/// How long the replacements that a hostile batch leaves behind may take, before the next begins.
const REST: Duration = Duration::from_millis(100);
const BATCH: Duration = Duration::from_millis(100);
const WORKERS: u64 = 64;
/// Requests that the well-behaved partition carries: enough that rows differ.
const CARRIED: usize = 1_000;
/// The least number of hostile guests.
const HOSTILE: usize = 30;

pub(crate) fn run(share: u64) -> Result<Part> {
    let rounds = (ROUNDS / share).max(FEWEST_ROUNDS);
    let folder = tempfile::tempdir()?;
    let engine = PolicyEngine::new(EngineConfig::default())?;
    let mut good = Good::new(&engine)?;
    let mut other = Good::new(&engine)?;
    let mut neighbours = Neighbours::new(&engine, folder.path())?;

    let (mut alone, mut beside_good) = (Times::new()?, Times::new()?);
    let (mut beside_hostile, mut beside_compiler) = (Times::new()?, Times::new()?);
    let mut readings = Readings::default();
    for round in 0..rounds {
        // Fresh instances each round: those that failed would be asked ever less.
        neighbours.renew()?;
        thread::sleep(REST);
        readings.0.push(process()?.0);
        let mut all = false;
        while !all {
            good.beside(&mut alone, || {
                thread::sleep(BATCH);
                Ok(())
            })?;
            good.beside(&mut beside_good, || {
                let watch = Stopwatch::start();
                while watch.elapsed() < BATCH {
                    other.decide(None)?;
                }
                Ok(())
            })?;
            good.beside(&mut beside_hostile, || {
                let watch = Stopwatch::start();
                while !all && watch.elapsed() < BATCH {
                    all = neighbours.step()?;
                }
                Ok(())
            })?;
            thread::sleep(REST);
        }
        if round % COMPILED == 0 {
            good.beside(&mut beside_compiler, || neighbours.compile_slowly())?;
        }
    }

    let (all, unreadable, unwilling) = neighbours.counts();
    let mut part = Part::new(format!("{all} hostile neighbours, {rounds} rounds"));
    let how = format!("{all}: {unreadable} refused at load, {unwilling} when configured");
    part.promise("hostile guests", how, "at least 30", all >= HOSTILE);
    let tally = neighbours.tally.clone();
    let what =
        format!("{}: {} answered, {} refused", tally.requests, tally.answered, tally.refused);
    part.tell("their requests", what);
    for (what, times) in &tally.against_the_rule {
        part.tell(what, times);
    }
    part.none_of("against the declared rule", tally.against_the_rule.values().sum());
    let causes = failures(neighbours.routers());
    let causes: Vec<String> =
        causes.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    part.tell("failed stages", causes.join(", "));
    part.tell("bad files and configurations turned away", tally.turned_away);
    part.tell("components compiled that take long", tally.compiled_slowly);
    for (cause, count) in failures([&good.router, &other.router]) {
        part.tell(&format!("failures of the well-behaved by {cause}"), count);
    }
    part.none_of("failures of the well-behaved", good.failed + other.failed);

    part.tell("a decision, alone", &alone);
    let besides = [
        ("beside a well-behaved neighbour", beside_good),
        ("beside hostile neighbours", beside_hostile),
        ("beside a compilation that takes long", beside_compiler),
    ];
    for (beside, found) in besides {
        let rise = ratio(found.p99(), alone.p99());
        part.promise(beside, &found, &format!("p99 {rise:.2} of alone, below 2"), rise < 2.0);
    }
    part.memory(&readings);
    Ok(part)
}

/// A partition with `policies/least-busy` as a component, and requests that it carries.
struct Good {
    router: Router,
    request: RouteRequest,
    carried: VecDeque<Option<pointsman_core::ledger::Lease>>,
    decisions: u64,
    failed: u64,
}

impl Good {
    fn new(engine: &PolicyEngine) -> Result<Self> {
        let path: &Path = pointsman_tests::guests::least_busy();
        let policy = ComponentPolicy::open(engine, "good", path)?;
        let settings = json!({ "min_device_overlap_blocks": 0 });
        let spec = instance("good", settings, OnFailure::Default);
        let policies = policies([Arc::new(policy) as _], [(Role::Aggregated, spec)])?;
        let router = Router::new(policies, 7);
        let partition = partition("good", Role::Aggregated);
        populate(&router, &partition, 0..WORKERS)?;
        let request = RouteRequest::new("r", partition, 2_048);
        let carried = VecDeque::with_capacity(CARRIED + 1);
        let mut good = Self { router, request, carried, decisions: 0, failed: 0 };
        for _ in 0..10 * CARRIED {
            good.decide(None)?;
        }
        Ok(good)
    }

    /// A decision, whose time is noted.
    fn decide(&mut self, times: Option<&mut Times>) -> Result<()> {
        self.decisions += 1;
        self.request.prompt_tokens = 2_048 + self.decisions % 64;
        let moment = Moment { now_ms: self.decisions, seed: self.decisions };
        let watch = Stopwatch::start();
        let decision = self.router.route(&self.request, moment, Mode::Book)?;
        if let Some(times) = times {
            times.note(&watch);
        }
        self.failed += u64::from(decision.receipt.fallback.is_some());
        self.carried.push_back(decision.lease);
        if self.carried.len() > CARRIED {
            self.carried.pop_front();
        }
        Ok(())
    }

    /// Decides as long as `neighbour` runs on another thread.
    fn beside(
        &mut self,
        times: &mut Times,
        neighbour: impl FnOnce() -> Result<()> + Send,
    ) -> Result<()> {
        thread::scope(|scope| {
            let running = scope.spawn(neighbour);
            while !running.is_finished() {
                self.decide(Some(times))?;
            }
            running.join().map_err(|_| anyhow!("the neighbour panicked"))?
        })
    }
}
