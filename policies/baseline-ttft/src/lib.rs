//! Keeps to the workers that hold nearly all of a prompt, unless another one would begin to answer much sooner;
//! of those that are left, the one with the least ahead of the request.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

export_policy! {
    /// Workers that hold the prompt, within a bound on the time to the first token; then the shortest queue.
    pub policy BaselineTtft(settings: Settings) {
        filters: [Sticky::new(&settings)],
        scorers: [Queue { threshold: settings.queue_threshold_tokens }],
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The share of the prompt's full blocks from which on a worker holds it; 0 to 1.
    pub affinity_threshold: f64,
    /// Milliseconds that the best holder may begin later than the best other worker; 0 waits any
    /// time.
    pub max_ttft_penalty_ms: f64,
    /// What times are estimated from.
    pub ttft_source: TtftSource,
    /// Prompt tokens that a worker computes in a second; above 0.
    pub peak_prefill_tokens_per_second: f64,
    /// Tokens ahead of a request beyond which all queues are as bad; above 0.
    pub queue_threshold_tokens: f64,
}

/// What times to the first token are estimated from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TtftSource {
    /// What there is: throughput.
    #[default]
    Auto,
    /// Tokens ahead, at the peak rate.
    Throughput,
    /// A model of prefill times, which this contract has no input for.
    Modeled,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            affinity_threshold: 0.8,
            max_ttft_penalty_ms: 18_000.0,
            ttft_source: TtftSource::Auto,
            peak_prefill_tokens_per_second: 15_928.0,
            queue_threshold_tokens: 4_194_304.0,
        }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        let modeled = match self.ttft_source {
            TtftSource::Modeled => {
                Err("parameter \"ttft_source\" is modeled, and routers give policies no modelled \
                times; give throughput"
                    .into())
            }
            _ => Ok(()),
        };
        let rate = self.peak_prefill_tokens_per_second;
        parameters::all([
            parameters::within("affinity_threshold", self.affinity_threshold, 0.0, 1.0),
            parameters::not_negative("max_ttft_penalty_ms", self.max_ttft_penalty_ms),
            parameters::above("peak_prefill_tokens_per_second", rate, 0.0),
            parameters::above("queue_threshold_tokens", self.queue_threshold_tokens, 0.0),
            modeled,
        ])
    }
}

/// Keeps the workers that hold the prompt, if there are any and they aren't too late.
struct Sticky {
    threshold: f64,
    penalty_ms: f64,
    tokens_per_ms: f64,
    /// The fewest blocks that a holder holds in this decision; none where all rows stay.
    least_blocks: Option<f64>,
}

impl Sticky {
    fn new(settings: &Settings) -> Self {
        Self {
            threshold: settings.affinity_threshold,
            penalty_ms: settings.max_ttft_penalty_ms,
            tokens_per_ms: settings.peak_prefill_tokens_per_second / 1_000.0,
            least_blocks: None,
        }
    }
}

impl WorkerFilter for Sticky {
    fn inputs(&self) -> Vec<Input> {
        let estimate = Input::EffectiveOverlapBlocks;
        vec![Input::ActivePrefillTokens, Input::DeviceOverlapBlocks, estimate]
    }

    fn prepare(&mut self, cx: &Context<'_>, rows: &Candidates<'_>) -> Result {
        let full = (cx.request.prompt_tokens as f64 / cx.block_size()).floor();
        // A prompt without a full block is held by nobody.
        let least = (self.threshold * full).max(1.0);
        let (mut holder, mut other) = (f64::INFINITY, f64::INFINITY);
        for row in rows.iter() {
            let ttft_ms = ahead(cx, &row) / self.tokens_per_ms;
            let best = if overlap(cx, &row) >= least { &mut holder } else { &mut other };
            *best = best.min(ttft_ms);
        }
        let is_late = self.penalty_ms > 0.0 && holder - other > self.penalty_ms;
        self.least_blocks = (holder.is_finite() && !is_late).then_some(least);
        Ok(())
    }

    fn keeps_all(&self) -> bool {
        self.least_blocks.is_none()
    }

    fn keep(&mut self, cx: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(self.least_blocks.is_none_or(|least| overlap(cx, &row) >= least))
    }
}

/// Prefers an empty queue, up to a length from which on all are as bad.
struct Queue {
    threshold: f64,
}

impl WorkerScorer for Queue {
    fn inputs(&self) -> Vec<Input> {
        let estimate = Input::EffectiveOverlapBlocks;
        vec![Input::ActivePrefillTokens, Input::DeviceOverlapBlocks, estimate]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| {
            let share = ahead(cx, &row) / self.threshold;
            if share < 1.0 { share - 1.0 } else { 0.0 }
        });
        Ok(())
    }
}

/// Blocks of the prompt on the device; the estimate speaks for them where no tier of anybody matched.
fn overlap(cx: &Context<'_>, row: &Row<'_>) -> f64 {
    if cx.request.has_tier_matches {
        row.device_overlap_blocks()
    } else {
        row.effective_overlap_blocks()
    }
}

/// Tokens that would be computed before the first answer to this request.
fn ahead(cx: &Context<'_>, row: &Row<'_>) -> f64 {
    let held = (overlap(cx, row) * cx.block_size()).floor();
    row.active_prefill_tokens() + (cx.request.prompt_tokens as f64 - held).max(0.0)
}
