//! The system that is driven: a router, the lines before its partitions, and who holds what.
//!
//! Owns the driver's part of the bargain (who enters, who is decided, what is told of whom), and the
//! places where it can be broken.

use std::cmp::Ordering as Order;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pointsman_core::admission::{Arrival, Line, Next, Scout, Site, lane};
use pointsman_core::clock::Moment;
use pointsman_core::ids::WorkerRank;
use pointsman_core::ledger::{AttemptId, Bell, Change, Charge, Lease, Reservations};
use pointsman_core::partition::{Mode, Partition};
use pointsman_core::queue::Profile;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing::builtin;

use crate::crew::Crew;
use crate::fault::{Fault, Promise, Violation, keep};
use crate::model::{Held, Row, Running, Waiter, class_of, first_of, has_to_wait, heads, is_open};
use crate::traffic::{BLOCK, GROUPS, MODEL, Traffic, partition};

/// How long a reservation is kept that nobody speaks of, in milliseconds.
pub(crate) const EXPIRY_MS: u64 = 120;

#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Bell for Counting {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The line before one partition.
#[derive(Debug, Default)]
pub(crate) struct Station {
    pub(crate) line: Line<u64>,
    pub(crate) waiting: BTreeMap<u64, Waiter>,
    bell: Arc<Counting>,
    heard: u64,
}

/// What has happened, so that a run can be seen to have done something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) decided: u64,
    pub(crate) waited: u64,
    pub(crate) late: u64,
    pub(crate) refused: u64,
    pub(crate) hosted: u64,
    pub(crate) expired: u64,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) stations: [Station; GROUPS.len()],
    scout: Scout,
    pub(crate) crew: Crew,
    pub(crate) traffic: Traffic,
    pub(crate) running: Vec<Running>,
    pub(crate) reservations: Reservations,
    pub(crate) profile: Arc<Profile>,
    pub(crate) policies: Policies,
    pub(crate) now_ms: u64,
    /// Some overload is looked for: it comes with load that rises, and rings no bell.
    pub(crate) overload: bool,
    /// Whoever waits is to be looked at, whether or not a bell rang.
    pub(crate) look: bool,
    pub(crate) tally: Tally,
    pub(crate) next_id: u64,
    next_attempt: u64,
    fault: Option<Fault>,
    /// What a broken driver holds besides.
    pub(crate) astray: Vec<Lease>,
}

