//! Requests that were booked side by side, counted in stripes.
//!
//! Owns the counters: a compact row of them for each stripe, in chunks that never move, so that a
//! lease finds its counter whatever the fleet does meanwhile, and needs no share in who owns it: two
//! atomic changes of a counter are all that a booking costs. Chunks are lent out of a pool, and go
//! back there; one in which something is still counted is lent to nobody. What the pool has ever had
//! stays for the process's life: as much as was needed at once at some time.
//!
//! It doesn't know which worker has which counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::stripes::{self, STRIPES};

/// Counters in one chunk: 1 KiB.
const CHUNK: usize = 256;

/// Counters of one stripe. Aligned, so that two stripes never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Chunk([AtomicU32; CHUNK]);

/// Chunks that nobody has. Leases may still count in some.
static POOL: Mutex<Vec<&'static Chunk>> = Mutex::new(Vec::new());

impl Chunk {
    fn at(&self, slot: u32) -> &AtomicU32 {
        // The remainder is below the length, so that no look-up can fail.
        &self.0[slot as usize % CHUNK]
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|counter| counter.load(Ordering::SeqCst) == 0)
    }
}

/// A chunk out of the pool.
#[derive(Debug)]
struct Lent(&'static Chunk);

impl Lent {
    fn new() -> Self {
        let mut pool = POOL.lock();
        if let Some(at) = pool.iter().position(|chunk| chunk.is_empty()) {
            return Self(pool.swap_remove(at));
        }
        drop(pool);
        Self(Box::leak(Box::new(Chunk(std::array::from_fn(|_| AtomicU32::new(0))))))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        POOL.lock().push(self.0);
    }
}

/// The chunks of the same slots: one for each stripe, and what the ledger has booked, as it last said.
#[derive(Debug)]
struct Slots {
    stripes: [Lent; STRIPES],
    booked: Lent,
}

impl Default for Slots {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Lent::new()), booked: Lent::new() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // Nobody else takes this out.
        self.booked.0.0.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// One request in a counter; taken out when it is dropped.
#[derive(Debug)]
pub(super) struct Token(&'static AtomicU32);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// All counters, by slot. Cloned, it is the same counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Vec<Arc<Slots>>);

impl Counts {
    /// Makes room for so many slots.
    pub(super) fn reserve(&mut self, slots: u32) {
        let chunks = (slots as usize).div_ceil(CHUNK);
        self.0.resize_with(chunks.max(self.0.len()), Arc::default);
    }

    fn slots(&self, slot: u32) -> Option<&Slots> {
        self.0.get(slot as usize / CHUNK).map(|slots| &**slots)
    }

    /// Counts one more in a stripe.
    pub(super) fn take(&self, slot: u32, stripe: usize) -> Option<Token> {
        let Lent(chunk) = self.slots(slot)?.stripes.get(stripe)?;
        let counter = chunk.at(slot);
        // Before whoever looks whether the slot can be given away: see `Seats::publish`.
        counter.fetch_add(1, Ordering::SeqCst);
        Some(Token(counter))
    }

    /// What is in a slot, over so many stripes.
    fn sum(&self, slot: u32, stripes: usize) -> u32 {
        let stripes = self.slots(slot).map_or(&[][..], |slots| &slots.stripes).iter().take(stripes);
        stripes.map(|Lent(chunk)| chunk.at(slot).load(Ordering::SeqCst)).sum()
    }

    /// What is in a slot.
    pub(super) fn taken(&self, slot: u32) -> u32 {
        self.sum(slot, stripes::in_use())
    }

    /// The same, looking also where nobody may have counted anything.
    pub(super) fn taken_by_anyone(&self, slot: u32) -> u32 {
        self.sum(slot, STRIPES)
    }

    /// What is in a slot and what the ledger has booked there.
    pub(super) fn load(&self, slot: u32, stripes: usize) -> u32 {
        let booked = self.slots(slot).map(|slots| slots.booked.0.at(slot).load(Ordering::Relaxed));
        self.sum(slot, stripes) + booked.unwrap_or(0)
    }

    /// What is in all slots, but for what the ledger has booked.
    pub(super) fn total(&self) -> u64 {
        let chunks = self.0.iter().flat_map(|slots| &slots.stripes);
        let counters = chunks.flat_map(|Lent(chunk)| &chunk.0);
        counters.map(|counter| u64::from(counter.load(Ordering::SeqCst))).sum()
    }

    /// The ledger says what it has booked in a slot.
    pub(super) fn note_booked(&self, slot: u32, requests: u32) {
        if let Some(slots) = self.slots(slot) {
            slots.booked.0.at(slot).store(requests, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use super::*;

    #[test]
    fn a_chunk_in_which_something_is_counted_is_lent_to_nobody() {
        let mut counts = Counts::default();
        counts.reserve(1);
        let token = counts.take(0, 0).unwrap();
        counts.note_booked(0, 9);
        drop(counts);
        // Whoever comes now counts elsewhere.
        let mut others: Vec<Counts> = (0..20).map(|_| Counts::default()).collect();
        for other in &mut others {
            other.reserve(1);
            assert_eq!((other.total(), other.load(0, STRIPES)), (0, 0));
        }
        drop(token);
        assert!(others.iter().all(|other| other.total() == 0), "nothing goes below zero");
    }
}
