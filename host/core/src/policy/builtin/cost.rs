//! `default`: the KV cost function, and the policy that is made of it.
//!
//! cost = scale * max(0, prefill blocks - credit) + decode blocks + weight * active requests,
//! where the credit is what the worker needn't compute again: the blocks of its device, which count
//! less the more prefill it carries above the lightest row, those of slower tiers, and those that a
//! shared cache has beyond. A column that has no weight isn't declared, so that nobody fills it.

use serde::Deserialize;

use super::parameters;
use super::softmax::DefaultPicker;
use crate::ids::Role;
use crate::lanes::{self, Price, positive};
use crate::policy::candidates::Candidates;
use crate::policy::catalog::PolicyEnvironment;
use crate::policy::declaration::Properties;
use crate::policy::failure::StageError;
use crate::policy::input::{Input, InputSet};
use crate::policy::native::{NativePolicy, WorkerFilter, WorkerScorer};
use crate::policy::row_mask::RowMask;
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
    // Where the prefill worker is never skipped, decode workers compute no prompt.
    let skips = environment.settings.conditional_disagg.enabled;
    let plain_decode = environment.partition.role == Role::Decode && !skips;
    let picker = DefaultPicker { temperature: settings.router_temperature };
    let properties = Properties { stateless: true, fused: true, ..Properties::default() };
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

    fn concerns(&self, request: &RequestView<'_>) -> bool {
        request.affinity_target.is_some()
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
    /// The same.
    wanted: InputSet,
}

