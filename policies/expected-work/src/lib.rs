//! The default cost, whose decode term grows with the work that a worker is expected to have: what its requests
//! hold, and what requests like the last ones take to be computed.

// One formula, one place: these are `default-cost`'s files.
#[path = "../../default-cost/src/cost.rs"]
pub mod cost;
#[path = "../../default-cost/src/settings.rs"]
pub mod weights;

use pointsman_sdk::handover;
use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

pub use weights::Weights;

/// The default cost, with decode blocks weighed by expected work.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedWork;

export_policy!(ExpectedWork);

impl Policy for ExpectedWork {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let weights = weights::Settings::default().over(environment)?;
        let role = environment.partition.role;
        let work = Shared::new(Work::new(settings));
        Ok(Stages::new()
            .scorer(cost::KvCost::new(&weights, role, role == Role::Decode))
            .scorer(work.clone())
            .picker(work.clone())
            .handover(work))
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Weight of the last request in the mean of uncached tokens; above 0, at most 1.
    pub ema_alpha: f64,
    /// In mean requests: the work that counts as much as the decode blocks themselves. Above 0.
    pub work_scale: f64,
    /// Work of a block that is held, beside one that is computed.
    pub footprint_weight: f64,
    /// How fast work beyond the scale counts for more.
    pub load_exponent: f64,
    /// How much a worker's share of all requests counts.
    pub share_exponent: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ema_alpha: 0.01737,
            work_scale: 17.601,
            footprint_weight: 1.526,
            load_exponent: 1.2,
            share_exponent: 0.13,
        }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::above("ema_alpha", self.ema_alpha, 0.0),
            parameters::within("ema_alpha", self.ema_alpha, 0.0, 1.0),
            parameters::within("work_scale", self.work_scale, 1e-6, 1e12),
            parameters::within("footprint_weight", self.footprint_weight, 0.0, 1e6),
            parameters::within("load_exponent", self.load_exponent, 0.0, 8.0),
            parameters::within("share_exponent", self.share_exponent, 0.0, 8.0),
        ])
    }
}

/// Requests whose powers are known beforehand: what is left to raise is one power a row.
const KNOWN_POWERS: usize = 256;

/// What is expected of requests, learnt from the last ones.
struct Work {
    settings: Settings,
    /// Tokens of a request that weren't cached where it went; none before the first.
    mean_tokens: Option<f64>,
    /// `share_exponent` powers of 1, 2, 3 and so on.
    powers: Vec<f64>,
}

impl Work {
    fn new(settings: Settings) -> Self {
        let power = |n: usize| power(n as f64, settings.share_exponent);
        let powers = (1..=KNOWN_POWERS).map(power).collect();
        Self { settings, mean_tokens: None, powers }
    }

    /// A number of requests, to the power of `share_exponent`.
    fn share(&self, requests: f64) -> f64 {
        let known = self.powers.get((requests as usize).wrapping_sub(1));
        known.copied().unwrap_or_else(|| power(requests, self.settings.share_exponent))
    }
}

/// A power of a number that is 0 or more.
fn power(of: f64, exponent: f64) -> f64 {
    // Half of what `powf` takes, which has every case in mind.
    if of > 0.0 { math::exp(exponent * math::ln(of)) } else { f64::from(exponent == 0.0) }
}

impl WorkerScorer for Work {
    fn name(&self) -> String {
        "expected-work".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::DecodeCostBlocks, Input::ActiveRequests, Input::PreferredTaintMultiplier]
    }

    /// Adds to the decode term of the default cost what it is more than the blocks themselves.
    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let Settings { work_scale, footprint_weight, load_exponent, .. } = self.settings;
        let mean_blocks = (self.mean_tokens.unwrap_or(0.0) / cx.block_size()).max(1.0);
        let all = rows.column(Input::ActiveRequests).iter().sum::<f64>() + rows.len() as f64;
        let (scale, all) = (work_scale * mean_blocks, power(all, self.settings.share_exponent));
        rows.score(costs, |row| {
            let (held, requests) = (row.decode_cost_blocks(), row.active_requests());
            if held == 0.0 {
                return 0.0;
            }
            let work = footprint_weight * held + requests * mean_blocks;
            let share = self.share(requests + 1.0) / all;
            held * power(work / scale, load_exponent) * share * row.preferred_taint_multiplier()
        });
        Ok(())
    }
}

impl WorkerPicker for Work {
    fn name(&self) -> String {
        "lowest".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::CachedTokens]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let row = pick::lowest(costs, &mut cx.random());
        let cached = rows.row(row).map_or(0.0, |row| row.value(Input::CachedTokens));
        let tokens = (cx.request.prompt_tokens as f64 - cached).max(0.0);
        let mean = self.mean_tokens.unwrap_or(tokens);
        self.mean_tokens = Some(mean + self.settings.ema_alpha * (tokens - mean));
        Ok(row)
    }
}

impl Handover for Work {
    fn save(&self) -> Result<Vec<u8>> {
        handover::encode(&self.mean_tokens)
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.mean_tokens = handover::decode(state)?;
        Ok(())
    }
}
