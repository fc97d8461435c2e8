//! Hostile neighbours: every guest that does something wrong, each with a partition of its own.
//!
//! Owns how each was found to be bad (while it is read, while it is configured, or only when asked),
//! and does the same to the host again and again. A router has four roles with one policy each, so
//! that there are as many routers as it takes; they share one engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use pointsman_core::RouteError;
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::DEFAULT;
use pointsman_core::policy::{InstanceSpec, OnFailure, PolicyProvider};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_wasm::{ComponentPolicy, PolicyEngine};
use serde_json::json;

use crate::guests::{self, guest, varied};
use crate::setting::{ROLES, environment, instance, partition, policies, populate};

/// Guests that do nothing wrong.
const GOOD: [&str; 5] = ["follows", "later-version", "picks-alone", "remembers", "template"];

/// Requests that a neighbour gets at a time.
const REQUESTS: u64 = 2;
/// How often each gets some between two reloads: one that was lost is made anew meanwhile.
const PASSES: usize = 5;
/// Workers of each of their partitions.
const WORKERS: u64 = 8;

/// What becomes of a failed decision; each neighbour has another at each turn.
const RULES: [OnFailure; 4] =
    [OnFailure::Default, OnFailure::Reject, OnFailure::Skip, OnFailure::LastGood];

