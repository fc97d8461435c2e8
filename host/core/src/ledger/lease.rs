//! A booking, from the choice of a worker to the end of the request.

use std::sync::Arc;

use super::{Charge, Ledger};
use crate::fleet::Epoch;
use crate::hosted::HostedLease;
use crate::ids::WorkerRank;
use crate::index::RunningPrompt;

/// A booking. Dropping it gives the load back; it can't be given back twice.
#[derive(Debug)]
pub struct Lease(Kind);

#[derive(Debug)]
enum Kind {
    Booked(Booked),
    /// Booked without the ledger's lock: a request, and nothing of its prompt.
    Hosted(HostedLease),
}

/// A booking in the ledger.
#[derive(Debug)]
pub(super) struct Booked {
    ledger: Arc<Ledger>,
    pub(super) rank: WorkerRank,
    pub(super) epoch: Epoch,
    /// What is still booked.
    charge: Charge,
    /// The row, good for one generation of the fleet; saves the search.
    pub(super) hint: (u64, usize),
    /// What stays in the row's imagined memory for as long.
    prompt: Option<RunningPrompt>,
}

impl Lease {
    pub(super) fn booked(
        ledger: Arc<Ledger>,
        rank: WorkerRank,
        epoch: Epoch,
        charge: Charge,
        hint: (u64, usize),
    ) -> Self {
        Self(Kind::Booked(Booked { ledger, rank, epoch, charge, hint, prompt: None }))
    }

    fn prompt(&mut self) -> Option<&mut Option<RunningPrompt>> {
        match &mut self.0 {
            Kind::Booked(booked) => Some(&mut booked.prompt),
            Kind::Hosted(_) => None,
        }
    }

    /// Keeps a prompt in its row's imagined memory for as long as the booking lasts.
    pub(crate) fn accompany(&mut self, running: Option<RunningPrompt>) {
        if let Some(prompt) = self.prompt() {
            *prompt = running;
        }
    }

    /// Predicts the rest of a long prompt. To be called where nobody waits for a decision.
    pub(crate) fn predict(&mut self) {
        if let Some(Some(prompt)) = self.prompt() {
            prompt.predict();
        }
    }

    /// The prompt never got to its worker, or was refused there before the first token: what it
    /// alone was thought to bring into the worker's cache is taken back. The load stays booked. Again
    /// is nothing.
    pub fn prompt_refused(&mut self) {
        if let Some(prompt) = self.prompt().and_then(Option::take) {
            prompt.refused();
        }
    }

    /// Where it is booked.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        match &self.0 {
            Kind::Booked(booked) => booked.rank,
            Kind::Hosted(hosted) => hosted.worker(),
        }
    }

    /// The worker's life that it is booked on.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match &self.0 {
            Kind::Booked(booked) => booked.epoch,
            Kind::Hosted(hosted) => hosted.epoch(),
        }
    }

    /// The first token has come: gives the prefill tokens back. Again is nothing.
    pub fn prefill_done(&mut self) {
        let Kind::Booked(booked) = &mut self.0 else { return };
        let prefill_tokens = std::mem::take(&mut booked.charge.prefill_tokens);
        if prefill_tokens > 0 {
            let done = Charge { prefill_tokens, decode_blocks: 0 };
            booked.ledger.give_back(booked, 0, done);
        }
        if let Some(prompt) = &mut booked.prompt {
            prompt.answered();
        }
    }
}

impl From<HostedLease> for Lease {
    fn from(hosted: HostedLease) -> Self {
        Self(Kind::Hosted(hosted))
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.ledger.give_back(self, 1, self.charge);
    }
}
