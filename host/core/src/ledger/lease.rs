//! A booking as its owner holds it.
//!
//! Owns the right to change one booking and to end it, which it does when it is dropped, wherever that
//! happens. It doesn't know what else is booked. What was booked without the ledger's lock is a request
//! and nothing of its prompt: all that concerns the prompt is nothing there.

use std::sync::Arc;

use super::Ledger;
use super::books::Booked;
use super::growth::Growth;
use crate::fleet::Epoch;
use crate::hosted::HostedLease;
use crate::ids::WorkerRank;
use crate::index::RunningPrompt;

/// A booking. Dropping it gives the load back; it can't be given back twice.
#[derive(Debug)]
pub struct Lease(Kind);

#[derive(Debug)]
enum Kind {
    /// In the ledger's books.
    InBooks(InBooks),
    /// Booked without the ledger's lock.
    Hosted(HostedLease),
}

/// A booking in the ledger's books.
#[derive(Debug)]
struct InBooks {
    ledger: Arc<Ledger>,
    booked: Booked,
    rank: WorkerRank,
    epoch: Epoch,
    /// Whether its prompt waits for the first token.
    waits: bool,
    /// How its blocks grow; none if they don't.
    growth: Option<Growth>,
    /// What stays in the row's imagined memory for as long.
    prompt: Option<RunningPrompt>,
}

impl Lease {
    pub(super) fn in_books(
        ledger: Arc<Ledger>,
        booked: Booked,
        (rank, epoch): (WorkerRank, Epoch),
        growth: Option<Growth>,
    ) -> Self {
        let (waits, prompt) = (true, None);
        Self(Kind::InBooks(InBooks { ledger, booked, rank, epoch, waits, growth, prompt }))
    }

    fn books(&self) -> Option<&InBooks> {
        match &self.0 {
            Kind::InBooks(booking) => Some(booking),
            Kind::Hosted(_) => None,
        }
    }

    fn books_mut(&mut self) -> Option<&mut InBooks> {
        match &mut self.0 {
            Kind::InBooks(booking) => Some(booking),
            Kind::Hosted(_) => None,
        }
    }

    /// Keeps a prompt in its row's imagined memory for as long as the booking lasts.
    pub(crate) fn accompany(&mut self, prompt: Option<RunningPrompt>) {
        if let Some(booking) = self.books_mut() {
            booking.prompt = prompt;
        }
    }

    /// Predicts the rest of a long prompt. To be called where nobody waits for a decision.
    pub(crate) fn predict(&mut self) {
        if let Some(prompt) = self.books_mut().and_then(|booking| booking.prompt.as_mut()) {
            prompt.predict();
        }
    }

    /// The prompt never got to its worker, or was refused there before the first token: what it
    /// alone was thought to bring into the worker's cache is taken back. The load stays booked. Again
    /// is nothing.
    pub fn prompt_refused(&mut self) {
        if let Some(prompt) = self.books_mut().and_then(|booking| booking.prompt.take()) {
            prompt.refused();
        }
    }

    /// Where it is booked.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        match &self.0 {
            Kind::InBooks(booking) => booking.rank,
            Kind::Hosted(hosted) => hosted.worker(),
        }
    }

    /// The worker's life that it is booked on.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match &self.0 {
            Kind::InBooks(booking) => booking.epoch,
            Kind::Hosted(hosted) => hosted.epoch(),
        }
    }

    /// The active KV blocks of its row with it, as they were to be when it was booked; 0 if blocks
    /// weren't counted.
    #[must_use]
    pub fn potential_decode_blocks(&self) -> u64 {
        self.books().map_or(0, |booking| booking.booked.potential_decode_blocks)
    }

    /// The first token has come: gives the prefill tokens back. Again is nothing. Whoever knows the time
    /// should say it: [`Lease::prefill_done_at`].
    pub fn prefill_done(&mut self) {
        self.end_prefill(None);
    }

    /// The same, at a moment: the row's next prefill is thought to begin then, and not only when the ledger
    /// next hears of the time. It matters where `router_prefill_load_model` is set.
    pub fn prefill_done_at(&mut self, now_ms: u64) {
        self.end_prefill(Some(now_ms));
    }

    /// The row is to compute so many more of the prompt's tokens, although it was chosen as one that
    /// computes none, or fewer: they are booked until the first token. Nothing once that has come.
    pub fn prefill_added(&mut self, tokens: u64) {
        if let Some(booking) = self.books_mut().filter(|booking| booking.waits) {
            booking.ledger.books.lock().add_prefill(booking.booked.id, tokens);
        }
    }

    /// So many output tokens there are by now: the first ends the prefill, and where output blocks are
    /// booked, those that have begun are. Fewer than before is nothing. Most calls take no lock.
    pub fn progress(&mut self, output_tokens: u64) {
        if output_tokens == 0 {
            return;
        }
        self.prefill_done();
        let Some(booking) = self.books_mut() else { return };
        let step = booking.growth.as_mut().and_then(|growth| growth.progress(output_tokens));
        if let Some(step) = step {
            booking.ledger.books.lock().grow(booking.booked.id, step);
        }
    }

    /// One more output block begins; `fraction` of the output is still to come, 0 to 1, if somebody guesses
    /// that. False if output blocks aren't booked.
    pub fn output_block(&mut self, fraction: Option<f64>) -> bool {
        let Some(booking) = self.books_mut() else { return false };
        let Some(growth) = &mut booking.growth else { return false };
        let step = growth.block(fraction);
        booking.ledger.books.lock().grow(booking.booked.id, step);
        true
    }

    /// Whether the prompt still waits for its first token, as far as its owner said.
    #[must_use]
    pub fn waits_for_prefill(&self) -> bool {
        self.books().is_some_and(|booking| booking.waits)
    }

    fn end_prefill(&mut self, now_ms: Option<u64>) {
        let Some(booking) = self.books_mut() else { return };
        if !std::mem::take(&mut booking.waits) {
            return;
        }
        booking.ledger.books.lock().end_prefill(booking.booked.id, now_ms);
        booking.ledger.relief.ring();
        if let Some(prompt) = &mut booking.prompt {
            prompt.answered();
        }
    }
}

impl From<HostedLease> for Lease {
    fn from(hosted: HostedLease) -> Self {
        Self(Kind::Hosted(hosted))
    }
}

impl Drop for InBooks {
    fn drop(&mut self) {
        self.ledger.books.lock().release(self.booked.id, None);
        self.ledger.relief.ring();
    }
}