impl DefaultCost {
    /// The cost function of a role. `plain_decode`: the workers only ever decode.
    #[must_use]
    pub fn new(settings: &RouterSettings, role: Role, plain_decode: bool) -> Self {
        let s = settings;
        let prefills = s.prefill_load_scale != 0.0;
        // Without prefill load there is nothing to be credited, but for decode workers that may
        // prefill: they are credited on their decode blocks.
        let credits = prefills || role == Role::Decode;
        let caches = credits && !plain_decode && s.overlap_score_credit != 0.0;
        let wanted = [
            (Input::ActivePrefillTokens, prefills),
            (Input::DecodeCostBlocks, true),
            (Input::ActiveRequests, s.decode_active_request_weight != 0.0),
            (Input::PreferredTaintMultiplier, true),
            (Input::DeviceOverlapBlocks, caches),
            (Input::HostOverlapBlocks, caches && s.host_cache_hit_weight != 0.0),
            (Input::DiskOverlapBlocks, caches && s.disk_cache_hit_weight != 0.0),
            (Input::SharedBeyondDeviceBlocks, caches && s.shared_cache_multiplier != 0.0),
            (Input::EffectiveOverlapBlocks, caches),
            (Input::CachedTokens, caches && prefills),
        ];
        let inputs = wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(input, _)| input);
        let inputs: Vec<Input> = inputs.collect();
        let wanted = inputs.iter().copied().collect();
        Self { settings: settings.clone(), role, plain_decode, inputs, wanted }
    }

    /// What each row needn't compute again, in blocks; written to `credits` where one product doesn't
    /// say it.
    fn credit<'a>(
        &self,
        request: &RequestView<'_>,
        rows: &Candidates<'a>,
        credits: &mut [f64],
    ) -> Credit<'a> {
        let s = &self.settings;
        let tracks = request.tracks_prefill_tokens;
        // Where no tier matched, the estimate speaks for the device.
        let device = if request.has_tier_matches {
            Input::DeviceOverlapBlocks
        } else {
            Input::EffectiveOverlapBlocks
        };
        let Some(device) = rows.column(device) else {
            credits.fill(0.0);
            return Credit::Written;
        };
        let weight = self.credit_weight(tracks);
        // Neither weight nor decay is these tiers'.
        let lower = [
            (Input::HostOverlapBlocks, s.host_cache_hit_weight),
            (Input::DiskOverlapBlocks, s.disk_cache_hit_weight),
            (Input::SharedBeyondDeviceBlocks, s.shared_cache_multiplier),
        ];
        let mut lower = lower.into_iter().filter_map(|(input, weight)| {
            let holds_some = rows.uniform(input) != Some(0.0);
            Some((holds_some.then(|| rows.column(input))??, weight))
        });
        let decays = s.overlap_score_credit_decay != 0.0 && tracks;
        let prefill = decays.then(|| rows.column(Input::ActivePrefillTokens)).flatten();
        let mut next = lower.next();
        if prefill.is_none() && next.is_none() {
            return Credit::Of(weight, device);
        }
        match prefill {
            Some(prefill) => {
                let block_size = f64::from(request.block_size.max(1));
                let blocks = request.request_blocks.max(1) as f64;
                let lightest = prefill.iter().copied().fold(f64::INFINITY, f64::min);
                for ((credit, device), load) in credits.iter_mut().zip(device).zip(prefill) {
                    let above = (load - lightest) / block_size;
                    let decay = 1.0 / (1.0 + s.overlap_score_credit_decay * above / blocks);
                    *credit = weight * decay * device;
                }
            }
            None => credits.iter_mut().zip(device).for_each(|(to, device)| *to = weight * device),
        }
        while let Some((column, weight)) = next {
            credits.iter_mut().zip(column).for_each(|(to, blocks)| *to += weight * blocks);
            next = lower.next();
        }
        Credit::Written
    }

    fn credit_weight(&self, tracks: bool) -> f64 {
        if self.plain_decode && !tracks { 0.0 } else { self.settings.overlap_score_credit }
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
        if let Some(input) = rows.lacks(self.wanted) {
            return Err(missing(input));
        }
        let s = &self.settings;
        let tracks = request.tracks_prefill_tokens;
        let column = |input| rows.column(input).unwrap_or_default();
        // Where `costs` doesn't stand for the credit, it is not read.
        let credit = self.credit(request, rows, costs);

        let decode = column(Input::DecodeCostBlocks);
        // A decode worker that may also prefill: what it has cached makes it cheaper to decode on.
        if self.role == Role::Decode && !tracks && self.credit_weight(tracks) > 0.0 {
            credit.write(costs);
            costs.iter_mut().zip(decode).for_each(|(to, blocks)| *to = positive(blocks - *to));
        } else if tracks && s.prefill_load_scale != 0.0 {
            self.prefill(request, rows, credit, decode, costs);
        } else {
            // Whatever it is, 0 is added to it, so that it isn't -0.
            costs.iter_mut().zip(decode).for_each(|(to, blocks)| *to = 0.0 + blocks);
        }
        let (requests, weight) = (column(Input::ActiveRequests), s.decode_active_request_weight);
        costs.iter_mut().zip(requests).for_each(|(to, requests)| *to += weight * requests);
        if rows.uniform(Input::PreferredTaintMultiplier) != Some(1.0) {
            let taints = column(Input::PreferredTaintMultiplier);
            costs.iter_mut().zip(taints).for_each(|(to, factor)| *to *= factor);
        }
        Ok(())
    }

    /// Each way to do it writes as many as its shortest column has, and all columns have every row.
    fn leaves_none_out(&self) -> bool {
        true
    }
}

impl DefaultCost {
    /// Writes the cost of prefill and decode, from credit that may stand in `costs`.
    fn prefill(
        &self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        credit: Credit<'_>,
        decode: &[f64],
        costs: &mut [f64],
    ) {
        let load = rows.column(Input::ActivePrefillTokens).unwrap_or_default();
        let price = Price {
            block_size: request.block_size.max(1),
            prompt: request.prompt_tokens as f64,
            scale: self.settings.prefill_load_scale,
        };
        match (credit, rows.column(Input::CachedTokens)) {
            (Credit::Of(weight, device), Some(cached)) => {
                lanes::price(price, costs, load, decode, (weight, device), cached);
            }
            (Credit::Written, Some(cached)) => {
                lanes::price_credited(price, costs, load, decode, cached);
            }
            (credit, None) => {
                credit.write(costs);
                lanes::price_uncached(price, costs, load, decode);
            }
        }
    }
}

/// What each row needn't compute again.
#[derive(Clone, Copy)]
enum Credit<'a> {
    /// A weight times a column.
    Of(f64, &'a [f64]),
    /// What was written where costs will be.
    Written,
}

impl Credit<'_> {
    fn write(self, costs: &mut [f64]) {
        if let Self::Of(weight, device) = self {
            costs.iter_mut().zip(device).for_each(|(to, device)| *to = weight * device);
        }
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
