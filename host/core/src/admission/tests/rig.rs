//! A router with a line before its partition, and everybody's turn in one hand.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::clock::Moment;
use crate::fleet::WorkerSpec;
use crate::ids::{DpRank, WorkerRank, WorkerTarget};
use crate::index::{CacheEvent, Content, Stored, Tier};
use crate::ledger::Lease;
use crate::partition::Mode;
use crate::policy::settings::RouterSettings;
use crate::router::{Policies, Router};
use crate::testing::{builtin, router};

#[derive(Debug, Default)]
pub(super) struct Counting(AtomicU64);

impl Counting {
    pub(super) fn rings(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Bell for Counting {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A class whose ranks are busy with anything to compute.
pub(super) fn queueing(name: &str, quantum: u64) -> ClassSpec {
    ClassSpec { quantum, prefill_busy_threshold: Some(0), ..ClassSpec::new(name) }
}

/// A profile whose default is the first class.
pub(super) fn of(policy_classes: Vec<ClassSpec>) -> Profile {
    let default_policy_family = policy_classes.first().map(|class| class.name.clone());
    let spec = ProfileSpec { default_policy_family, policy_classes, ..ProfileSpec::default() };
    Profile::new(spec).unwrap()
}

pub(super) fn pinned_to(id: u64, mut request: RouteRequest) -> RouteRequest {
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: None });
    request
}

pub(super) struct Rig {
    pub(super) router: Router,
    pub(super) line: Line<&'static str>,
    scout: Scout,
    pub(super) profile: Arc<Profile>,
    pub(super) now_ms: u64,
    pub(super) bell: Arc<Counting>,
    last: Option<QueueKey>,
    seed: u64,
    /// What was decided when the line was looked at: it goes on.
    live: Vec<Lease>,
}

impl Rig {
    /// Workers that batch 1,000 tokens in a step, one rank each.
    pub(super) fn new(profile: Profile, ids: impl IntoIterator<Item = u64>) -> Self {
        Self::of(profile, ids)
    }

    pub(super) fn of(profile: Profile, ids: impl IntoIterator<Item = u64>) -> Self {
        let rig = Self {
            router: router(builtin("default"), []),
            line: Line::default(),
            scout: Scout::default(),
            profile: Arc::new(profile),
            now_ms: 0,
            bell: Arc::default(),
            last: None,
            seed: 0,
            live: Vec::new(),
        };
        ids.into_iter().for_each(|id| rig.join(id));
        rig
    }

    pub(super) fn join(&self, id: u64) {
        let spec = WorkerSpec { max_num_batched_tokens: Some(1_000), ..worker(id) };
        self.router.upsert_worker(spec).unwrap();
    }

    /// A worker has these blocks.
    pub(super) fn hold(&self, id: u64, hashes: &[u64]) {
        let content = Content::Sequences(hashes);
        let stored = Stored { parent: None, engines: hashes, content, tier: Tier::Device };
        let rank = WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(0) };
        self.partition().cache().apply(rank, CacheEvent::Stored(stored));
    }

    pub(super) fn partition(&self) -> Arc<Partition> {
        self.router.partitions().swap_remove(0)
    }

    pub(super) fn last_key(&self) -> QueueKey {
        self.last.unwrap()
    }

    /// What was decided when the line was looked at has ended.
    pub(super) fn ends(&mut self) {
        self.live.clear();
    }

    /// Prefills melt by the usual model from now on.
    pub(super) fn melting(&self) {
        let settings = RouterSettings {
            router_prefill_load_model: Some(Default::default()),
            ..(*self.router.settings()).clone()
        };
        let policies = Policies { settings: settings.into(), ..builtin("default") };
        let prepared = self.router.prepare(policies).unwrap();
        self.router.install(prepared).unwrap();
    }

    /// Somebody is decided without having waited.
    pub(super) fn force(&mut self, request: RouteRequest) -> Lease {
        let moment = self.moment();
        self.router.route(&request, moment, Mode::Book).unwrap().lease.unwrap()
    }

    fn moment(&mut self) -> Moment {
        self.seed += 1;
        Moment { now_ms: self.now_ms, seed: self.seed }
    }

    fn enter(
        &mut self,
        ticket: &'static str,
        request: RouteRequest,
        settled: bool,
    ) -> Result<Arrival, RouteError> {
        let (partition, settings) = (self.partition(), self.router.settings());
        let bell: Arc<dyn Bell> = self.bell.clone();
        let site = Site {
            partition: &partition,
            settings: &settings,
            profile: &self.profile,
            now_ms: self.now_ms,
            bell: &bell,
        };
        let request = Arc::new(request);
        let found = self.scout.find(&site, &request, !self.line.is_empty());
        let arrival =
            self.line.arrive(&site, &mut self.scout, &request, &found, settled, || ticket)?;
        if let Arrival::Waits(key) = arrival {
            self.last = Some(key);
        }
        Ok(arrival)
    }

    /// Somebody asks what would become of a request.
    pub(super) fn foresee(&mut self, request: &RouteRequest) -> Foreseen {
        let (partition, settings) = (self.partition(), self.router.settings());
        let bell: Arc<dyn Bell> = self.bell.clone();
        let site = Site {
            partition: &partition,
            settings: &settings,
            profile: &self.profile,
            now_ms: self.now_ms,
            bell: &bell,
        };
        let found = self.scout.find(&site, request, !self.line.is_empty());
        self.line.foresee(&site, request, &found)
    }

    /// Somebody comes to a line that was looked at.
    pub(super) fn come(
        &mut self,
        ticket: &'static str,
        request: RouteRequest,
    ) -> Result<Arrival, RouteError> {
        self.enter(ticket, request, true)
    }

    /// Somebody comes to a line that could go on.
    pub(super) fn come_unsettled(
        &mut self,
        ticket: &'static str,
        request: RouteRequest,
    ) -> Result<Arrival, RouteError> {
        self.enter(ticket, request, false)
    }

    /// Somebody comes who must pass, and is decided.
    pub(super) fn decide(&mut self, request: RouteRequest) -> Result<Lease, RouteError> {
        assert_eq!(self.come("passes", request.clone())?, Arrival::Passes);
        let moment = self.moment();
        Ok(self.router.route(&request, moment, Mode::Book)?.lease.unwrap())
    }

    /// Who has nothing to wait for any more, with what became of him if that is no decision.
    pub(super) fn look(&mut self) -> Vec<String> {
        let (partition, settings) = (self.partition(), self.router.settings());
        let bell: Arc<dyn Bell> = self.bell.clone();
        let mut done = Vec::new();
        loop {
            let site = Site {
                partition: &partition,
                settings: &settings,
                profile: &self.profile,
                now_ms: self.now_ms,
                bell: &bell,
            };
            match self.line.next(&site, &mut self.scout) {
                None => return done,
                Some(Next::Late(error, ticket)) => done.push(format!("{ticket}: {}", error.kind())),
                Some(Next::Decide(request, ticket, _)) => {
                    let moment = self.moment();
                    done.push(match self.router.route(&request, moment, Mode::Book) {
                        Ok(decision) => {
                            self.live.extend(decision.lease);
                            ticket.to_owned()
                        }
                        Err(error) => format!("{ticket}: {}", error.kind()),
                    });
                }
            }
        }
    }
}
