//! One inference request's stay in the engine, from its head to the end of its answer.
//!
//! A visit holds everything that must be given back: its place in the counters, its sequences, its KV blocks. Whoever holds it
//! ends it with [`Visit::complete`] or [`Visit::fail`]; dropped before that, its client went away, and it counts as aborted.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::OwnedSemaphorePermit;

use super::stats::Stats;

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The maximum the request named is reached.
    Length,
    /// The request named no maximum, and the model was done.
    Stop,
}

impl Finish {
    /// As it stands in answers.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Arriving,
    Waiting,
    Running,
    Over,
}

/// A guard over one inference request.
#[derive(Debug)]
pub(super) struct Visit {
    stats: Arc<Stats>,
    stage: Stage,
    seats: Option<OwnedSemaphorePermit>,
    blocks: u64,
}

impl Visit {
    /// The request's head has been read.
    pub(super) fn open(stats: Arc<Stats>) -> Self {
        stats.received.fetch_add(1, Relaxed);
        Self { stats, stage: Stage::Arriving, seats: None, blocks: 0 }
    }

    /// The request is understood and waits for its turn.
    pub(super) fn wait(&mut self) {
        self.enter(Stage::Waiting);
    }

    /// Its turn has come: it prefills so many tokens, which fill so many blocks.
    pub(super) fn run(&mut self, seats: OwnedSemaphorePermit, prompt_tokens: usize, blocks: u64) {
        self.seats = Some(seats);
        self.enter(Stage::Running);
        self.stats.prompt_tokens.fetch_add(prompt_tokens as u64, Relaxed);
        self.grow(blocks);
    }

    /// It takes further blocks.
    pub(super) fn grow(&mut self, blocks: u64) {
        self.blocks += blocks;
        self.stats.kv_blocks.fetch_add(blocks, Relaxed);
    }

    /// Tokens were generated.
    pub(super) fn generated(&self, tokens: u64) {
        self.stats.generated_tokens.fetch_add(tokens, Relaxed);
    }

    /// The whole answer was handed over.
    pub(super) fn complete(&mut self, finish: Finish) {
        self.end(|stats| match finish {
            Finish::Length => &stats.completed_length,
            Finish::Stop => &stats.completed_stop,
        });
    }

    /// The answer is an error, or is broken on purpose.
    pub(super) fn fail(&mut self) {
        self.end(|stats| &stats.failed);
    }

    fn end(&mut self, counter: impl FnOnce(&Stats) -> &std::sync::atomic::AtomicU64) {
        if self.stage != Stage::Over {
            // The outcome is counted first: whoever sees the engine idle also sees how the last request ended.
            counter(&self.stats).fetch_add(1, Relaxed);
            self.enter(Stage::Over);
        }
    }

    fn enter(&mut self, stage: Stage) {
        match self.stage {
            Stage::Waiting => drop(self.stats.waiting.fetch_sub(1, Relaxed)),
            Stage::Running => drop(self.stats.running.fetch_sub(1, Relaxed)),
            Stage::Arriving | Stage::Over => {}
        }
        match stage {
            Stage::Waiting => drop(self.stats.waiting.fetch_add(1, Relaxed)),
            Stage::Running => {
                let running = self.stats.running.fetch_add(1, Relaxed) + 1;
                self.stats.peak_running.fetch_max(running, Relaxed);
            }
            Stage::Over => {
                self.stats.kv_blocks.fetch_sub(std::mem::take(&mut self.blocks), Relaxed);
                // Last, so that the next in the queue never runs beside this one in the counters.
                self.seats = None;
            }
            Stage::Arriving => {}
        }
        self.stage = stage;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.end(|stats| &stats.aborted);
    }
}
