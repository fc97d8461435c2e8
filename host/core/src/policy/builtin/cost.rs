//! `default`: the KV cost function, and the policy that is made of it.
//!
//! cost = scale * max(0, prefill blocks - credit) + decode blocks + weight * active requests,
//! where the credit is what the worker needn't compute again. The cache terms are zero until an
//! index feeds their columns.

use serde::Deserialize;

use super::parameters;
use super::softmax::DefaultPicker;
use crate::ids::Role;
use crate::policy::candidates::{Candidates, RowMask};
use crate::policy::catalog::PolicyEnvironment;
use crate::policy::declaration::Properties;
use crate::policy::failure::StageError;
use crate::policy::input::Input;
use crate::policy::native::{NativePolicy, WorkerFilter, WorkerScorer};
use crate::policy::settings::RouterSettings;
use crate::policy::view::RequestView;

/// The parameters; what is omitted comes from the router's settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named and explained in RouterSettings")]
pub struct CostParameters {
    pub overlap_score_credit: Option<f64>,
    pub overlap_score_credit_decay: Option<f64>,
    pub prefill_load_scale: Option<f64>,
    pub decode_active_request_weight: Option<f64>,
    pub host_cache_hit_weight: Option<f64>,
    pub disk_cache_hit_weight: Option<f64>,
    pub shared_cache_multiplier: Option<f64>,
    pub router_temperature: Option<f64>,
}

impl CostParameters {
    /// The router's settings with these in their place.
    fn over(&self, settings: &RouterSettings) -> Result<RouterSettings, String> {
        let mut merged = settings.clone();
        let fields = [
            (&mut merged.overlap_score_credit, self.overlap_score_credit),
            (&mut merged.overlap_score_credit_decay, self.overlap_score_credit_decay),
            (&mut merged.prefill_load_scale, self.prefill_load_scale),
            (&mut merged.decode_active_request_weight, self.decode_active_request_weight),
            (&mut merged.host_cache_hit_weight, self.host_cache_hit_weight),
            (&mut merged.disk_cache_hit_weight, self.disk_cache_hit_weight),
            (&mut merged.shared_cache_multiplier, self.shared_cache_multiplier),
            (&mut merged.router_temperature, self.router_temperature),
        ];
        for (field, given) in fields {
            *field = given.unwrap_or(*field);
        }
        match merged.problems().first() {
            None => Ok(merged),
            Some((key, problem)) => Err(format!("{key}: {problem}")),
        }
    }
}

pub(super) fn build(environment: &PolicyEnvironment) -> Result<NativePolicy, String> {
    let settings = parameters::<CostParameters>(environment)?.over(&environment.settings)?;
    // Until a prefill pool can be left out per request, every decode worker is plainly decode.
    let plain_decode = environment.partition.role == Role::Decode;
    let picker = DefaultPicker { temperature: settings.router_temperature };
    let properties = Properties { stateless: true, ..Properties::default() };
    Ok(NativePolicy::new(properties)
        .filter("affinity", AffinityFilter)
        .scorer("kv-cost", DefaultCost::new(&settings, environment.partition.role, plain_decode))
        .picker("lowest-or-softmax", picker))
}

/// Narrows the rows to the soft-affinity target, while it is one of them.
#[derive(Debug)]
struct AffinityFilter;

impl WorkerFilter for AffinityFilter {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity]
    }

    fn keep(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        let (Some(target), Some(ids)) = (request.affinity_target, rows.identity()) else {
            return Ok(());
        };
        if ids.iter().any(|id| target.matches(*id)) {
            for (row, id) in ids.iter().enumerate() {
                if !target.matches(*id) {
                    verdicts.reject(row);
                }
            }
        }
        Ok(())
    }
}

/// The cost function.
#[derive(Debug)]
pub struct DefaultCost {
    settings: RouterSettings,
    role: Role,
    plain_decode: bool,
    inputs: Vec<Input>,
}

impl DefaultCost {
    /// The cost function of a role. `plain_decode`: the workers only ever decode.
    #[must_use]
    pub fn new(settings: &RouterSettings, role: Role, plain_decode: bool) -> Self {
        let mut inputs = vec![
            Input::ActivePrefillTokens,
            Input::DecodeCostBlocks,
            Input::ActiveRequests,
            Input::PreferredTaintMultiplier,
        ];
        if !plain_decode && settings.overlap_score_credit != 0.0 {
            inputs.extend([
                Input::DeviceOverlapBlocks,
                Input::HostOverlapBlocks,
                Input::DiskOverlapBlocks,
                Input::SharedBeyondDeviceBlocks,
                Input::EffectiveOverlapBlocks,
                Input::CachedTokens,
            ]);
        }
        Self { settings: settings.clone(), role, plain_decode, inputs }
    }
}