/// More that is wrong, written as parts of the template.
fn more() -> Vec<(&'static str, Vec<u8>)> {
    let handing_over = |save: &str, restore: &str| {
        varied(&format!(
            ";;; data
             (data (i32.const 1088) \"hands-over\")
             (data (i32.const 1116) \"\\0a\\00\\00\\00\")
             ;;; end
             ;;; start
             (func (export \"save\") (result i32) {save} (call $ok-list (i32.const 2048) (i32.const 4)))
             (func (export \"restore\") (param i32 i32) (result i32) {restore} (call $ok-row (i32.const 0)))
             ;;; end
             ;;; exports
             (func $save (result (result (list u8) (error string)))
               (canon lift (core func $policy \"save\") (memory $memory)))
             (func $restore (param \"state\" (list u8)) (result (result (error string)))
               (canon lift (core func $policy \"restore\") (memory $memory) (realloc $realloc)))
             (instance $handover (export \"save\" (func $save)) (export \"restore\" (func $restore)))
             (export \"pointsman:policy/handover@0.1.0\" (instance $handover))
             (export \"pointsman:policy/worker-selection@0.1.0\" (instance $selection))
             ;;; end"
        ))
    };
    let scores = |body: &str| {
        varied(&format!(
            ";;; score\n(func $score (param $call i32) (result i32) {body})\n;;; end\n"
        ))
    };
    let grows = "(table $more 1 funcref)
        (func $score (param $call i32) (result i32)
          (loop $again (br_if $again
            (i32.ne (table.grow $more (ref.null func) (i32.const 4096)) (i32.const -1))))
          unreachable)";
    // 16 MiB of its own memory, all of which is its answer.
    let floods = "(drop (memory.grow (i32.const 256)))
        (call $ok-list (i32.const 65536) (i32.const 2097152))";
    // It writes over all that it was given, and answers with it.
    let scribbles = "(memory.fill (local.get $call) (i32.const 255) (i32.const 65536))
        (call $ok-list (i32.load offset=180 (local.get $call)) (i32.load offset=184 (local.get $call)))";
    let loops = "(call $loop-for-ever)";
    vec![
        ("grows-tables", varied(&format!(";;; score\n{grows}\n;;; end\n"))),
        ("floods", scores(floods)),
        ("scribbles", scores(scribbles)),
        ("loops-in-save", handing_over(loops, "")),
        ("loops-in-restore", handing_over("", loops)),
        ("traps-in-save", handing_over("unreachable", "")),
        ("slow-to-compile", guests::slow().to_vec()),
    ]
}

/// How a neighbour is bad.
enum Kind {
    /// A file that doesn't become a policy.
    Unreadable(PathBuf),
    /// A policy that can't be configured.
    Unwilling(ComponentPolicy),
    /// A policy that decides, somehow.
    Deciding(ComponentPolicy),
    /// It takes seconds to compile, and decides well.
    Slow(PathBuf),
}

struct Neighbour {
    name: String,
    kind: Kind,
    partition: PartitionKey,
    request: RouteRequest,
}

/// What was done to the host, and how it took it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    /// Neither answered nor refused as declared.
    pub(crate) against_the_rule: BTreeMap<String, u64>,
    /// Files and configurations that were tried, and refused.
    pub(crate) turned_away: u64,
    /// How often all were put in place anew.
    pub(crate) reloads: u64,
    pub(crate) compiled_slowly: u64,
}

/// All of them.
pub(crate) struct Neighbours {
    engine: PolicyEngine,
    routers: Vec<(Router, Vec<Neighbour>)>,
    /// How often they were put in place.
    turn: usize,
    /// Whom it is at: a router, and a neighbour of it.
    at: (usize, usize),
    passes: usize,
    watch: Stopwatch,
    pub(crate) tally: Tally,
}

impl Neighbours {
    /// Finds out how each is bad, and puts in place what can be. Files go into `folder`.
    pub(crate) fn new(engine: &PolicyEngine, folder: &Path) -> Result<Self> {
        let mut files: Vec<(String, PathBuf)> = Vec::new();
        let named = guests::all().into_iter().filter(|name| !GOOD.contains(&&**name));
        let named = named.map(|name| (name.clone(), guest(&name)));
        let more = more().into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
        for (name, bytes) in named.chain(more) {
            files.push((name.clone(), folder.join(format!("{name}.wasm"))));
            std::fs::write(&files[files.len() - 1].1, bytes)?;
        }
        for (name, length) in [("is-200-megabytes", 200 << 20), ("is-60-megabytes", 60 << 20)] {
            let path = folder.join(format!("{name}.wasm"));
            std::fs::write(&path, b"\0asm\x0d\0\x01\0")?;
            std::fs::OpenOptions::new().write(true).open(&path)?.set_len(length)?;
            files.push((name.to_owned(), path));
        }
        let whole = std::fs::read(pointsman_tests::guests::least_busy())?;
        let half = folder.join("is-cut-in-half.wasm");
        std::fs::write(&half, &whole[..whole.len() / 2])?;
        files.push(("is-cut-in-half".to_owned(), half));

        let mut routers = Vec::new();
        for four in files.chunks(ROLES.len()) {
            let neighbours = four.iter().zip(ROLES);
            let neighbours: Vec<Neighbour> =
                neighbours.map(|((name, path), role)| meet(engine, name, path, role)).collect();
            let router = Router::new(in_place(&neighbours, 0)?, 7);
            for neighbour in &neighbours {
                populate_one(&router, neighbour)?;
            }
            routers.push((router, neighbours));
        }
        let engine = engine.clone();
        let watch = Stopwatch::start();
        Ok(Self { engine, routers, turn: 0, at: (0, 0), passes: 0, watch, tally: Tally::default() })
    }

    /// How many there are: all, those that can't be read, those that can't be configured.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let all = || self.routers.iter().flat_map(|(_, neighbours)| neighbours);
        let of = |is: fn(&Kind) -> bool| all().filter(|one| is(&one.kind)).count();
        (
            all().count(),
            of(|kind| matches!(kind, Kind::Unreadable(_))),
            of(|kind| matches!(kind, Kind::Unwilling(_))),
        )
    }

    /// Puts all of them in place anew: fresh instances, which have not failed yet, told another rule.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.turn += 1;
        for (router, neighbours) in &self.routers {
            let policies = in_place(neighbours, self.turn)?;
            router.install(router.prepare(policies)?)?;
        }
        self.tally.reloads += 1;
        Ok(())
    }

    /// The next one does what it does. True when all have been asked since they were put in place.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let Self { engine, routers, turn, at, passes, watch, tally } = self;
        let Some((router, neighbours)) = routers.get_mut(at.0) else {
            *at = (0, 0);
            *passes += 1;
            return Ok(passes.is_multiple_of(PASSES));
        };
        let Some(neighbour) = neighbours.get_mut(at.1) else {
            *at = (at.0 + 1, 0);
            return Ok(false);
        };
        match &neighbour.kind {
            Kind::Unreadable(path) => match ComponentPolicy::open(engine, &neighbour.name, path) {
                Err(_) => tally.turned_away += 1,
                Ok(_) => bail!("{} was taken after all", neighbour.name),
            },
            Kind::Unwilling(policy) => {
                // As a reload that names it, which is refused as a whole.
                let spec = instance(&neighbour.name, json!({}), OnFailure::Default);
                let role = neighbour.partition.role;
                let named = policies([Arc::new(policy.clone()) as _], [(role, spec)])?;
                match router.prepare(named) {
                    Err(_) => tally.turned_away += 1,
                    Ok(_) => bail!("{} was configured after all", neighbour.name),
                }
            }
            Kind::Deciding(_) | Kind::Slow(_) => {}
        }
        for n in 0..REQUESTS {
            let rule = rule(at.1, *turn);
            neighbour.request.prompt_tokens = 2_000 + n;
            let now_ms = watch.elapsed().as_millis() as u64;
            let answer = router.route(&neighbour.request, Moment { now_ms, seed: n }, Mode::Book);
            tally.requests += 1;
            let as_declared = match &answer {
                Ok(decision) => {
                    tally.answered += 1;
                    rule != OnFailure::Reject || decision.receipt.fallback.is_none()
                }
                Err(error) => {
                    tally.refused += 1;
                    match error {
                        RouteError::Policy(_) => rule == OnFailure::Reject,
                        // Its answer, and no failure.
                        RouteError::AllEligibleWorkersFiltered { .. } => {
                            neighbour.name == "keeps-none"
                        }
                        _ => false,
                    }
                }
            };
            if !as_declared {
                let what = format!("{}, {rule:?}: {:?}", neighbour.name, answer.err());
                *tally.against_the_rule.entry(what).or_default() += 1;
            }
        }
        at.1 += 1;
        Ok(false)
    }

    /// Has compiled what takes long, once.
    pub(crate) fn compile_slowly(&mut self) -> Result<()> {
        for neighbour in self.routers.iter().flat_map(|(_, neighbours)| neighbours) {
            if let Kind::Slow(path) = &neighbour.kind {
                ComponentPolicy::open(&self.engine, &neighbour.name, path)?;
                self.tally.compiled_slowly += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn routers(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().map(|(router, _)| router)
    }
}

/// Failed stages by cause.
pub(crate) fn failures<'a>(
    routers: impl IntoIterator<Item = &'a Router>,
) -> BTreeMap<&'static str, u64> {
    let mut causes = BTreeMap::new();
    for partition in routers.into_iter().flat_map(Router::partitions) {
        for (cause, count) in partition.counts().failures {
            *causes.entry(cause.as_str()).or_default() += count;
        }
    }
    causes.retain(|_, count| *count > 0);
    causes
}

fn rule(at: usize, turn: usize) -> OnFailure {
    RULES[(at + turn) % RULES.len()]
}

/// Finds out how one is bad.
fn meet(engine: &PolicyEngine, name: &str, path: &Path, role: Role) -> Neighbour {
    let partition = partition(name, role);
    let kind = match ComponentPolicy::open(engine, name, path) {
        Err(_) => Kind::Unreadable(path.to_owned()),
        Ok(_) if name == "slow-to-compile" => Kind::Slow(path.to_owned()),
        Ok(policy) => {
            let spec = instance(name, json!({}), OnFailure::Default);
            match policy.instantiate(&environment(&partition, &spec)) {
                Ok(_) => Kind::Deciding(policy),
                Err(_) => Kind::Unwilling(policy),
            }
        }
    };
    let request = RouteRequest::new("r", partition.clone(), 2_048);
    Neighbour { name: name.to_owned(), kind, partition, request }
}

/// The policies of four of them; where there is none, the built-in decides.
fn in_place(neighbours: &[Neighbour], turn: usize) -> Result<Policies> {
    let deciding = neighbours.iter().enumerate().filter_map(|(at, one)| match &one.kind {
        Kind::Deciding(policy) => Some((at, one, policy)),
        _ => None,
    });
    let deciding: Vec<_> = deciding.collect();
    let providers = deciding.iter().map(|(.., policy)| Arc::new((*policy).clone()) as _);
    let instances = deciding.iter().map(|(at, one, _)| {
        let spec = instance(&one.name, json!({ "turn": turn }), rule(*at, turn));
        (one.partition.role, spec)
    });
    policies(providers, instances.collect::<Vec<(Role, InstanceSpec)>>())
}

fn populate_one(router: &Router, neighbour: &Neighbour) -> Result<()> {
    debug_assert_ne!(neighbour.name, DEFAULT);
    let first = ROLES.iter().position(|role| *role == neighbour.partition.role).unwrap_or(0) as u64;
    populate(router, &neighbour.partition, first * WORKERS..(first + 1) * WORKERS)
}
