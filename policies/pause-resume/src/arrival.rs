//! What becomes of a program's next request, when it comes or the one before it has ended.

use pointsman_sdk::classifier::prelude::*;

use crate::program::Program;
use crate::programs::{Admitted, Number, Programs};

/// The answer to a program's next request.
enum Place {
    /// It goes on, to that worker if it is one in particular.
    On(Option<Worker>),
    /// Its program is paused.
    Paused,
}

impl Programs {
    /// Admits the first request that waits, if nothing of its program is under way and there is a place for
    /// it; else the program is paused.
    pub(crate) fn admit_head(&mut self, number: Number, now_ms: u64) -> Option<Admitted> {
        let program = self.get(number)?;
        if !program.in_flight.is_empty() || program.waiting.is_empty() {
            return None;
        }
        match self.place(program) {
            Place::On(worker) => self.begin(number, worker),
            Place::Paused => {
                self.change(number, |program| {
                    program.paused_ms.get_or_insert(now_ms);
                    program.worker = None;
                });
                None
            }
        }
    }

    /// The rules, in their order.
    fn place(&self, program: &Program) -> Place {
        if program.paused_ms.is_some() {
            return Place::Paused;
        }
        let on =
            |worker: Option<Worker>| worker.map_or(Place::Paused, |worker| Place::On(Some(worker)));
        let pin = program.waiting.front().and_then(|next| next.pin);
        let is_pinned = |worker: &Worker| pin.is_none_or(|pin| pin.matches(*worker));
        // Of workers that don't say what they can hold, nothing is known that speaks against it.
        if !self.capacities().keys().any(is_pinned) {
            return Place::On(program.worker);
        }
        if pin.is_some() {
            return on(self.emptiest(program, is_pinned));
        }
        if program.worker.is_some() {
            return Place::On(program.worker);
        }
        if program.steps == 0 && !self.paused().is_empty() {
            return Place::Paused;
        }
        on(self.emptiest(program, |_| true))
    }

    /// Of the workers that have room for a program, the one with least in use.
    fn emptiest(&self, program: &Program, among: impl Fn(&Worker) -> bool) -> Option<Worker> {
        let need = program.need(self.settings());
        let fits = self.capacities().iter().filter(|(worker, _)| among(worker)).filter_map(
            |(worker, capacity)| {
                let own = if program.worker == Some(*worker) {
                    program.charge(self.settings())
                } else {
                    0
                };
                let used = self.used(*worker).saturating_sub(own);
                (used + need <= *capacity).then_some((used, *worker))
            },
        );
        fits.min().map(|(_, worker)| worker)
    }

    /// A request ended: its program acts, is paused, or is forgotten; what waits behind it may go on.
    pub(crate) fn ended(
        &mut self,
        request: &str,
        context: Option<u64>,
        now_ms: u64,
    ) -> Option<Admitted> {
        let number = self.take_out(request, context, now_ms)?;
        let program = self.get(number)?;
        if program.acts() && (program.is_final || program.steps == 0) {
            self.forget(number);
            return None;
        }
        self.admit_head(number, now_ms)
    }
}