impl WorkerScorer for DefaultCost {
    fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn score(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        let s = &self.settings;
        let load = Load::of(rows)?;
        let tracks = request.tracks_prefill_tokens;
        let block_size = f64::from(request.block_size.max(1));
        let isl = request.prompt_tokens as f64;

        // What each row needn't compute again, in blocks; `costs` carries it to the second pass.
        let credit_weight = if self.plain_decode && !tracks { 0.0 } else { s.overlap_score_credit };
        let cache = Cache::of(rows, request.has_tier_matches);
        match &cache {
            None => costs.fill(0.0),
            Some(cache) => {
                let decays = s.overlap_score_credit_decay != 0.0 && tracks;
                let lightest = load.prefill.iter().copied().fold(f64::INFINITY, f64::min);
                let blocks = (request.request_blocks.max(1)) as f64;
                for (row, credit) in costs.iter_mut().enumerate() {
                    let decay = if decays {
                        let above = (load.prefill[row] - lightest) / block_size;
                        1.0 / (1.0 + s.overlap_score_credit_decay * above / blocks)
                    } else {
                        1.0
                    };
                    *credit = credit_weight * decay * cache.device[row]
                        + s.host_cache_hit_weight * cache.host[row]
                        + s.disk_cache_hit_weight * cache.disk[row]
                        + s.shared_cache_multiplier * cache.shared[row];
                }
            }
        }

        // A decode worker that may also prefill: what it has cached makes it cheaper to decode on.
        let decode_variant = self.role == Role::Decode && !tracks && credit_weight > 0.0;
        let weight = s.decode_active_request_weight;
        for (row, cost) in costs.iter_mut().enumerate() {
            let credit = *cost;
            let requests = weight * load.requests[row];
            let whole = if decode_variant {
                (load.decode[row] - credit).max(0.0) + requests
            } else {
                // Cached tokens are left out and then put back, so that the discount is by the credit
                // alone; what remains is the longer of the prompt and what is cached of it.
                let cached = cache.as_ref().map_or(0.0, |cache| cache.tokens[row]);
                let raw = if tracks { load.prefill[row] + isl.max(cached) } else { 0.0 };
                let prefill = (raw / block_size - credit).max(0.0);
                s.prefill_load_scale * prefill + load.decode[row] + requests
            };
            *cost = whole * load.taints[row];
        }
        Ok(())
    }
}

/// The load columns.
struct Load<'a> {
    prefill: &'a [f64],
    decode: &'a [f64],
    requests: &'a [f64],
    taints: &'a [f64],
}

impl<'a> Load<'a> {
    fn of(rows: &Candidates<'a>) -> Result<Self, StageError> {
        let column = |input| rows.column(input).ok_or_else(|| missing(input));
        Ok(Self {
            prefill: column(Input::ActivePrefillTokens)?,
            decode: column(Input::DecodeCostBlocks)?,
            requests: column(Input::ActiveRequests)?,
            taints: column(Input::PreferredTaintMultiplier)?,
        })
    }
}

/// The cache columns, when the cost function declared them.
struct Cache<'a> {
    device: &'a [f64],
    host: &'a [f64],
    disk: &'a [f64],
    shared: &'a [f64],
    tokens: &'a [f64],
}

impl<'a> Cache<'a> {
    fn of(rows: &Candidates<'a>, has_tier_matches: bool) -> Option<Self> {
        let device = if has_tier_matches {
            Input::DeviceOverlapBlocks
        } else {
            Input::EffectiveOverlapBlocks
        };
        Some(Self {
            device: rows.column(device)?,
            host: rows.column(Input::HostOverlapBlocks)?,
            disk: rows.column(Input::DiskOverlapBlocks)?,
            shared: rows.column(Input::SharedBeyondDeviceBlocks)?,
            tokens: rows.column(Input::CachedTokens)?,
        })
    }
}

fn missing(input: Input) -> StageError {
    StageError::bad_output(format!("column {input} was declared, but not given"))
}

/// The factor that a request's preferred taints put on a worker's cost: below 1 for what it
/// prefers, above 1 for what it would rather not, exactly 1 when none match.
#[must_use]
pub fn preferred_taint_multiplier(weights: f64) -> f64 {
    if weights == 0.0 { 1.0 } else { libm::exp(-libm::tanh(weights)) }
}
