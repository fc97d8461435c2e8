//! What happens at random, one thing after the other.

use std::sync::Arc;

use pointsman_core::fleet::Availability;
use pointsman_core::ids::WorkerId;
use pointsman_core::ledger::{AttemptId, Change};
use pointsman_core::request::RouteRequest;

use crate::crew::Known;
use crate::fault::{Fault, Promise, Violation, keep};
use crate::model::{Held, Running};
use crate::traffic::{GROUPS, MODEL, spec};
use crate::world::{EXPIRY_MS, World};

/// Workers that there may be.
pub(crate) const WORKERS: u64 = 6;

/// The most that run, so that the books stay short.
const MOST_RUNNING: usize = 24;

/// The most that wait in a line.
const MOST_WAITING: usize = 24;

impl World {
    /// Each worker comes to one of the partitions; those that are empty have had one, too.
    pub(crate) fn begin(&mut self) {
        for id in 0..WORKERS {
            let known = self.traffic.life(None);
            let group = if (id as usize) < GROUPS.len() { id as usize } else { known.group };
            self.register(id, Known { group, ..known });
        }
    }

    fn register(&mut self, id: u64, known: Known) {
        self.router.upsert_worker(spec(id, &known)).expect("the fleet takes it");
        self.crew.begin(id, known);
        if self.is_broken(Fault::CarryOver) {
            self.carry_over(id);
        }
    }

    /// One thing happens, and whoever has to look does.
    pub(crate) fn step(&mut self) -> Result<(), Violation> {
        match self.traffic.below(1_000) {
            0..400 => self.arrives()?,
            400..480 => self.first_token(),
            480..530 => self.progresses(),
            530..640 => self.with_running(|world, at| drop(world.ends(at, false))),
            640..690 => self.with_running(|world, at| drop(world.ends(at, true))),
            690..750 => self.leaves_line(),
            750..770 => {
                // A client goes away with all that it has.
                self.leaves_line();
                self.with_running(|world, at| drop(world.ends(at, true)));
            }
            770..820 => self.is_tried_elsewhere()?,
            820..830 => self.late_word(),
            830..930 => self.time_passes()?,
            930..942 => self.worker_leaves(),
            942..970 => self.worker_comes(),
            970..982 => self.worker_changes(),
            982..992 => self.reloads(),
            _ => self.busy_thresholds_change(),
        }
        self.look()
    }

    fn with_running(&mut self, then: impl FnOnce(&mut Self, usize)) {
        if !self.running.is_empty() {
            let at = self.traffic.chance.below(self.running.len());
            then(self, at);
        }
    }

    fn arrives(&mut self) -> Result<(), Violation> {
        let group = self.traffic.chance.below(GROUPS.len());
        let full = self.stations[group].waiting.len() >= MOST_WAITING;
        if full || self.running.len() >= MOST_RUNNING {
            self.with_running(|world, at| drop(world.ends(at, false)));
            return Ok(());
        }
        self.next_id += 1;
        let (id, now_ms) = (self.next_id, self.now_ms);
        let request = self.traffic.request(id, group, WORKERS, now_ms);
        self.enter(id, group, request)
    }

    fn first_token(&mut self) {
        let keeps = self.is_broken(Fault::KeepPrefill);
        self.with_running(|world, at| {
            let (running, now_ms) = (&mut world.running[at], world.now_ms);
            running.prefill = 0;
            match &mut running.held {
                _ if keeps => {}
                Held::Lease(lease) => lease.prefill_done_at(now_ms),
                Held::Reserved(attempt, touched_ms) => {
                    *touched_ms = now_ms;
                    let name = &running.request.request_id;
                    let _ = world.reservations.prefill_complete(name, *attempt, now_ms);
                }
            }
        });
    }

    fn progresses(&mut self) {
        if self.is_broken(Fault::KeepPrefill) {
            return;
        }
        let tokens = 1 + self.traffic.below(30);
        self.with_running(|world, at| {
            let (running, now_ms) = (&mut world.running[at], world.now_ms);
            running.output += tokens;
            running.prefill = 0;
            match &mut running.held {
                Held::Lease(lease) => lease.progress(running.output),
                Held::Reserved(attempt, touched_ms) => {
                    *touched_ms = now_ms;
                    let (name, output) = (&running.request.request_id, running.output);
                    let change = world.reservations.progress(name, *attempt, output, now_ms);
                    assert_eq!(change, Change::Done, "the driver's own attempt");
                }
            }
        });
    }

    /// Somebody who waits goes away.
    fn leaves_line(&mut self) {
        let group = self.traffic.chance.below(GROUPS.len());
        let station = &mut self.stations[group];
        if station.waiting.is_empty() {
            return;
        }
        let at = self.traffic.chance.below(station.waiting.len());
        let id = *station.waiting.keys().nth(at).expect("so many wait");
        let waiter = station.waiting.remove(&id).expect("it waits");
        if self.is_broken(Fault::KeepWaiter) {
            return;
        }
        let line = &mut self.stations[group].line;
        assert_eq!(line.take(waiter.key), Some(id), "who waits can be taken out");
        assert_eq!(line.take(waiter.key), None, "once");
        // He may have held up others of his lane, and no load falls.
        self.look = true;
    }

