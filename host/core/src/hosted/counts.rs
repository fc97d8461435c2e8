//! Requests that were booked side by side, counted in stripes.
//!
//! Owns the counters: a compact row of them for each stripe, in chunks that never move, so that a
//! lease finds its counter whatever the fleet does meanwhile. It doesn't know which worker has which
//! counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::stripes::{self, STRIPES};

/// Counters in one chunk: 1 KiB.
const CHUNK: usize = 256;

/// Counters of one stripe. Aligned, so that two stripes never share a cache line, and the count of
/// those who hold the chunk is on none of its counters' lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Chunk([AtomicU32; CHUNK]);

impl Default for Chunk {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Chunk {
    fn at(&self, slot: u32) -> &AtomicU32 {
        // The remainder is below the length, so that no look-up can fail.
        &self.0[slot as usize % CHUNK]
    }
}

/// One request in a counter; taken out when it is dropped.
#[derive(Debug)]
pub(super) struct Token {
    chunk: Arc<Chunk>,
    slot: u32,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.chunk.at(self.slot).fetch_sub(1, Ordering::Release);
    }
}

/// All counters, by slot. Cloned, it is the same counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// What is booked side by side.
    stripes: [Vec<Arc<Chunk>>; STRIPES],
    /// What the ledger has booked, as it last said.
    booked: Vec<Arc<Chunk>>,
}

impl Counts {
    /// Makes room for so many slots.
    pub(super) fn reserve(&mut self, slots: u32) {
        let chunks = (slots as usize).div_ceil(CHUNK);
        for stripe in self.stripes.iter_mut().chain([&mut self.booked]) {
            stripe.resize_with(chunks.max(stripe.len()), Arc::default);
        }
    }

    /// Counts one more in this thread's stripe.
    pub(super) fn take(&self, slot: u32) -> Option<Token> {
        let stripe = self.stripes.get(stripes::mine())?;
        let chunk = stripe.get(slot as usize / CHUNK)?;
        // Before whoever looks whether the slot can be given away: see `Seats::realign`.
        chunk.at(slot).fetch_add(1, Ordering::SeqCst);
        Some(Token { chunk: chunk.clone(), slot })
    }

    /// What is in a slot, over the stripes that threads have.
    pub(super) fn taken(&self, slot: u32) -> u32 {
        self.sum(slot, stripes::in_use())
    }

    /// The same, looking at every stripe.
    pub(super) fn taken_by_anyone(&self, slot: u32) -> u32 {
        self.sum(slot, STRIPES)
    }

    fn sum(&self, slot: u32, stripes: usize) -> u32 {
        let chunk = slot as usize / CHUNK;
        let chunks = self.stripes.iter().take(stripes).filter_map(|stripe| stripe.get(chunk));
        chunks.map(|chunk| chunk.at(slot).load(Ordering::SeqCst)).sum()
    }

    /// What is in all slots.
    pub(super) fn total(&self) -> u64 {
        let chunks = self.stripes.iter().flatten();
        let counters = chunks.flat_map(|chunk| &chunk.0);
        counters.map(|counter| u64::from(counter.load(Ordering::SeqCst))).sum()
    }

    /// What the ledger has booked in a slot.
    pub(super) fn booked(&self, slot: u32) -> u32 {
        let chunk = self.booked.get(slot as usize / CHUNK);
        chunk.map_or(0, |chunk| chunk.at(slot).load(Ordering::Relaxed))
    }

    /// The ledger says what it has booked.
    pub(super) fn note_booked(&self, slot: u32, requests: u32) {
        if let Some(chunk) = self.booked.get(slot as usize / CHUNK) {
            chunk.at(slot).store(requests, Ordering::Relaxed);
        }
    }
}
