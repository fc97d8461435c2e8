//! The look at all programs, once in an interval: who is forgotten, who goes on, who is paused.
//!
//! However many there are, a look comes down to a few passes over them: what has to be in order is taken from
//! heaps, and no more than so many go on or are placed in one look.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use pointsman_sdk::classifier::prelude::*;

use crate::program::Program;
use crate::programs::{Admitted, Number, Programs};

/// Programs that are resumed, resumed late or forgotten in one look; others are at the next one.
const MOST: usize = 256;

impl Programs {
    pub(crate) fn reconcile(&mut self, now_ms: u64) -> Vec<Admitted> {
        self.forget_idle(now_ms);
        let mut admitted = self.admit_heads(now_ms);
        admitted.extend(self.resume());
        admitted.extend(self.resume_overdue(now_ms));
        self.pause(now_ms);
        admitted
    }

    fn forget_idle(&mut self, now_ms: u64) {
        let most_ms = u64::from(self.settings().session_retention_seconds) * 1_000;
        let is_idle =
            |program: &Program| program.acts() && now_ms.saturating_sub(program.used_ms) > most_ms;
        for number in self.those(is_idle).into_iter().take(MOST) {
            self.forget(number);
        }
    }

    /// Requests whose program isn't paused and has nothing under way: the fleet has changed, say.
    fn admit_heads(&mut self, now_ms: u64) -> Vec<Admitted> {
        let has_head = |program: &Program| {
            program.paused_ms.is_none()
                && program.in_flight.is_empty()
                && !program.waiting.is_empty()
        };
        let heads = self.those(has_head);
        heads.into_iter().take(MOST).filter_map(|number| self.admit_head(number, now_ms)).collect()
    }

    fn those(&self, of: impl Fn(&Program) -> bool) -> Vec<Number> {
        self.all().filter(|(_, program)| of(program)).map(|(number, _)| number).collect()
    }

    /// Resumes as many programs as there is room for below the ceiling: who, by rank; where, the largest
    /// first.
    fn resume(&mut self) -> Vec<Admitted> {
        if self.paused().is_empty() {
            return Vec::new();
        }
        let ceiling = self.settings().pause_threshold - self.settings().resume_hysteresis;
        let room = |(worker, capacity): (&Worker, &u64)| {
            (*worker, share(*capacity, ceiling).saturating_sub(self.used(*worker)))
        };
        let mut rooms: BTreeMap<Worker, u64> = self.capacities().iter().map(room).collect();
        let mut admitted = Vec::new();
        for (need, Reverse(number)) in self.chosen(&rooms) {
            let pin = self.get(number).and_then(pin);
            let allows = |worker: &Worker| pin.is_none_or(|pin| pin.matches(*worker));
            let knows_place = rooms.keys().any(allows);
            let place = rooms.iter_mut().find(|(worker, room)| allows(worker) && **room >= need);
            let worker = place.map(|(worker, room)| {
                *room -= need;
                *worker
            });
            if worker.is_some() || !knows_place {
                admitted.extend(self.go_on(number, worker));
            }
        }
        admitted
    }

    /// The paused programs that all room together is enough for, by rank; given by need, largest first, and
    /// of equals in the order in which they came.
    fn chosen(&self, rooms: &BTreeMap<Worker, u64>) -> Vec<(u64, Reverse<Number>)> {
        let mut left: u64 = rooms.values().sum();
        let paused = self.all().filter(|(_, program)| program.paused_ms.is_some());
        let ranked = paused.map(|(number, program)| {
            Reverse((program.rank(), number, program.need(self.settings())))
        });
        let mut ranked: BinaryHeap<_> = ranked.collect();
        let mut chosen = Vec::new();
        for _ in 0..MOST {
            let Some(Reverse((_, number, need))) = ranked.pop() else { break };
            if rooms.is_empty() || need <= left {
                left = left.saturating_sub(need);
                chosen.push((need, Reverse(number)));
            }
        }
        chosen.sort_unstable_by(|one, other| other.cmp(one));
        chosen
    }

