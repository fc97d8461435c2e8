//! A booking as its owner holds it.
//!
//! Owns the right to change one booking and to end it, which it does when it is dropped, wherever that
//! happens. It doesn't know what else is booked.

use std::sync::Arc;

use super::Ledger;
use super::books::Booked;
use super::growth::Growth;
use crate::fleet::Epoch;
use crate::ids::WorkerRank;
use crate::index::RunningPrompt;

/// A booking. Dropping it gives the load back; it can't be given back twice.
#[derive(Debug)]
pub struct Lease {
    pub(super) ledger: Arc<Ledger>,
    pub(super) booked: Booked,
    pub(super) rank: WorkerRank,
    pub(super) epoch: Epoch,
    /// Whether its prompt waits for the first token.
    pub(super) waits: bool,
    /// How its blocks grow; none if they don't.
    pub(super) growth: Option<Growth>,
    /// What stays in the row's imagined memory for as long.
    pub(super) prompt: Option<RunningPrompt>,
}

impl Lease {
    /// Keeps a prompt in its row's imagined memory for as long as the booking lasts.
    pub(crate) fn accompany(&mut self, prompt: Option<RunningPrompt>) {
        self.prompt = prompt;
    }

    /// Predicts the rest of a long prompt. To be called where nobody waits for a decision.
    pub(crate) fn predict(&mut self) {
        if let Some(prompt) = &mut self.prompt {
            prompt.predict();
        }
    }

    /// The prompt never got to its worker, or was refused there before the first token: what it
    /// alone was thought to bring into the worker's cache is taken back. The load stays booked. Again
    /// is nothing.
    pub fn prompt_refused(&mut self) {
        if let Some(prompt) = self.prompt.take() {
            prompt.refused();
        }
    }

    /// Where it is booked.
    #[must_use]
    pub fn worker(&self) -> WorkerRank {
        self.rank
    }

    /// The worker's life that it is booked on.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The active KV blocks of its row with it, as they were to be when it was booked.
    #[must_use]
    pub fn potential_decode_blocks(&self) -> u64 {
        self.booked.potential_decode_blocks
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

    /// So many output tokens there are by now: the first ends the prefill, and where output blocks are
    /// booked, those that have begun are. Fewer than before is nothing. Most calls take no lock.
    pub fn progress(&mut self, output_tokens: u64) {
        if output_tokens == 0 {
            return;
        }
        self.prefill_done();
        if let Some(step) = self.growth.as_mut().and_then(|growth| growth.progress(output_tokens)) {
            self.ledger.books.lock().grow(self.booked.id, step);
        }
    }

    /// One more output block begins; `fraction` of the output is still to come, 0 to 1, if somebody guesses
    /// that. False if output blocks aren't booked.
    pub fn output_block(&mut self, fraction: Option<f64>) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let step = growth.block(fraction);
        self.ledger.books.lock().grow(self.booked.id, step);
        true
    }

    /// Whether the prompt still waits for its first token, as far as its owner said.
    #[must_use]
    pub fn waits_for_prefill(&self) -> bool {
        self.waits
    }

    fn end_prefill(&mut self, now_ms: Option<u64>) {
        if !std::mem::take(&mut self.waits) {
            return;
        }
        self.ledger.books.lock().end_prefill(self.booked.id, now_ms);
        if let Some(prompt) = &mut self.prompt {
            prompt.answered();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ledger.books.lock().release(self.booked.id, None);
    }
}
