//! Maps every beginning of a prompt to two workers, and takes the better of them: the one that holds more of
//! it, unless too much is ahead there. Beginnings that are hot are told apart further in.

mod levels;

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::random::mix;

use levels::Levels;

export_policy! {
    /// The better of two workers that the prompt's beginning hashes to.
    pub policy DualMap(settings: Settings) {
        prefix_hash_blocks: settings.hash_prefix_blocks << (levels::LEVELS - 1),
        picker: Pair {
            budget: settings.pending_prefill_token_budget as f64,
            levels: Levels::new(settings.hash_prefix_blocks, settings.window_requests),
        },
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Leading blocks of the prompt that are hashed; twice as many for each level that is hot.
    pub hash_prefix_blocks: u32,
    /// Tokens that may be ahead of a request on the warmer worker.
    pub pending_prefill_token_budget: u64,
    /// Requests over which a beginning's share is counted.
    pub window_requests: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { hash_prefix_blocks: 4, pending_prefill_token_budget: 65_536, window_requests: 1_000 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::within("hash_prefix_blocks", self.hash_prefix_blocks.into(), 1.0, 32.0),
            parameters::within("window_requests", self.window_requests.into(), 1.0, 100_000.0),
        ])
    }
}

/// The picker.
struct Pair {
    budget: f64,
    levels: Levels,
}

impl WorkerPicker for Pair {
    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::Identity,
            Input::ActivePrefillTokens,
            Input::DeviceOverlapBlocks,
            Input::EffectiveOverlapBlocks,
        ]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let Some(key) = self.levels.key(cx.prefix_hashes(), rows.len()) else {
            let all =
                rows.iter().min_by(|one, other| pending(cx, one).total_cmp(&pending(cx, other)));
            return Ok(all.map_or(0, |row| row.index()));
        };
        let Some(first) = heaviest(rows, key, 1, None) else { return Ok(0) };
        let Some(second) = heaviest(rows, key, 2, Some(first.index())) else {
            return Ok(first.index());
        };
        let lighter = if pending(cx, &second) < pending(cx, &first) { second } else { first };
        let warmth = [first, second].map(|row| overlap(cx, &row));
        let warmer = if warmth[1] > warmth[0] { second } else { first };
        let has_room = warmth[0] != warmth[1] && pending(cx, &warmer) <= self.budget;
        Ok(if has_room { warmer } else { lighter }.index())
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

/// Tokens that would be computed on the row before the request's first answer, its own included.
fn pending(cx: &Context<'_>, row: &Row<'_>) -> f64 {
    let held = (overlap(cx, row) * cx.block_size()).floor();
    row.active_prefill_tokens() + (cx.request.prompt_tokens as f64 - held).max(0.0)
}

/// The row of most weight for a key in one of the two maps; the first of equals.
fn heaviest<'r>(
    rows: &'r Candidates<'r>,
    key: u64,
    map: u64,
    but: Option<usize>,
) -> Option<Row<'r>> {
    let others = rows.iter().filter(|row| Some(row.index()) != but).rev();
    others.max_by_key(|row| {
        let Worker { id, dp_rank } = row.worker();
        mix(key ^ mix(id ^ mix(u64::from(dp_rank) ^ map)))
    })
}
