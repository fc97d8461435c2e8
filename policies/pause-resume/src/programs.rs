//! All programs, what each worker can hold, and what is in use of it.
//!
//! Owns the counts: every change of a program goes through [`Programs::change`], so that they hold.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_sdk::classifier::prelude::*;

use crate::Settings;
use crate::program::{Program, Waiting};

/// Everything that is known.
pub(crate) struct Programs {
    settings: Settings,
    block_size: u64,
    of: BTreeMap<String, Program>,
    /// The program of each request that waits or is under way.
    requests: BTreeMap<String, String>,
    paused: BTreeSet<String>,
    /// Tokens that each worker can hold, where it said.
    capacities: BTreeMap<Worker, u64>,
    used: BTreeMap<Worker, u64>,
}

/// A request that goes on, with the worker that it should go to.
pub(crate) struct Admitted {
    pub(crate) request: String,
    pub(crate) worker: Option<Worker>,
}

impl Programs {
    pub(crate) fn new(settings: Settings, block_size: u32) -> Self {
        Self {
            settings,
            block_size: block_size.into(),
            of: BTreeMap::new(),
            requests: BTreeMap::new(),
            paused: BTreeSet::new(),
            capacities: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    #[must_use]
    pub(crate) fn with_capacities(mut self, workers: &[Capacity]) -> Self {
        self.set_capacities(workers);
        self
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn knows(&self, request: &str) -> bool {
        self.requests.contains_key(request)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Program> {
        self.of.get(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Program)> {
        self.of.iter()
    }

    pub(crate) fn paused(&self) -> &BTreeSet<String> {
        &self.paused
    }

    pub(crate) fn capacities(&self) -> &BTreeMap<Worker, u64> {
        &self.capacities
    }

    pub(crate) fn used(&self, worker: Worker) -> u64 {
        self.used.get(&worker).copied().unwrap_or(0)
    }

    /// Changes a program, and keeps the counts.
    pub(crate) fn change<R>(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Program) -> R,
    ) -> Option<R> {
        let program = self.of.get_mut(id)?;
        if let Some(used) = program.worker.and_then(|worker| self.used.get_mut(&worker)) {
            *used = used.saturating_sub(program.charge(&self.settings));
        }
        let changed = change(program);
        if let Some(worker) = program.worker {
            *self.used.entry(worker).or_default() += program.charge(&self.settings);
        }
        match program.paused_ms {
            Some(_) => self.paused.insert(id.to_owned()),
            None => self.paused.remove(id),
        };
        Some(changed)
    }

    pub(crate) fn forget(&mut self, id: &str) {
        self.change(id, |program| (program.worker, program.paused_ms) = (None, None));
        self.of.remove(id);
    }

    /// What ranks can hold. Programs on workers that are gone are on none from now on.
    pub(crate) fn set_capacities(&mut self, workers: &[Capacity]) {
        let tokens =
            |of: &Capacity| Some((of.worker, of.total_kv_blocks?.saturating_mul(self.block_size)));
        self.capacities = workers.iter().filter_map(tokens).collect();
        let here: BTreeSet<Worker> = workers.iter().map(|of| of.worker).collect();
        let lost = |program: &Program| program.worker.is_some_and(|worker| !here.contains(&worker));
        let lost: Vec<String> =
            self.of.iter().filter(|(_, program)| lost(program)).map(|(id, _)| id.clone()).collect();
        for id in lost {
            self.change(&id, |program| program.worker = None);
        }
        self.used.retain(|worker, _| here.contains(worker));
    }

    /// Makes sure that one request more may be known, and its program.
    pub(crate) fn make_room(&mut self, id: &str) -> std::result::Result<(), String> {
        let most = self.settings.max_tracked_requests as usize;
        if self.requests.len() >= most {
            return Err(format!("{most} requests of programs are known already"));
        }
        if self.of.len() < most || self.of.contains_key(id) {
            return Ok(());
        }
        let idle = self.of.iter().filter(|(_, program)| program.acts());
        let oldest = idle.min_by_key(|(_, program)| program.used_ms).map(|(id, _)| id.clone());
        let Some(oldest) = oldest else { return Err(format!("{most} programs are known already")) };
        self.forget(&oldest);
        Ok(())
    }

    /// Puts a request at the end of its program's line.
    pub(crate) fn wait(&mut self, id: &str, request: Waiting, now_ms: u64) {
        self.requests.insert(request.request.clone(), id.to_owned());
        self.of.entry(id.to_owned()).or_default();
        self.change(id, |program| {
            program.used_ms = now_ms;
            program.waiting.push_back(request);
        });
    }

    /// The first request of a program's line goes on, on that worker.
    pub(crate) fn begin(&mut self, id: &str, worker: Option<Worker>) -> Option<Admitted> {
        self.change(id, |program| {
            let next = program.waiting.pop_front()?;
            program.worker = worker;
            program.tokens = program.tokens.max(next.tokens);
            program.is_final = next.is_final;
            program.steps += 1;
            program.in_flight.insert(next.request.clone());
            Some(Admitted { request: next.request, worker })
        })?
    }

    /// A request was admitted before this classifier began.
    pub(crate) fn inherit(
        &mut self,
        id: &str,
        request: Waiting,
        worker: Option<Worker>,
        now_ms: u64,
    ) {
        let name = request.request.clone();
        self.wait(id, request, now_ms);
        self.admitted_elsewhere(&name);
        if let Some(worker) = worker {
            self.sent(&name, worker);
        }
    }

    /// The host admitted a request that waits.
    pub(crate) fn admitted_elsewhere(&mut self, request: &str) {
        let Some(id) = self.requests.get(request).cloned() else { return };
        self.change(&id, |program| {
            let Some(at) = program.waiting.iter().position(|it| it.request == request) else {
                return;
            };
            let Some(it) = program.waiting.remove(at) else { return };
            program.tokens = program.tokens.max(it.tokens);
            program.is_final = it.is_final;
            program.steps += 1;
            program.in_flight.insert(it.request);
            program.paused_ms = None;
        });
    }

    /// A program's context is where its request is.
    pub(crate) fn sent(&mut self, request: &str, worker: Worker) {
        let Some(id) = self.requests.get(request).cloned() else { return };
        self.change(&id, |program| {
            if program.in_flight.contains(request) {
                program.worker = Some(worker);
            }
        });
    }

    /// Takes a request out. What waits behind it is another matter.
    pub(crate) fn take_out(
        &mut self,
        request: &str,
        context: Option<u64>,
        now_ms: u64,
    ) -> Option<String> {
        let id = self.requests.remove(request)?;
        self.change(&id, |program| {
            program.used_ms = now_ms;
            program.waiting.retain(|waiting| waiting.request != request);
            if program.in_flight.remove(request) {
                program.tokens = context.unwrap_or(program.tokens);
                if program.in_flight.is_empty() && std::mem::take(&mut program.pauses_next) {
                    (program.worker, program.paused_ms) = (None, Some(now_ms));
                }
            }
        });
        Some(id)
    }
}
