//! The look at all programs, once in an interval: who is forgotten, who goes on, who is paused.

use std::collections::BTreeMap;

use pointsman_sdk::classifier::prelude::*;

use crate::program::Program;
use crate::programs::{Admitted, Programs};

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
        for id in self.ids(is_idle) {
            self.forget(&id);
        }
    }

    /// Requests whose program isn't paused and has nothing under way: the fleet has changed, say.
    fn admit_heads(&mut self, now_ms: u64) -> Vec<Admitted> {
        let has_head = |program: &Program| {
            program.paused_ms.is_none()
                && program.in_flight.is_empty()
                && !program.waiting.is_empty()
        };
        let heads = self.ids(has_head);
        heads.iter().filter_map(|id| self.admit_head(id, now_ms)).collect()
    }

    fn ids(&self, of: impl Fn(&Program) -> bool) -> Vec<String> {
        self.all().filter(|(_, program)| of(program)).map(|(id, _)| id.clone()).collect()
    }

    /// Resumes as many programs as there is room for below the ceiling: who, by rank; where, the largest
    /// first.
    fn resume(&mut self) -> Vec<Admitted> {
        if self.paused().is_empty() {
            return Vec::new();
        }
        let settings = self.settings();
        let ceiling = settings.pause_threshold - settings.resume_hysteresis;
        let room = |(worker, capacity): (&Worker, &u64)| {
            (*worker, share(*capacity, ceiling).saturating_sub(self.used(*worker)))
        };
        let mut rooms: BTreeMap<Worker, u64> = self.capacities().iter().map(room).collect();
        let knows_none = rooms.is_empty();
        let mut left: u64 = rooms.values().sum();
        let paused = self.paused().iter().filter_map(|id| Some((id, self.get(id)?)));
        let mut ranked: Vec<_> =
            paused.map(|(id, program)| (program.rank(), id, program)).collect();
        ranked.sort_by_key(|(rank, id, _)| (*rank, *id));
        let mut chosen = Vec::new();
        for (_, id, program) in ranked {
            let need = program.need(settings);
            if knows_none || need <= left {
                left = left.saturating_sub(need);
                chosen.push((need, id.clone(), pin(program)));
            }
        }
        chosen.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let mut admitted = Vec::new();
        for (need, id, pin) in chosen {
            let allows = |worker: &Worker| pin.is_none_or(|pin| pin.matches(*worker));
            let knows_place = rooms.keys().any(allows);
            let place = rooms.iter_mut().find(|(worker, room)| allows(worker) && **room >= need);
            let worker = place.map(|(worker, room)| {
                *room -= need;
                *worker
            });
            if worker.is_some() || !knows_place {
                admitted.extend(self.go_on(&id, worker));
            }
        }
        admitted
    }

    /// Resumes those that were paused for too long, wherever most is free: what acting programs hold fades.
    fn resume_overdue(&mut self, now_ms: u64) -> Vec<Admitted> {
        let most_ms = u64::from(self.settings().resume_timeout_seconds) * 1_000;
        let is_overdue = |program: &Program| {
            program.paused_ms.is_some_and(|since| now_ms.saturating_sub(since) > most_ms)
        };
        let mut overdue = self.ids(is_overdue);
        overdue.sort_by_key(|id| self.get(id).and_then(|program| program.paused_ms));
        let mut admitted = Vec::new();
        for id in overdue {
            let Some(pin) = self.get(&id).map(pin) else { continue };
            let free = self.faded(now_ms);
            let allowed =
                free.into_iter().filter(|(worker, _)| pin.is_none_or(|pin| pin.matches(*worker)));
            let most = allowed
                .max_by(|one, other| one.1.total_cmp(&other.1).then_with(|| other.0.cmp(&one.0)));
            admitted.extend(self.go_on(&id, most.map(|(worker, _)| worker)));
        }
        admitted
    }

    /// What is free on each worker, if what acting programs hold counts half as much after each tau.
    fn faded(&self, now_ms: u64) -> BTreeMap<Worker, f64> {
        let mut free: BTreeMap<Worker, f64> = self
            .capacities()
            .iter()
            .map(|(worker, capacity)| (*worker, *capacity as f64))
            .collect();
        let tau_ms = self.settings().acting_decay_tau_seconds * 1_000.0;
        for (_, program) in self.all() {
            let Some(free) = program.worker.and_then(|worker| free.get_mut(&worker)) else {
                continue;
            };
            let idle_ms = now_ms.saturating_sub(program.used_ms) as f64;
            let left = if program.acts() { math::powf(0.5, idle_ms / tau_ms) } else { 1.0 };
            *free -= left * program.charge(self.settings()) as f64;
        }
        free
    }

    /// A paused program is on that worker again, and its next request goes on.
    fn go_on(&mut self, id: &str, worker: Option<Worker>) -> Option<Admitted> {
        self.change(id, |program| (program.paused_ms, program.worker) = (None, worker));
        if self.get(id)?.in_flight.is_empty() { self.begin(id, worker) } else { None }
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
        let mut on: BTreeMap<Worker, Vec<(bool, u64, String)>> = BTreeMap::new();
        for (id, program) in self.all() {
            if let Some(worker) = program.worker.filter(|worker| full.contains_key(worker)) {
                let charge = program.charge(self.settings());
                on.entry(worker).or_default().push((
                    !program.in_flight.is_empty(),
                    charge,
                    id.clone(),
                ));
            }
        }
        for (worker, mut programs) in on {
            let target = full.get(&worker).copied().unwrap_or(0);
            let mut used = self.used(worker);
            programs.sort();
            for (reasons, charge, id) in programs {
                if used <= target {
                    break;
                }
                used -= charge;
                self.change(&id, |program| {
                    if reasons {
                        program.pauses_next = true;
                    } else {
                        (program.worker, program.paused_ms) = (None, Some(now_ms));
                    }
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
