//! Thousands of reloads of two types over fifty partitions, from files to decisions, while another
//! thread decides.
//!
//! Each reload is all that a router does: both files are replaced, the folder is looked through, what
//! is new is compiled, tried and prepared for every partition, and all are switched. One type hands
//! its state over, and is compiled each time. The other's two versions are different policies, written
//! in Rust; compiling one takes a third of a second, so that they come from a cache of compiled code
//! after the first time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{OnFailure, PolicyProvider};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_tests::guests as built;
use pointsman_wasm::{EngineConfig, FolderOptions, PolicyEngine, PolicyFolder};
use serde_json::{Value, json};

use crate::guests::guest;
use crate::report::{Part, Readings, process};
use crate::setting::{environment, instance, partition, policies, populate};

const RELOADS: u64 = 5_000;
/// Of each of the two roles.
const PARTITIONS: u64 = 25;
const WORKERS: u64 = 4;
const READINGS: u64 = 100;
/// Requests that are carried at any time.
const CARRIED: usize = 200;
/// The role whose policy picks rows in turn and hands its turn over.
const IN_TURN: Role = Role::Aggregated;
/// The role whose policy is another one after each reload.
const IN_RUST: Role = Role::Prefill;

pub(crate) fn run(share: u64) -> Result<Part> {
    let reloads = RELOADS / share;
    let folder = tempfile::tempdir()?;
    let compiled = PolicyEngine::new(EngineConfig::default())?;
    let cache_dir = Some(folder.path().join("cache"));
    let cached = PolicyEngine::new(EngineConfig { cache_dir, ..EngineConfig::default() })?;
    let open = |engine: &PolicyEngine, name: &str| -> Result<PolicyFolder> {
        let dir = folder.path().join(name);
        std::fs::create_dir(&dir)?;
        let options = FolderOptions { settle: Duration::ZERO, ..FolderOptions::default() };
        Ok(PolicyFolder::open(engine, dir, options))
    };
    let folders = [open(&compiled, "turns")?, open(&cached, "busy")?];
    let versions = versions()?;
    let reload = |number: u64| -> Result<Policies> {
        let names = ["turns", "busy"];
        for ((folder, name), version) in folders.iter().zip(names).zip(&versions) {
            replace(folder.dir(), name, &version[(number % 2) as usize])?;
            let state = folder.rescan();
            ensure!(state.changes.len() == 1 && state.serves_otherwise(), "{state:?}");
        }
        from_folders(&folders)
    };

    let router = Router::new(reload(0)?, 7);
    let partitions = partitions(&router)?;
    let done = AtomicBool::new(false);
    let mut readings = Readings::default();
    let mut threads = Vec::new();
    let (mut switched, mut handed_over) = (0, 0);
    let watch = Stopwatch::start();
    let decided = thread::scope(|scope| {
        let decider = scope.spawn(|| decide(&router, &partitions, &done));
        let mut run = || -> Result<()> {
            for number in 1..=reloads {
                let installed = router.install(router.prepare(reload(number)?)?)?;
                switched += installed.partitions as u64;
                handed_over += installed.handed_over as u64;
                if number % (reloads / READINGS).max(1) == 0 {
                    readings.0.push(process()?.0);
                    threads.push(settled_threads()?);
                }
            }
            Ok(())
        };
        let ran = run();
        done.store(true, Ordering::Relaxed);
        let decided = decider.join().map_err(|_| anyhow::anyhow!("the decider panicked"))?;
        ran.map(|()| decided)
    })?;

    let all = 2 * PARTITIONS;
    let mut part = Part::new(format!("{reloads} reloads of two types over {all} partitions"));
    part.tell(
        "a reload took",
        format!("{:.1} ms", watch.elapsed().as_secs_f64() * 1e3 / reloads as f64),
    );
    part.tell("components compiled", compiled.counters().compiles);
    part.tell("components taken from the cache", cached.counters().cache_hits);
    part.promise("partitions switched", switched, "all, each time", switched == all * reloads);
    let expected = PARTITIONS * reloads;
    part.promise("states handed over", handed_over, "every one", handed_over == expected);
    part.tell("decisions meanwhile", decided.decisions);
    part.none_of("failed or made by another", decided.failed);
    part.none_of("decisions out of turn (state goes on)", decided.out_of_turn);
    let both = [compiled.counters(), cached.counters()];
    part.none_of("instances lost", both.iter().map(|counted| counted.instances_lost).sum());
    part.tell("instances made", both.iter().map(|counted| counted.instances_made).sum::<u64>());
    part.memory(&readings);
    let (first, most) = (threads.first().copied(), threads.iter().max().copied());
    part.promise(
        "threads, at first and at most",
        format!("{} and {}", first.unwrap_or(0), most.unwrap_or(0)),
        "the same",
        first.is_some() && first == most,
    );
    Ok(part)
}

