//! The latest decisions, for whoever asks what the router has been doing.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::receipt::Receipt;

/// So many are remembered: a few seconds of busy traffic, in under a megabyte.
const MOST_RECEIPTS: usize = 1_024;

/// A bounded memory of receipts; the oldest is forgotten first.
#[derive(Debug, Default)]
pub struct Receipts {
    latest: Mutex<VecDeque<Arc<Receipt>>>,
}

impl Receipts {
    /// Remembers one.
    pub fn push(&self, receipt: Arc<Receipt>) {
        let mut latest = self.latest.lock();
        let forgotten = if latest.len() < MOST_RECEIPTS { None } else { latest.pop_front() };
        latest.push_back(receipt);
        drop(latest);
        // Freed when nobody waits for it any more.
        drop(forgotten);
    }

    /// The latest, newest first, at most `most`.
    #[must_use]
    pub fn recent(&self, most: usize) -> Vec<Arc<Receipt>> {
        self.latest.lock().iter().rev().take(most).cloned().collect()
    }
}
