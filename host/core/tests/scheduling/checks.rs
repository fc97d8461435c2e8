//! What has to hold after each step, and at the end.

use std::collections::BTreeMap;

use pointsman_core::ids::WorkerRank;

use crate::fault::{Promise, Violation, keep};
use crate::model::{class_of, has_to_wait, heads};
use crate::traffic::GROUPS;
use crate::world::World;

/// Steps from one second count of the books to the next.
const AUDITED: u64 = 50;

impl World {
    /// All that has to hold after a step.
    pub(crate) fn check(&self, step: u64) -> Result<(), Violation> {
        for group in 0..GROUPS.len() {
            self.check_rows(group)?;
            self.check_line(group)?;
            if step.is_multiple_of(AUDITED) {
                let audit = self.partition(group).audit();
                keep(Promise::Audit, audit.wrong == 0, || format!("{audit:?}"))?;
            }
        }
        Ok(())
    }

    /// The load is that of the live requests of each worker's life.
    fn check_rows(&self, group: usize) -> Result<(), Violation> {
        let mut expected: BTreeMap<WorkerRank, (u64, u64)> = BTreeMap::new();
        let mut live = 0;
        for running in self.running.iter().filter(|running| running.group == group) {
            live += 1;
            if self.crew.lives(running.rank.worker_id.0, running.life) {
                let row = expected.entry(running.rank).or_default();
                (row.0, row.1) = (row.0 + 1, row.1 + running.prefill);
            }
        }
        self.partition(group).ledger().read(|books| {
            let rows = &books.snapshot.rows;
            keep(Promise::Requests, rows.len() == self.crew.rows(group), || {
                format!("{rows:?} of {:?}", self.crew)
            })?;
            for (at, rank) in rows.iter().enumerate() {
                let (requests, prefill) = expected.get(rank).copied().unwrap_or_default();
                let shown = books.active_requests(at);
                keep(Promise::Requests, shown == requests, || {
                    format!("{rank} shows {shown} requests, and {requests} are live")
                })?;
                let shown = books.columns.active_prefill_tokens[at];
                keep(Promise::Prefill, shown == prefill as f64, || {
                    format!("{rank} shows {shown} prefill tokens, and {prefill} are to compute")
                })?;
            }
            let shown = books.live_leases();
            keep(Promise::Leases, shown == live, || {
                format!("{shown} leases, and {live} requests are live")
            })
        })
    }

    /// What waits is who waits, and rightly so.
    fn check_line(&self, group: usize) -> Result<(), Violation> {
        let station = &self.stations[group];
        let mut expected = vec![(0, 0); self.profile.classes().len()];
        for waiter in station.waiting.values() {
            let class = &mut expected[class_of(&self.profile, &waiter.request)];
            (class.0, class.1) = (class.0 + 1, class.1 + waiter.request.prompt_tokens);
            let due = waiter.request.admission.due_at_ms;
            keep(Promise::DueTime, due.is_none_or(|due| due > self.now_ms), || {
                format!("{waiter:?} waits at {}", self.now_ms)
            })?;
        }
        if station.waiting.is_empty() && station.line.is_empty() {
            return Ok(());
        }
        // A line that nobody has come to since a reload still has the classes of before.
        let shown: Vec<_> = station
            .line
            .report()
            .iter()
            .map(|class| (class.pending.requests, class.pending.isl_tokens))
            .collect();
        keep(Promise::Pending, shown == expected, || {
            format!("{shown:?} are pending by class, and {expected:?} wait")
        })?;
        let rows = self.rows(group);
        for (class, id, head) in heads(&self.profile, &station.waiting) {
            let waits = has_to_wait(&self.profile.classes()[class], &head.request, &rows);
            keep(Promise::WorkConserving, waits, || {
                format!("{id} is the first of its lane and might pass: {head:?} at {}", self.now_ms)
            })?;
        }
        Ok(())
    }

    /// Everything ends: then nothing is left.
    pub(crate) fn end(mut self) -> Result<(), Violation> {
        for group in 0..GROUPS.len() {
            let station = &mut self.stations[group];
            for waiter in std::mem::take(&mut station.waiting).into_values() {
                let _ = station.line.take(waiter.key);
            }
            let left = station.line.len();
            keep(Promise::Rest, left == 0, || format!("{left} wait, and all have left"))?;
        }
        while let Some(last) = self.running.len().checked_sub(1) {
            drop(self.ends(last, false));
        }
        let reserved = self.reservations.len();
        keep(Promise::Rest, reserved == 0, || format!("{reserved} reservations are left"))?;
        for group in 0..GROUPS.len() {
            let partition = self.partition(group);
            let (loads, leases) = (partition.ledger().loads(), partition.ledger().live_leases());
            let zero = loads.iter().all(|row| {
                (row.active_requests, row.active_prefill_tokens, row.active_decode_blocks)
                    == (0, 0, 0)
            });
            keep(Promise::Rest, zero && leases == 0, || format!("{leases} leases: {loads:?}"))?;
            let audit = partition.audit();
            keep(Promise::Rest, audit.wrong == 0, || format!("{audit:?}"))?;
        }
        Ok(())
    }
}