/// Of each type its two versions.
fn versions() -> Result<[[Vec<u8>; 2]; 2]> {
    let in_turn = guest("remembers");
    // The same code under another digest: an unknown section is skipped by whoever reads it.
    let mut later = in_turn.clone();
    later.extend(b"\x00\x08\x07version");
    let rust = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    Ok([[in_turn, later], [rust(built::least_busy())?, rust(built::least_prefill())?]])
}

/// Puts a file in another's place, whole at once.
fn replace(folder: &Path, policy_type: &str, component: &[u8]) -> Result<()> {
    let next = folder.join(format!("{policy_type}.next"));
    std::fs::write(&next, component)?;
    Ok(std::fs::rename(next, folder.join(format!("{policy_type}.wasm")))?)
}

/// What the folders hold, tried and ready to be prepared.
fn from_folders(folders: &[PolicyFolder; 2]) -> Result<Policies> {
    let in_turn = instance("turns", Value::Null, OnFailure::Reject);
    let settings = json!({ "min_device_overlap_blocks": 0 });
    let in_rust = instance("busy", settings, OnFailure::Reject);
    for (folder, (role, spec)) in folders.iter().zip([(IN_TURN, &in_turn), (IN_RUST, &in_rust)]) {
        let policy = folder.policy(&spec.name).context("it has just been found")?;
        let trial = environment(&partition("trial", role), spec);
        // `turns` traps at the prompt of a trial: it is only made then, and not asked.
        match role {
            IN_TURN => drop(policy.instantiate(&trial)?),
            _ => drop(policy.probe(&trial)?),
        }
    }
    // States that can't be handed over refuse the reload.
    let strict = [(IN_TURN, in_turn), (IN_RUST, in_rust)].map(|(role, mut spec)| {
        spec.discard_state = false;
        (role, spec)
    });
    policies(folders.iter().flat_map(PolicyFolder::providers), strict)
}

fn partitions(router: &Router) -> Result<Vec<PartitionKey>> {
    let groups = (0..PARTITIONS).map(|group| format!("group-{group}"));
    let keys = groups.flat_map(|group| [IN_TURN, IN_RUST].map(|role| partition(&group, role)));
    let keys: Vec<PartitionKey> = keys.collect();
    for (at, key) in keys.iter().enumerate() {
        let first = at as u64 * WORKERS;
        populate(router, key, first..first + WORKERS)?;
    }
    Ok(keys)
}

/// What was decided meanwhile.
#[derive(Debug, Default)]
struct Decided {
    decisions: u64,
    failed: u64,
    out_of_turn: u64,
}

/// Decides in all partitions in turn, a burst every five milliseconds, until it is over.
fn decide(router: &Router, partitions: &[PartitionKey], done: &AtomicBool) -> Decided {
    let mut decided = Decided::default();
    let mut carried = VecDeque::with_capacity(CARRIED);
    let watch = Stopwatch::start();
    let mut requests: Vec<RouteRequest> =
        partitions.iter().map(|key| RouteRequest::new("r", key.clone(), 0)).collect();
    let mut round = 0;
    while !done.load(Ordering::Relaxed) {
        for (at, request) in requests.iter_mut().enumerate() {
            // Never a multiple of ten, at which `remembers` traps.
            request.prompt_tokens = 2_001 + round % 9;
            let moment = Moment { now_ms: watch.elapsed().as_millis() as u64, seed: round };
            decided.decisions += 1;
            match router.route(request, moment, Mode::Book) {
                Ok(decision) if decision.receipt.fallback.is_none() => {
                    let in_turn = at as u64 * WORKERS + round % WORKERS;
                    let is_so = decision.worker.worker_id == WorkerId(in_turn);
                    decided.out_of_turn += u64::from(request.partition.role == IN_TURN && !is_so);
                    carried.push_back(decision.lease);
                }
                _ => decided.failed += 1,
            }
            if carried.len() > CARRIED {
                carried.pop_front();
            }
        }
        round += 1;
        thread::sleep(Duration::from_millis(5));
    }
    decided
}

/// How many threads there are, when those that compiled have ended.
fn settled_threads() -> Result<u64> {
    let mut least = process()?.1;
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(1));
        least = least.min(process()?.1);
    }
    Ok(least)
}
