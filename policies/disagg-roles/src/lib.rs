//! One policy for both halves of disaggregated serving, with a cost for each: what is left to be computed on
//! prefill workers, what is to be held on decode workers.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;

/// Prefill work on prefill workers, decode blocks on decode workers; nothing else.
#[derive(Debug, Clone, Copy)]
pub struct DisaggRoles;

export_policy!(DisaggRoles);

impl Policy for DisaggRoles {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let overlap = DeviceOverlap { least_blocks: settings.min_device_overlap_blocks };
        let stages = Stages::new().stateless().replicable();
        Ok(match environment.partition.role {
            Role::Prefill => stages.filter(overlap).scorer(PrefillBlocks),
            Role::Decode => stages.filter(overlap).scorer(DecodeBlocks),
            role => stages.picker(Refuse { role }),
        })
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Blocks of the prompt that a worker must hold in device memory to be considered; 0 considers
    /// all.
    pub min_device_overlap_blocks: f64,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::not_negative("min_device_overlap_blocks", self.min_device_overlap_blocks)
    }
}

struct DeviceOverlap {
    least_blocks: f64,
}

impl WorkerFilter for DeviceOverlap {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks]
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.device_overlap_blocks() >= self.least_blocks)
    }
}

/// What is booked and not computed yet, and what this prompt would add to it.
struct PrefillBlocks;

impl WorkerScorer for PrefillBlocks {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActivePrefillTokens, Input::DeviceOverlapBlocks]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let size = cx.block_size();
        let blocks = Lanes::splat(cx.request.request_blocks as f64);
        let inputs = [Input::ActivePrefillTokens, Input::DeviceOverlapBlocks];
        rows.score_lanes(inputs, costs, |[load, overlap]| {
            load / size + (blocks - overlap).positive()
        });
        Ok(())
    }
}

/// What decode would hold with this request there too.
struct DecodeBlocks;

impl WorkerScorer for DecodeBlocks {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DecodeCostBlocks]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| row.decode_cost_blocks());
        Ok(())
    }
}

/// Decides for nobody: a role that it isn't made for is a mistake of the configuration, which should be seen.
struct Refuse {
    role: Role,
}

impl WorkerPicker for Refuse {
    fn pick(&mut self, _: &Context<'_>, _: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let role = match self.role {
            Role::Aggregated => "aggregated",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
            Role::Encode => "encode",
        };
        Err(format!(
            "disagg-roles is for prefill and decode workers; give {role} workers another policy"
        )
        .into())
    }
}
