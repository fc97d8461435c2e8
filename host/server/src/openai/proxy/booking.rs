//! A booking, from the decision until the answer begins.
//!
//! Owns what becomes of it on the way: one whose request never went out leaves nothing behind that
//! was predicted of the worker's cache, however that ends, and also when nobody waits any more.

use pointsman_core::ledger::Lease;

use crate::openai::upstream::Sent;

/// A booking.
#[derive(Debug)]
pub(super) struct Booking {
    /// None once it was given back, or passed on.
    lease: Option<Lease>,
    sent: Sent,
}

impl Booking {
    pub(super) fn new(lease: Option<Lease>) -> Self {
        Self { lease, sent: Sent::default() }
    }

    /// What is to be told when the request goes out.
    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }

    /// The worker has nothing of the prompt: it isn't to be predicted there.
    pub(super) fn refused(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.prompt_refused();
        }
    }

    /// So many tokens of the prompt are to be computed after all.
    pub(super) fn prefill_added(&mut self, tokens: u64) {
        if let Some(lease) = &mut self.lease {
            lease.prefill_added(tokens);
        }
    }

    /// The answer has begun: the booking ends with that.
    pub(super) fn into_lease(mut self) -> Option<Lease> {
        self.lease.take()
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        if !self.sent.has_begun() {
            self.refused();
        }
    }
}
