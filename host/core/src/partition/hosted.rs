//! Decisions of a partition that are made without its lock.
//!
//! Owns when they may be: when the policy in place needs nothing that the lock guards, and nobody else
//! takes part in decisions or is shown them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Decision, Partition, Slot};
use crate::cache::RowOverlap;
use crate::clock::{Moment, Stopwatch};
use crate::hosted::{Hosted, HostedLease, Hosting, Serving, Told};
use crate::ids::DecisionId;
use crate::ledger::Lease;
use crate::receipt::Receipt;
use crate::request::RouteRequest;

impl Slot {
    /// Who decides without the lock, if that may be now.
    fn hosting(&self) -> Option<&Arc<Hosting>> {
        let alone = self.canary.is_none()
            && self.shadows.is_empty()
            && self.previous.is_none()
            // Whether a worker has too much to do is told by more than is counted so.
            && self.thresholds().are_off()
            // Whoever waits is decided in turn.
            && !self.queues
            && !self.disabled.load(Ordering::Relaxed);
        self.hosting.as_ref().filter(|_| alone)
    }

    /// Lets decisions past the lock, or no longer. A decision that is on its way past it is made
    /// again if it hasn't been booked yet. Engines' reports are held to the thresholds of now.
    pub(super) fn host(&self) {
        self.reports.lock().heed(self.thresholds().active_decode_blocks_threshold);
        self.ledger.seats().serve(self.hosting().cloned());
    }
}

impl Partition {
    /// The way past its lock, for a request that is to be booked. Costs nothing.
    #[must_use]
    pub fn hosted(&self) -> Hosted<'_> {
        Hosted::of(self.ledger.seats())
    }

    /// Whether decisions may be made past its lock now. Never waits.
    #[must_use]
    pub fn is_hosted(&self) -> bool {
        self.ledger.seats().serves()
    }

    /// Whether a request's prompt makes no difference to what becomes of it here now: neither to who
    /// decides, nor to whether it is let in. Never waits.
    #[must_use]
    pub fn reads_no_prompts(&self) -> bool {
        self.ledger.seats().serves_unread() && !self.desk.is_wanted()
    }

    /// Decides and books without the lock; never waits. None where that can't be: then
    /// [`Partition::decide`] can.
    pub(crate) fn decide_hosted(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
    ) -> Option<Decision> {
        if !self.is_hosted() {
            return None;
        }
        let watch = Stopwatch::start();
        let placed =
            self.hosted().place(request, decision_id, moment, |serving, row, told, lease| {
                self.placed(request, decision_id, moment, (serving, row, told, lease), &watch)
            });
        let decision = placed.flatten()?;
        self.counters.decided(false);
        Some(decision)
    }

    fn placed(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        (serving, row, told, lease): (&Serving, u32, Told, HostedLease),
        watch: &Stopwatch,
    ) -> Option<Decision> {
        let (snapshot, hosting) = (serving.seating.snapshot(), &serving.hosting);
        let worker = snapshot.worker(row as usize)?.spec.clone();
        let Told { eligible, excluded, stage } = told;
        let receipt = Receipt {
            decision_id,
            request_id: request.request_id.clone(),
            partition: self.key.clone(),
            policy: hosting.label.clone(),
            fallback: None,
            worker: lease.worker(),
            epoch: lease.epoch(),
            cost: 0.0,
            prompt_tokens: request.prompt_tokens,
            prompt_tokens_exact: request.prompt_tokens_exact,
            request_blocks: request.prompt_tokens.div_ceil(u64::from(worker.block_size.get())),
            potential_decode_blocks: 0,
            overlap: RowOverlap::default(),
            predicted_cached_tokens: 0,
            selected_raw_cached_tokens: 0,
            max_raw_cached_tokens: None,
            hosted: true,
            eligible,
            kept: eligible,
            excluded,
            stages: stage.into_iter().collect(),
            micros: watch.micros(),
            now_ms: moment.now_ms,
            seed: moment.seed,
            fleet_generation: snapshot.generation,
            rows: None,
        };
        let lease = Some(Lease::from(lease));
        Some(Decision { worker, receipt, lease, reporter: None, sample: None })
    }
}
