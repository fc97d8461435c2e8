//! Weighs what is cached of a prompt against load, both on short scales: an affinity of 32 at most, less `alpha`
//! for each request, and for each 8,192 tokens of prefill.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

export_policy! {
    /// Capped affinity less load; ties to the most cached, then in turn.
    pub policy Ramjet(settings: Settings) {
        scorers: [Score { settings }],
        picker: MostCachedInTurn::default(),
    }
}

/// Tokens that make an affinity of 1.
const TOKENS: f64 = 512.0;
/// The most affinity that there is.
const MOST: f64 = 32.0;
/// Tokens of prefill that weigh as much as a request.
const TOKENS_OF_A_REQUEST: f64 = 8_192.0;

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Affinity that a request takes away; 0 or more.
    pub alpha: f64,
    /// What a worker's cached tokens are measured against.
    pub basis: Basis,
}

/// What a worker's cached tokens are measured against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The prompt: a whole one that is cached has all affinity, however short it is.
    #[default]
    Relative,
    /// Nothing: so many tokens have so much affinity.
    Absolute,
    /// The candidate that has least: what everybody has cached is no reason.
    Marginal,
}

impl Default for Settings {
    fn default() -> Self {
        Self { alpha: 4.0, basis: Basis::Relative }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::not_negative("alpha", self.alpha)
    }
}

/// Blocks of the prompt on the device; the estimate speaks for them where no tier of anybody matched.
fn overlaps<'a>(cx: &Context<'_>, rows: &Candidates<'a>) -> &'a [f64] {
    rows.column(if cx.request.has_tier_matches {
        Input::DeviceOverlapBlocks
    } else {
        Input::EffectiveOverlapBlocks
    })
}

struct Score {
    settings: Settings,
}

impl WorkerScorer for Score {
    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::DeviceOverlapBlocks,
            Input::EffectiveOverlapBlocks,
            Input::ActiveRequests,
            Input::ActivePrefillTokens,
        ]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let overlaps = overlaps(cx, rows);
        let (size, prompt) = (cx.block_size(), cx.request.prompt_tokens as f64);
        let least = overlaps.iter().copied().fold(f64::INFINITY, f64::min) * size;
        // A partly filled last block isn't cached, so that more than the prompt never is.
        let affinity = |overlap: f64| {
            let cached = (overlap * size).min(prompt);
            let affinity = match self.settings.basis {
                Basis::Absolute => cached / TOKENS,
                Basis::Marginal => (cached - least.min(prompt)) / TOKENS,
                Basis::Relative => MOST * cached / prompt.max(1.0),
            };
            if affinity < MOST { affinity } else { MOST }
        };
        let requests = rows.column(Input::ActiveRequests);
        let prefill = rows.column(Input::ActivePrefillTokens);
        for (((cost, overlap), requests), prefill) in
            costs.iter_mut().zip(overlaps).zip(requests).zip(prefill)
        {
            let load = requests + prefill / TOKENS_OF_A_REQUEST;
            *cost = self.settings.alpha * load - affinity(*overlap);
        }
        Ok(())
    }
}

/// The lowest cost; of equals the ones that have most cached; of these, the next in the order of workers.
#[derive(Default)]
struct MostCachedInTurn {
    last: Option<Worker>,
}

impl WorkerPicker for MostCachedInTurn {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::DeviceOverlapBlocks, Input::EffectiveOverlapBlocks]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let overlaps = overlaps(cx, rows);
        let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let ties = || {
            costs.iter().zip(overlaps).zip(rows.iter()).filter(|((cost, _), _)| **cost == lowest)
        };
        let most = ties().fold(0.0, |most, ((_, overlap), _)| f64::max(most, *overlap));
        let equals = || ties().filter(|((_, overlap), _)| **overlap == most).map(|(_, row)| row);
        let next = equals().find(|row| self.last.is_some_and(|last| row.worker() > last));
        let Some(row) = next.or_else(|| equals().next()) else { return Ok(0) };
        self.last = Some(row.worker());
        Ok(row.index())
    }
}