    /// A worker fails a request, which is tried on another.
    fn is_tried_elsewhere(&mut self) -> Result<(), Violation> {
        if self.running.is_empty() {
            return Ok(());
        }
        let at = self.traffic.chance.below(self.running.len());
        if let Held::Lease(lease) = &mut self.running[at].held {
            lease.prompt_refused();
        }
        let Running { id, group, request, rank, .. } = self.ends(at, false);
        let mut again = RouteRequest::clone(&request);
        again.constraints.tried.insert(rank.worker_id);
        again.admission.arrived_at_ms.get_or_insert(self.now_ms.saturating_sub(5));
        self.enter(id, group, again)
    }

    /// Somebody speaks of an attempt that is none any more.
    fn late_word(&mut self) {
        let now_ms = self.now_ms;
        self.with_running(|world, at| {
            let name = &world.running[at].request.request_id;
            let old = AttemptId(0);
            let progress = world.reservations.progress(name, old, 1_000, now_ms);
            let prefill = world.reservations.prefill_complete(name, old, now_ms);
            let free = world.reservations.free(name, old);
            assert_eq!([progress, prefill, free], [Change::None; 3], "a late word does nothing");
        });
    }

    fn time_passes(&mut self) -> Result<(), Violation> {
        self.now_ms += 1 + self.traffic.below(30);
        // Due times come, and prefills are thought to be done.
        self.look = true;
        if self.is_broken(Fault::NeverExpire) {
            let now_ms = self.now_ms;
            self.running.retain(|running| !is_forgotten(running, now_ms));
            return Ok(());
        }
        let expired = self.reservations.expire(self.now_ms);
        let (before, now_ms) = (self.running.len(), self.now_ms);
        self.running.retain(|running| !is_forgotten(running, now_ms));
        let forgotten = before - self.running.len();
        self.tally.expired += forgotten as u64;
        keep(Promise::Leases, expired == forgotten, || {
            format!("{expired} expired, and nobody had spoken of {forgotten}")
        })
    }

    fn worker_leaves(&mut self) {
        let id = self.traffic.below(WORKERS);
        let known = self.crew.present.contains_key(&id);
        let removed = self.router.remove_worker(WorkerId(id)).is_ok();
        assert_eq!(removed, known, "the fleet is the driver's");
        self.crew.leave(id);
    }

    /// A worker comes back, or says again that it is there, or has begun anew unseen.
    fn worker_comes(&mut self) {
        let id = self.traffic.below(WORKERS);
        match (self.crew.present.get(&id).copied(), self.crew.gone.get(&id).copied()) {
            (Some(known), _) if self.traffic.percent(50) => {
                self.router.upsert_worker(spec(id, &known)).expect("it is there");
                self.crew.repeat(id);
            }
            (Some(known), _) => {
                let known = self.traffic.life(Some(known));
                self.register(id, known);
            }
            // The very same engine, after a while.
            (None, Some(gone)) if self.traffic.percent(50) => {
                self.register(id, Known { availability: Availability::Ready, ..gone });
            }
            (None, gone) => {
                let known = self.traffic.life(gone);
                self.register(id, known);
            }
        }
    }

    fn worker_changes(&mut self) {
        let id = self.traffic.below(WORKERS);
        let all = [
            Availability::Ready,
            Availability::Ready,
            Availability::Unhealthy,
            Availability::Overloaded,
            Availability::Draining,
        ];
        let availability = all[self.traffic.chance.below(all.len())];
        let there = self.router.set_availability(WorkerId(id), availability).is_ok();
        assert_eq!(there, self.crew.present.contains_key(&id), "the fleet is the driver's");
        self.crew.set(id, availability);
    }

    /// Other classes, or other policies and settings.
    fn reloads(&mut self) {
        self.policies = if self.traffic.percent(50) {
            self.traffic.reclassed(&self.policies)
        } else {
            self.traffic.policies(&self.policies)
        };
        let prepared = self.router.prepare(self.policies.clone()).expect("they can be made");
        self.router.install(prepared).expect("they can be put in place");
        self.profile = Arc::clone(&self.router.queue_profile(MODEL));
        // No load falls, but others are busy now.
        self.look |= !self.is_broken(Fault::ReloadUnseen);
    }

    fn busy_thresholds_change(&mut self) {
        let thresholds = self.traffic.busy_thresholds();
        self.overload = thresholds.is_some();
        assert!(self.router.set_busy_thresholds(MODEL, thresholds), "somebody serves it");
        self.look = true;
    }
}

/// Whether nobody has spoken of a reservation for too long.
fn is_forgotten(running: &Running, now_ms: u64) -> bool {
    let Held::Reserved(_, touched_ms) = running.held else { return false };
    now_ms - touched_ms >= EXPIRY_MS
}
