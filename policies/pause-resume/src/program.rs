//! One program: a session's requests and its context.

use std::collections::{BTreeSet, VecDeque};

use pointsman_sdk::classifier::prelude::*;

use crate::Settings;

/// A request that is held.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) request: String,
    pub(crate) tokens: u64,
    pub(crate) pin: Option<WorkerTarget>,
    pub(crate) is_final: bool,
}

impl Waiting {
    pub(crate) fn of(request: &ClassifyRequest, session: &Session) -> Self {
        Self {
            request: request.request_id.clone(),
            tokens: request.input_tokens,
            pin: request.pinned_worker,
            is_final: session.is_final == Some(true),
        }
    }
}

/// A session. It *reasons* while a request is under way or waits, and *acts* (runs tools, say) between two.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The session's id.
    pub(crate) name: String,
    /// The length of its context.
    pub(crate) tokens: u64,
    /// Requests that were admitted.
    pub(crate) steps: u64,
    pub(crate) in_flight: BTreeSet<String>,
    pub(crate) waiting: VecDeque<Waiting>,
    /// Where its context is, and counts.
    pub(crate) worker: Option<Worker>,
    /// Since when it is paused; none while it isn't.
    pub(crate) paused_ms: Option<u64>,
    /// It is to be paused when its request ends.
    pub(crate) pauses_next: bool,
    /// Its last request is under way.
    pub(crate) is_final: bool,
    /// When a request of it came or ended last.
    pub(crate) used_ms: u64,
}

impl Program {
    pub(crate) fn acts(&self) -> bool {
        self.in_flight.is_empty() && self.waiting.is_empty()
    }

    /// What the whole program takes of a worker when its next request is there, too.
    pub(crate) fn need(&self, settings: &Settings) -> u64 {
        let next = self.waiting.front().map_or(0, |next| next.tokens);
        let tokens =
            if self.acts() { acting(self.tokens, settings) } else { self.tokens.max(next) };
        tokens + u64::from(settings.buffer_per_program)
    }

    /// What it counts now on the worker that it is on.
    pub(crate) fn charge(&self, settings: &Settings) -> u64 {
        let acts = self.in_flight.is_empty();
        let tokens = if acts { acting(self.tokens, settings) } else { self.tokens };
        tokens + u64::from(settings.buffer_per_program)
    }

    /// The order in which paused programs are resumed: those in the middle of their work first, then new ones,
    /// then those that want nothing now; short ones first.
    pub(crate) fn rank(&self) -> (u8, u64) {
        let group = match (self.acts(), self.steps) {
            (false, 1..) => 0,
            (false, 0) => 1,
            (true, _) => 2,
        };
        (group, self.tokens.max(self.waiting.front().map_or(0, |next| next.tokens)))
    }
}

fn acting(tokens: u64, settings: &Settings) -> u64 {
    (tokens as f64 * settings.acting_token_weight) as u64
}
