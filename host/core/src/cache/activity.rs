//! What happens around a partition's caches, counted.
//!
//! Owns counts that only grow, enough to see that events flow and nothing ever matches. It doesn't
//! judge them: whoever looks at them over time does.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// What has happened since the partition began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheActivity {
    /// Prompts of at least one whole block that were looked up in what engines told.
    pub asked: u64,
    /// Of those, prompts of which some rank held something.
    pub matched: u64,
    /// Blocks that engines said were stored.
    pub stored: u64,
    /// Answers in which an engine said how much of the prompt it had cached.
    pub answers: u64,
    /// Of those, answers with something cached.
    pub answers_with_hits: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    asked: AtomicU64,
    matched: AtomicU64,
    stored: AtomicU64,
    answers: AtomicU64,
    answers_with_hits: AtomicU64,
}

impl Counters {
    pub(super) fn asked(&self, matched: bool) {
        self.asked.fetch_add(1, Relaxed);
        self.matched.fetch_add(u64::from(matched), Relaxed);
    }

    pub(super) fn stored(&self, blocks: usize) {
        self.stored.fetch_add(blocks as u64, Relaxed);
    }

    pub(super) fn answered(&self, hit: bool) {
        self.answers.fetch_add(1, Relaxed);
        self.answers_with_hits.fetch_add(u64::from(hit), Relaxed);
    }

    pub(super) fn read(&self) -> CacheActivity {
        let Self { asked, matched, stored, answers, answers_with_hits } = self;
        let [asked, matched, stored, answers, answers_with_hits] =
            [asked, matched, stored, answers, answers_with_hits].map(|count| count.load(Relaxed));
        CacheActivity { asked, matched, stored, answers, answers_with_hits }
    }
}
