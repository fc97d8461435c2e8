//! The product of what is left to compute of a prompt and how many compute already; and a guard that spreads
//! prompts that are hot before their holders are swamped.

mod hot;

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

use hot::HotSpots;

export_policy! {
    /// Uncached tokens times requests, but for hot spots.
    pub policy LMetric(settings: Settings) {
        prefix_hash_blocks: settings.class_prefix_blocks,
        scorers: [Product],
        picker: Guarded::new(&settings),
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Leading blocks of a prompt that say of which class it is.
    pub class_prefix_blocks: u32,
    /// Requests over which a class's share is counted.
    pub window_requests: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { class_prefix_blocks: 4, window_requests: 1_000 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::within(
                "class_prefix_blocks",
                self.class_prefix_blocks.into(),
                1.0,
                4_096.0,
            ),
            parameters::within("window_requests", self.window_requests.into(), 1.0, 100_000.0),
        ])
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

/// `max(1, uncached tokens) × (requests + 1)`.
struct Product;

impl WorkerScorer for Product {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks, Input::EffectiveOverlapBlocks, Input::ActiveRequests]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let (size, prompt) = (cx.block_size(), cx.request.prompt_tokens as f64);
        let requests = rows.column(Input::ActiveRequests);
        for ((cost, overlap), requests) in costs.iter_mut().zip(overlaps(cx, rows)).zip(requests) {
            let uncached = prompt - (overlap * size).floor();
            *cost = (if uncached > 1.0 { uncached } else { 1.0 }) * (requests + 1.0);
        }
        Ok(())
    }
}

/// The lowest cost, in turn among equals; of a class that is hot, among those that don't hold it, in time.
struct Guarded {
    class_blocks: f64,
    hot: HotSpots,
    last: Option<Worker>,
}

impl Guarded {
    fn new(settings: &Settings) -> Self {
        let hot = HotSpots::new(settings.window_requests as usize);
        Self { class_blocks: settings.class_prefix_blocks.into(), hot, last: None }
    }

    /// The best row among some, and the next worker of equals.
    fn best<'r>(
        &self,
        rows: &'r Candidates<'r>,
        costs: &[f64],
        among: impl Fn(usize) -> bool,
    ) -> Option<Row<'r>> {
        let costs = || costs.iter().enumerate().filter(|(row, _)| among(*row));
        let lowest = costs().fold(f64::INFINITY, |lowest, (_, cost)| f64::min(lowest, *cost));
        let equals =
            || costs().filter(|(_, cost)| **cost == lowest).filter_map(|(row, _)| rows.row(row));
        let next = equals().find(|row| self.last.is_some_and(|last| row.worker() > last));
        next.or_else(|| equals().next())
    }
}

impl WorkerPicker for Guarded {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::DeviceOverlapBlocks, Input::EffectiveOverlapBlocks]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let overlaps = overlaps(cx, rows);
        let hashes = cx.prefix_hashes();
        // Of a short prompt all whole blocks are its class.
        let blocks = self.class_blocks.min(hashes.len() as f64);
        let holds =
            |row: usize| blocks > 0.0 && overlaps.get(row).is_some_and(|held| *held >= blocks);
        let holders = (0..rows.len()).filter(|row| holds(*row)).count();
        let class = hashes.last().copied();
        let leaves = class.is_some_and(|class| self.hot.come(class, holders, rows.len() - holders));
        let among = |row: usize| !leaves || !holds(row);
        let Some(row) = self.best(rows, costs, among) else { return Ok(0) };
        if let Some(class) = class {
            self.hot.went(class, holds(row.index()));
        }
        self.last = Some(row.worker());
        Ok(row.index())
    }
}