impl World {
    pub(crate) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut traffic = Traffic::new(seed);
        let policies = traffic.reclassed(&builtin("default"));
        let router = Router::new(policies.clone(), seed);
        Self {
            profile: router.queue_profile(MODEL),
            router,
            stations: Default::default(),
            scout: Scout::default(),
            crew: Crew::default(),
            traffic,
            running: Vec::new(),
            reservations: Reservations::new(Duration::from_millis(EXPIRY_MS), 10_000),
            policies,
            now_ms: 0,
            overload: false,
            look: false,
            tally: Tally::default(),
            next_id: 0,
            next_attempt: 0,
            fault,
            astray: Vec::new(),
        }
    }

    pub(crate) fn is_broken(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub(crate) fn partition(&self, group: usize) -> Arc<Partition> {
        self.router.partition(&partition(group)).expect("it has had a worker")
    }

    /// A request as the system gets to see it.
    fn shown(&self, request: &Arc<RouteRequest>) -> Arc<RouteRequest> {
        let mut shown = RouteRequest::clone(request);
        match self.fault {
            Some(Fault::IgnoreDue) => shown.admission.due_at_ms = None,
            Some(Fault::IgnoreStrict) => shown.strict_priority = 0,
            _ => return request.clone(),
        }
        Arc::new(shown)
    }

    fn at_line<T>(
        &mut self,
        group: usize,
        look: impl FnOnce(&Site<'_>, &mut Line<u64>, &mut Scout) -> T,
    ) -> T {
        let (partition, settings) = (self.partition(group), self.router.settings());
        let Self { stations, scout, profile, now_ms, .. } = self;
        let Station { line, bell, .. } = &mut stations[group];
        let bell: Arc<dyn Bell> = bell.clone();
        let (partition, settings, now_ms) = (&*partition, &*settings, *now_ms);
        look(&Site { partition, settings, profile, now_ms, bell: &bell }, line, scout)
    }

    /// Somebody comes.
    pub(crate) fn enter(
        &mut self,
        id: u64,
        group: usize,
        request: RouteRequest,
    ) -> Result<(), Violation> {
        let request = Arc::new(request);
        let shown = self.shown(&request);
        let arrival = if self.is_broken(Fault::PassAll) {
            Ok(Arrival::Passes)
        } else {
            self.at_line(group, |site, line, scout| {
                let found = scout.find(site, &shown, !line.is_empty());
                let settled = line.is_empty() || site.partition.ledger().relief().is_awaited();
                line.arrive(site, scout, &shown, &found, settled, || id)
            })
        };
        match arrival {
            Ok(Arrival::Passes) => {
                self.may_overtake(id, group, &request)?;
                self.decide(id, group, request)?;
            }
            Ok(Arrival::Waits(key)) => {
                self.tally.waited += 1;
                let arrived_ms = request.admission.arrived_at_ms.unwrap_or(self.now_ms);
                self.stations[group].waiting.insert(id, Waiter { key, request, arrived_ms });
            }
            Err(_) => self.tally.refused += 1,
        }
        Ok(())
    }

    /// Whoever waits no more leaves the line, if somebody was told to look.
    pub(crate) fn look(&mut self) -> Result<(), Violation> {
        let anyway = std::mem::take(&mut self.look) || self.overload;
        for group in 0..GROUPS.len() {
            let station = &mut self.stations[group];
            let rings = station.bell.0.load(Ordering::Relaxed);
            let rang = std::mem::replace(&mut station.heard, rings) != rings;
            if anyway || (rang && !self.is_broken(Fault::Deaf)) {
                self.drain(group)?;
            }
        }
        Ok(())
    }

    fn drain(&mut self, group: usize) -> Result<(), Violation> {
        while let Some(next) = self.at_line(group, |site, line, scout| line.next(site, scout)) {
            match next {
                Next::Late(_, id) => {
                    self.tally.late += 1;
                    let waiter = self.leaves(id, group)?;
                    let due = waiter.request.admission.due_at_ms;
                    keep(Promise::DueTime, due.is_some_and(|due| due <= self.now_ms), || {
                        format!("{id} is told that it is late, and is due at {due:?}")
                    })?;
                }
                Next::Decide(_, id, _) => {
                    self.is_next(id, group)?;
                    let waiter = self.leaves(id, group)?;
                    self.decide(id, group, waiter.request)?;
                }
            }
        }
        Ok(())
    }

    fn leaves(&mut self, id: u64, group: usize) -> Result<Waiter, Violation> {
        let waiter = self.stations[group].waiting.remove(&id);
        let detail = format!("{id} is answered, and doesn't wait");
        waiter.ok_or(Violation { promise: Promise::Answers, detail })
    }

    /// Whether somebody in the line is rightly the next.
    fn is_next(&self, id: u64, group: usize) -> Result<(), Violation> {
        let waiting = &self.stations[group].waiting;
        let Some(waiter) = waiting.get(&id) else { return Ok(()) };
        let (heads, rows) = (heads(&self.profile, waiting), self.rows(group));
        let strict = waiter.request.strict_priority;
        for (class, other, head) in &heads {
            let higher = head.request.strict_priority > strict;
            let spec = &self.profile.classes()[*class];
            keep(
                Promise::StrictPriority,
                !higher || has_to_wait(spec, &head.request, &rows),
                || format!("{id} of {strict} is decided before {other}, which may pass"),
            )?;
        }
        let is_head = heads.iter().any(|(_, head, _)| *head == id);
        keep(Promise::Order, is_head, || format!("{id} is not the first of its lane"))
    }

    /// Whether somebody who comes may rightly pass those who wait: none of his lane is before him, and
    /// none of higher strict priority might pass.
    fn may_overtake(&self, id: u64, group: usize, request: &RouteRequest) -> Result<(), Violation> {
        let (at, waiting) = (class_of(&self.profile, request), &self.stations[group].waiting);
        let class = &self.profile.classes()[at];
        if waiting.is_empty() || !class.queues() {
            return Ok(());
        }
        let rows = self.rows(group);
        let ranked = (request, request.admission.arrived_at_ms.unwrap_or(self.now_ms));
        for (of, other, head) in heads(&self.profile, waiting) {
            let same = of == at && lane(&head.request.constraints) == lane(&request.constraints);
            let leads = first_of(class.queue_policy, ranked, head.ranked()) == Order::Less;
            keep(Promise::Order, !same || leads, || format!("{id} overtakes {other}"))?;
            let higher = head.request.strict_priority > request.strict_priority;
            let waits = has_to_wait(&self.profile.classes()[of], &head.request, &rows);
            keep(Promise::StrictPriority, !higher || waits, || {
                format!("{id} passes before {other}, which may pass and is of higher priority")
            })?;
        }
        Ok(())
    }

    /// Somebody may pass, and is decided.
    fn decide(
        &mut self,
        id: u64,
        group: usize,
        request: Arc<RouteRequest>,
    ) -> Result<(), Violation> {
        let due = request.admission.due_at_ms;
        keep(Promise::DueTime, due.is_none_or(|due| due > self.now_ms), || {
            format!("{id} is decided at {}, and was due at {due:?}", self.now_ms)
        })?;
        let class = &self.profile.classes()[class_of(&self.profile, &request)];
        if class.queues() {
            let waits = has_to_wait(class, &request, &self.rows(group));
            keep(Promise::Busy, !waits, || format!("{id} passes, and its ranks are busy"))?;
        }
        let bookings = 1 + usize::from(self.is_broken(Fault::BookTwice));
        for at in 0..bookings {
            let moment = Moment { now_ms: self.now_ms, seed: self.traffic.chance.bits() };
            // Nobody may have it, or all have too much to do: then that is its answer.
            let Ok(decision) = self.router.route(&request, moment, Mode::Book) else { break };
            let lease = decision.lease.expect("it was to be booked");
            if at > 0 {
                self.astray.push(lease);
                break;
            }
            self.tally.decided += 1;
            self.tally.hosted += u64::from(decision.receipt.hosted);
            let cached = (decision.receipt.overlap.effective_blocks * BLOCK as f64).round() as u64;
            let prefill = request.prompt_tokens.saturating_sub(cached);
            let prefill = if decision.receipt.hosted { 0 } else { prefill };
            self.runs(id, group, request.clone(), lease, prefill);
        }
        Ok(())
    }

    fn runs(
        &mut self,
        id: u64,
        group: usize,
        request: Arc<RouteRequest>,
        lease: Lease,
        prefill: u64,
    ) {
        let rank = lease.worker();
        let life = self.crew.present.get(&rank.worker_id.0).map_or(0, |known| known.life);
        let held = if self.traffic.percent(30) {
            self.next_attempt += 1;
            let (attempt, now_ms) = (AttemptId(self.next_attempt), self.now_ms);
            let name = request.request_id.clone();
            self.reservations.add(name, attempt, lease, now_ms).expect("each has its own name");
            Held::Reserved(attempt, now_ms)
        } else {
            Held::Lease(lease)
        };
        self.running.push(Running { id, group, request, held, rank, life, prefill, output: 0 });
    }

    /// A request that runs ends, however.
    pub(crate) fn ends(&mut self, at: usize, cancelled: bool) -> Running {
        let mut running = self.running.swap_remove(at);
        let leak = cancelled && self.is_broken(Fault::LeakCancelled);
        if let Held::Reserved(attempt, _) = running.held {
            if !leak {
                let name = &running.request.request_id;
                let freed = [(); 2].map(|()| self.reservations.free(name, attempt));
                assert_eq!(freed, [Change::Done, Change::None], "it is freed once");
            }
        } else if leak {
            let gone = std::mem::replace(&mut running.held, Held::Reserved(AttemptId(0), 0));
            std::mem::forget(gone);
        } else {
            running.held = Held::Reserved(AttemptId(0), 0);
        }
        running
    }

    /// What an earlier life carried comes along, in a broken driver.
    pub(crate) fn carry_over(&mut self, id: u64) {
        let Some(known) = self.crew.present.get(&id) else { return };
        let ledger = self.partition(known.group).ledger().clone();
        let snapshot = ledger.snapshot();
        let its = self.running.iter().filter(|running| running.rank.worker_id.0 == id);
        let ranks: Vec<WorkerRank> = its.map(|running| running.rank).collect();
        for row in ranks.into_iter().filter_map(|rank| snapshot.row_of(rank)) {
            self.astray.extend(ledger.book(&snapshot, row, Charge::default(), self.now_ms));
        }
    }

    /// The rows of a partition as somebody who waits should see them.
    pub(crate) fn rows(&self, group: usize) -> Vec<Row> {
        let partition = self.partition(group);
        let overloaded: BTreeSet<_> = match self.overload {
            true => partition.overloaded_workers(self.now_ms).into_iter().collect(),
            false => BTreeSet::new(),
        };
        partition.ledger().read(|books| {
            let rows = books.snapshot.rows.iter().enumerate();
            let row = |(at, &rank): (usize, &WorkerRank)| Row {
                rank,
                prefill: books.prefill_left(at, self.now_ms),
                open: is_open(&self.crew, rank.worker_id, &overloaded),
            };
            rows.map(row).collect()
        })
    }
}
