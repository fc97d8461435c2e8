//! What a run comes down to.

use serde::Serialize;

use crate::replay::{Outcome, Setup};
use crate::requests::{BLOCK_SIZE, TraceRequest};

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Prompt tokens that needn't be computed, over all prompt tokens.
    pub cached_share: f64,
    /// Tokens of the prompts that the busiest worker was given, over the mean.
    pub routed_balance: f64,
    /// Tokens that the busiest worker computed, over the mean.
    pub computed_balance: f64,
    /// How much of the time the workers computed prompts.
    pub busy: f64,
    /// Milliseconds from arrival until the prompt's turn came.
    pub queued_ms: Spread,
    /// Milliseconds from arrival to the first token.
    pub first_token_ms: Spread,
    /// Blocks that lost their place.
    pub evictions: u64,
    /// Requests for which the router expected as many cached tokens as there were.
    pub predicted_right: f64,
    /// Cached tokens that it expected, over those that there were.
    pub predicted_over_real: f64,
}

/// Mean and tail.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Figures {
    #[must_use]
    pub fn of(trace: &[TraceRequest], setup: &Setup, outcome: &Outcome) -> Self {
        let workers = setup.workers as usize;
        let (mut routed, mut computed) = (vec![0_u64; workers], vec![0_u64; workers]);
        let (mut prompts, mut cached, mut predicted, mut right) = (0, 0, 0, 0_usize);
        for (request, served) in trace.iter().zip(&outcome.served) {
            let hits = served.hits as u64 * u64::from(BLOCK_SIZE);
            prompts += request.prompt_tokens;
            cached += hits;
            predicted += served.predicted_tokens;
            right += usize::from(served.predicted_tokens == hits);
            routed[served.worker] += request.prompt_tokens;
            computed[served.worker] += request.prompt_tokens - hits;
        }
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let spread = |of: fn(&crate::replay::Served) -> u64| {
            Spread::of(outcome.served.iter().map(of).collect())
        };
        Self {
            cached_share: share(cached, prompts),
            routed_balance: balance(&routed),
            computed_balance: balance(&computed),
            busy: share(outcome.busy_us.iter().sum(), outcome.span_us * setup.workers),
            queued_ms: spread(|served| served.queued_us),
            first_token_ms: spread(|served| served.first_token_us),
            evictions: outcome.evictions,
            predicted_right: right as f64 / trace.len() as f64,
            predicted_over_real: share(predicted, cached),
        }
    }

    /// The larger of both balances.
    #[must_use]
    pub fn balance(&self) -> f64 {
        self.routed_balance.max(self.computed_balance)
    }
}

impl Spread {
    fn of(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        let at = |share: f64| micros[((micros.len() - 1) as f64 * share) as usize] as f64 / 1e3;
        let mean = micros.iter().sum::<u64>() as f64 / micros.len() as f64 / 1e3;
        Self { mean, p50: at(0.5), p99: at(0.99) }
    }
}

/// The largest over the mean.
fn balance(values: &[u64]) -> f64 {
    let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
    values.iter().max().map_or(1.0, |&most| most as f64 / mean)
}

/// The share that one cache without end gives, which no fleet exceeds.
#[must_use]
pub fn without_end(trace: &[TraceRequest]) -> f64 {
    let mut seen = std::collections::HashSet::new();
    let (mut prompts, mut cached) = (0, 0);
    for request in trace {
        let size = u64::from(BLOCK_SIZE);
        let most = (request.prompt_tokens.saturating_sub(1) / size) as usize;
        let hits = request.chain.iter().take(most).take_while(|hash| seen.contains(*hash)).count();
        prompts += request.prompt_tokens;
        cached += hits as u64 * size;
        seen.extend(request.chain.iter().copied());
    }
    cached as f64 / prompts as f64
}