    /// Resumes those that were paused for too long, wherever most is free: what acting programs hold fades.
    fn resume_overdue(&mut self, now_ms: u64) -> Vec<Admitted> {
        let most_ms = u64::from(self.settings().resume_timeout_seconds) * 1_000;
        let overdue = self.all().filter_map(|(number, program)| {
            let since = program.paused_ms?;
            (now_ms.saturating_sub(since) > most_ms).then_some(Reverse((since, number)))
        });
        let mut overdue: BinaryHeap<_> = overdue.collect();
        if overdue.is_empty() {
            return Vec::new();
        }
        let (mut free, mut admitted) = (self.faded(now_ms), Vec::new());
        for _ in 0..MOST {
            let Some(Reverse((_, number))) = overdue.pop() else { break };
            let Some(program) = self.get(number) else { continue };
            let (pin, need) = (pin(program), program.need(self.settings()) as f64);
            let allowed =
                free.iter_mut().filter(|(worker, _)| pin.is_none_or(|pin| pin.matches(**worker)));
            let most =
                allowed.max_by(|one, other| one.1.total_cmp(other.1).then(other.0.cmp(one.0)));
            let worker = most.map(|(worker, free)| {
                *free -= need;
                *worker
            });
            admitted.extend(self.go_on(number, worker));
        }
        admitted
    }

    /// What is free on each worker, if what acting programs hold counts half as much after each tau.
    fn faded(&self, now_ms: u64) -> BTreeMap<Worker, f64> {
        let capacity = |(worker, capacity): (&Worker, &u64)| (*worker, *capacity as f64);
        let mut free: BTreeMap<Worker, f64> = self.capacities().iter().map(capacity).collect();
        let tau_ms = self.settings().acting_decay_tau_seconds * 1_000.0;
        for (_, program) in self.all() {
            let Some(free) = program.worker.and_then(|worker| free.get_mut(&worker)) else {
                continue;
            };
            let idle_ms = now_ms.saturating_sub(program.used_ms) as f64;
            let left = match program.acts() {
                true => math::exp(-std::f64::consts::LN_2 * idle_ms / tau_ms),
                false => 1.0,
            };
            *free -= left * program.charge(self.settings()) as f64;
        }
        free
    }

    /// A paused program is on that worker again, and its next request goes on.
    fn go_on(&mut self, number: Number, worker: Option<Worker>) -> Option<Admitted> {
        self.change(number, |program| (program.paused_ms, program.worker) = (None, worker));
        if self.get(number)?.in_flight.is_empty() { self.begin(number, worker) } else { None }
    }

    /// Pauses programs on workers that are too full: acting ones now, reasoning ones when their request ends;
    /// short ones first.
    fn pause(&mut self, now_ms: u64) {
        let (threshold, target) = (self.settings().pause_threshold, self.settings().pause_target);
        let full = self
            .capacities()
            .iter()
            .filter(|(worker, capacity)| self.used(**worker) > share(**capacity, threshold));
        let full: BTreeMap<Worker, u64> =
            full.map(|(worker, capacity)| (*worker, share(*capacity, target))).collect();
        if full.is_empty() {
            return;
        }
        let mut on: BTreeMap<Worker, Vec<_>> = BTreeMap::new();
        for (number, program) in self.all() {
            if let Some(worker) = program.worker.filter(|worker| full.contains_key(worker)) {
                let reasons = !program.in_flight.is_empty();
                let charge = program.charge(self.settings());
                on.entry(worker).or_default().push(Reverse((reasons, charge, number)));
            }
        }
        for (worker, programs) in on {
            let target = full.get(&worker).copied().unwrap_or(0);
            let mut programs = BinaryHeap::from(programs);
            let mut used = self.used(worker);
            while used > target {
                let Some(Reverse((reasons, charge, number))) = programs.pop() else { break };
                used -= charge;
                self.change(number, |program| match reasons {
                    true => program.pauses_next = true,
                    false => (program.worker, program.paused_ms) = (None, Some(now_ms)),
                });
            }
        }
    }
}

/// The worker that a program's next request was demanded for.
fn pin(program: &Program) -> Option<WorkerTarget> {
    program.waiting.front().and_then(|next| next.pin)
}

fn share(tokens: u64, share: f64) -> u64 {
    (tokens as f64 * share) as u64
}
