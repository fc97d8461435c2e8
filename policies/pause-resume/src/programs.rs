//! All programs, what each worker can hold, and what is in use of it.
//!
//! Owns the counts: every change of a program goes through [`Programs::change`], so that they hold.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_sdk::classifier::prelude::*;
use pointsman_sdk::random::hash;

use crate::Settings;
use crate::program::{Program, Waiting};

/// A program, by how many came before it.
pub(crate) type Number = u64;

/// Everything that is known.
pub(crate) struct Programs {
    settings: Settings,
    block_size: u64,
    /// In the order in which they came: by numbers, which are sooner compared than names.
    of: BTreeMap<Number, Program>,
    /// By the hashes of sessions' ids, which often begin alike.
    names: BTreeMap<u64, Number>,
    seed: u64,
    /// The program of each request that waits or is under way.
    requests: BTreeMap<String, Number>,
    paused: BTreeSet<Number>,
    came: Number,
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
    pub(crate) fn new(settings: Settings, block_size: u32, seed: u64) -> Self {
        Self {
            settings,
            block_size: block_size.into(),
            of: BTreeMap::new(),
            names: BTreeMap::new(),
            seed,
            came: 0,
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

    pub(crate) fn get(&self, number: Number) -> Option<&Program> {
        self.of.get(&number)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Number, &Program)> {
        self.of.iter().map(|(number, program)| (*number, program))
    }

    pub(crate) fn paused(&self) -> &BTreeSet<Number> {
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
        number: Number,
        change: impl FnOnce(&mut Program) -> R,
    ) -> Option<R> {
        let program = self.of.get_mut(&number)?;
        if let Some(used) = program.worker.and_then(|worker| self.used.get_mut(&worker)) {
            *used = used.saturating_sub(program.charge(&self.settings));
        }
        let changed = change(program);
        if let Some(worker) = program.worker {
            *self.used.entry(worker).or_default() += program.charge(&self.settings);
        }
        match program.paused_ms {
            Some(_) => self.paused.insert(number),
            None => self.paused.remove(&number),
        };
        Some(changed)
    }

    pub(crate) fn forget(&mut self, number: Number) {
        self.change(number, |program| (program.worker, program.paused_ms) = (None, None));
        if let Some(program) = self.of.remove(&number) {
            self.names.remove(&hash(&program.name, self.seed));
        }
    }

    /// What ranks can hold. Programs on workers that are gone are on none from now on.
    pub(crate) fn set_capacities(&mut self, workers: &[Capacity]) {
        let tokens =
            |of: &Capacity| Some((of.worker, of.total_kv_blocks?.saturating_mul(self.block_size)));
        self.capacities = workers.iter().filter_map(tokens).collect();
        let here: BTreeSet<Worker> = workers.iter().map(|of| of.worker).collect();
        let lost = |program: &Program| program.worker.is_some_and(|worker| !here.contains(&worker));
        let lost: Vec<Number> =
            self.all().filter(|(_, program)| lost(program)).map(|(number, _)| number).collect();
        for number in lost {
            self.change(number, |program| program.worker = None);
        }
        self.used.retain(|worker, _| here.contains(worker));
    }

    /// Makes sure that one request more may be known, and its program.
    pub(crate) fn make_room(&mut self, id: &str) -> std::result::Result<(), String> {
        let most = self.settings.max_tracked_requests as usize;
        if self.requests.len() >= most {
            return Err(format!("{most} requests of programs are known already"));
        }
        if self.of.len() < most || self.names.contains_key(&hash(id, self.seed)) {
            return Ok(());
        }
        let idle = self.of.iter().filter(|(_, program)| program.acts());
        let oldest = idle.min_by_key(|(_, program)| program.used_ms).map(|(number, _)| *number);
        let Some(oldest) = oldest else { return Err(format!("{most} programs are known already")) };
        self.forget(oldest);
        Ok(())
    }

    /// Puts a request at the end of its program's line.
    pub(crate) fn wait(&mut self, id: &str, request: Waiting, now_ms: u64) -> Number {
        let name = hash(id, self.seed);
        let number = self.names.get(&name).copied().unwrap_or_else(|| {
            self.came += 1;
            self.names.insert(name, self.came);
            self.of.insert(self.came, Program { name: id.to_owned(), ..Program::default() });
            self.came
        });
        self.requests.insert(request.request.clone(), number);
        self.change(number, |program| {
            program.used_ms = now_ms;
            program.waiting.push_back(request);
        });
        number
    }

    /// The first request of a program's line goes on, on that worker.
    pub(crate) fn begin(&mut self, number: Number, worker: Option<Worker>) -> Option<Admitted> {
        self.change(number, |program| {
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
        let Some(number) = self.requests.get(request).copied() else { return };
        self.change(number, |program| {
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
        let Some(number) = self.requests.get(request).copied() else { return };
        self.change(number, |program| {
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
    ) -> Option<Number> {
        let number = self.requests.remove(request)?;
        self.change(number, |program| {
            program.used_ms = now_ms;
            program.waiting.retain(|waiting| waiting.request != request);
            if program.in_flight.remove(request) {
                program.tokens = context.unwrap_or(program.tokens);
                if program.in_flight.is_empty() && std::mem::take(&mut program.pauses_next) {
                    (program.worker, program.paused_ms) = (None, Some(now_ms));
                }
            }
        });
        Some(number)
    }
}
