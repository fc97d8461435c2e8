//! A simulated engine: a queue, one prompt at a time, then its answer beside others.
//!
//! Owns how long things take. Prompts are computed one after another in the order in which they
//! came; a prompt takes what its uncached tokens take. Answers run side by side and take nothing
//! from prompts: each token the time that follows from how full the memory was at the first.
//!
//! The times are the polynomials of the linked router's own mock engine (milliseconds; n is
//! uncached tokens, u the share of KV memory in use):
//!
//! - prompt: 4.209989e-7 n² + 1.518344e-2 n + 16.50142
//! - each further token: -25.74 u² + 54.01 u + 5.74, at least 1

use std::collections::VecDeque;

use crate::memory::{Allocation, Memory};
use crate::requests::{BLOCK_SIZE, TraceRequest};

/// Which request of the trace.
pub type RequestId = usize;

/// A prompt's computation has begun.
#[derive(Debug)]
pub struct Begun {
    /// Whose.
    pub request: RequestId,
    /// When it will be done.
    pub done_us: u64,
    /// Whole blocks that were there.
    pub hits: usize,
}

/// A prompt has been computed, and the first token is there.
#[derive(Debug)]
pub struct FirstToken {
    /// Whose.
    pub request: RequestId,
    /// When the last token will be there.
    pub end_us: u64,
    /// Whole blocks of the prompt that were there already.
    pub hits: usize,
    /// What lost its place: sequence hashes, in order.
    pub evicted: Vec<u64>,
}

/// One engine.
#[derive(Debug)]
pub struct Engine {
    memory: Memory,
    waiting: VecDeque<RequestId>,
    computing: Option<(RequestId, Allocation)>,
    answering: Vec<(RequestId, Allocation)>,
    /// How long it has computed prompts.
    pub busy_us: u64,
}

impl Engine {
    /// An idle engine whose memory holds so many blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        Self {
            memory: Memory::new(blocks),
            waiting: VecDeque::new(),
            computing: None,
            answering: Vec::new(),
            busy_us: 0,
        }
    }

    /// A request comes.
    pub fn enqueue(&mut self, request: RequestId) {
        self.waiting.push_back(request);
    }

    /// Begins with the next prompt, if none is being computed, one waits and there is room.
    pub fn begin(&mut self, trace: &[TraceRequest], now_us: u64) -> Option<Begun> {
        if self.computing.is_some() {
            return None;
        }
        let &request = self.waiting.front()?;
        let TraceRequest { prompt_tokens, output_tokens, ref chain, .. } = trace[request];
        let size = u64::from(BLOCK_SIZE);
        // The last token is always computed.
        let most_hits = (prompt_tokens.saturating_sub(1) / size) as usize;
        let total = (prompt_tokens + output_tokens).div_ceil(size) as usize;
        let allocation = self.memory.allocate(chain, most_hits, total)?;
        self.waiting.pop_front();
        let hits = allocation.hits;
        let took_us = prompt_us(prompt_tokens - hits as u64 * size);
        self.busy_us += took_us;
        self.computing = Some((request, allocation));
        Some(Begun { request, done_us: now_us + took_us, hits })
    }

    /// The prompt that was being computed is done. The answer takes `answers` times what the model
    /// says.
    pub fn first_token(
        &mut self,
        trace: &[TraceRequest],
        now_us: u64,
        answers: f64,
    ) -> Option<FirstToken> {
        let (request, mut allocation) = self.computing.take()?;
        let each_us = (token_us(self.memory.used()) as f64 * answers) as u64;
        let end_us = now_us + (trace[request].output_tokens - 1) * each_us;
        let (hits, evicted) = (allocation.hits, std::mem::take(&mut allocation.evicted));
        self.answering.push((request, allocation));
        Some(FirstToken { request, end_us, hits, evicted })
    }

    /// A request's last token is there.
    pub fn finish(&mut self, request: RequestId) {
        if let Some(at) = self.answering.iter().position(|(running, _)| *running == request) {
            let (_, allocation) = self.answering.swap_remove(at);
            self.memory.release(&allocation);
        }
    }
}

/// Microseconds for a prompt with so many tokens to compute.
#[must_use]
pub fn prompt_us(tokens: u64) -> u64 {
    let n = tokens as f64;
    ((4.209989e-7 * n * n + 1.518344e-2 * n + 16.50142) * 1_000.0) as u64
}

/// Microseconds for each token of an answer, when so much of the memory is in use.
#[must_use]
pub fn token_us(used: f64) -> u64 {
    let u = used.min(1.0);
    ((-25.74 * u * u + 54.01 * u + 5.74).max(1.0) * 1_000.0) as u64
}
