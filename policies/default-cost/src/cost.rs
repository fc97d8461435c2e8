//! The KV cost function.
//!
//! cost = (scale * max(0, prefill blocks - credit) + decode blocks + weight * active requests),
//! multiplied by the taints' factor, where the credit is what the worker needn't compute again: the
//! blocks of its device, which count less the more prefill it carries above the lightest row, those
//! of slower tiers, and those that a shared cache has beyond. Every sum and product stands in the
//! built-in's order, so that the last bit agrees too.

use pointsman_sdk::prelude::*;

use crate::Weights;

/// The scorer.
#[derive(Debug)]
pub struct KvCost {
    weights: Weights,
    role: Role,
    plain_decode: bool,
    inputs: Vec<Input>,
    reads: Reads,
    /// Whether the formula comes down to prefill and decode where all else is 0 or 1.
    may_be_plain: bool,
    /// What stands for a column that isn't read.
    zeros: Vec<f64>,
}

/// Which columns are read, of those that may not be.
#[derive(Debug)]
struct Reads {
    prefill: bool,
    requests: bool,
    device: bool,
    host: bool,
    disk: bool,
    shared: bool,
    cached: bool,
}

impl KvCost {
    /// The cost function of a role. `plain_decode`: the workers only ever decode.
    pub fn new(weights: &Weights, role: Role, plain_decode: bool) -> Self {
        let w = weights;
        let prefills = w.prefill_load_scale != 0.0;
        // Without prefill load there is nothing to be credited, but for decode workers that may
        // prefill: they are credited on their decode blocks.
        let credits = prefills || role == Role::Decode;
        let caches = credits && !plain_decode && w.overlap_score_credit != 0.0;
        // A column without a weight isn't declared, so that nobody fills it.
        let reads = Reads {
            prefill: prefills,
            requests: w.decode_active_request_weight != 0.0,
            device: caches,
            host: caches && w.host_cache_hit_weight != 0.0,
            disk: caches && w.disk_cache_hit_weight != 0.0,
            shared: caches && w.shared_cache_multiplier != 0.0,
            cached: caches && prefills,
        };
        let wanted = [
            (Input::ActivePrefillTokens, reads.prefill),
            (Input::DecodeCostBlocks, true),
            (Input::ActiveRequests, reads.requests),
            (Input::PreferredTaintMultiplier, true),
            (Input::DeviceOverlapBlocks, reads.device),
            (Input::HostOverlapBlocks, reads.host),
            (Input::DiskOverlapBlocks, reads.disk),
            (Input::SharedBeyondDeviceBlocks, reads.shared),
            (Input::EffectiveOverlapBlocks, reads.device),
            (Input::CachedTokens, reads.cached),
        ];
        let inputs = wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(input, _)| input);
        Self {
            weights: weights.clone(),
            role,
            plain_decode,
            inputs: inputs.collect(),
            may_be_plain: w.overlap_score_credit_decay == 0.0 && reads.cached && !reads.requests,
            reads,
            zeros: Vec::new(),
        }
    }

    /// Writes what each block of a row's device is worth.
    fn device_worth(&self, cx: &Context<'_>, rows: &Candidates<'_>, worth: &mut [f64]) {
        let tracks = cx.request.tracks_prefill_tokens;
        let credit = self.credit_weight(tracks);
        let decay = self.weights.overlap_score_credit_decay;
        if decay == 0.0 || !tracks || !self.reads.prefill {
            worth.fill(credit);
            return;
        }
        let prefill = rows.column(Input::ActivePrefillTokens);
        let lightest = prefill.iter().copied().fold(f64::INFINITY, lower);
        let (size, blocks) = (cx.block_size(), cx.request.request_blocks.max(1) as f64);
        rows.score_lanes([Input::ActivePrefillTokens], worth, |[load]| {
            let above = (load - lightest) / size;
            credit * (1.0 / (1.0 + decay * above / blocks))
        });
    }

    fn credit_weight(&self, tracks: bool) -> f64 {
        if self.plain_decode && !tracks { 0.0 } else { self.weights.overlap_score_credit }
    }
}

impl WorkerScorer for KvCost {
    fn inputs(&self) -> Vec<Input> {
        self.inputs.clone()
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        if self.is_plain(cx, rows) {
            return self.plain(cx, rows, costs);
        }
        // `costs` carries the device's worth to the loop.
        self.device_worth(cx, rows, costs);
        if self.zeros.len() < costs.len() {
            self.zeros.resize(costs.len(), 0.0);
        }
        let zeros = &self.zeros[..costs.len()];
        let column = |input, read| if read { rows.column(input) } else { zeros };
        let reads = &self.reads;
        let columns = [
            column(device(cx), reads.device),
            column(Input::HostOverlapBlocks, reads.host),
            column(Input::DiskOverlapBlocks, reads.disk),
            column(Input::SharedBeyondDeviceBlocks, reads.shared),
            column(Input::ActivePrefillTokens, reads.prefill),
            column(Input::CachedTokens, reads.cached),
            rows.column(Input::DecodeCostBlocks),
            column(Input::ActiveRequests, reads.requests),
            rows.column(Input::PreferredTaintMultiplier),
        ];
        let w = &self.weights;
        let tracks = cx.request.tracks_prefill_tokens;
        // Neither the credit's weight nor its decay is the other tiers'.
        let credit = |worth: Lanes, [device, host, disk, shared]: [Lanes; 4]| {
            worth * device
                + w.host_cache_hit_weight * host
                + w.disk_cache_hit_weight * disk
                + w.shared_cache_multiplier * shared
        };
        let weight = w.decode_active_request_weight;
        if self.role == Role::Decode && !tracks && self.credit_weight(tracks) > 0.0 {
            // A decode worker that may also prefill: what it has cached makes it cheaper to decode
            // on.
            return Lanes::each(columns, costs, |worth, row| {
                let [device, host, disk, shared, _, _, decode, requests, taints] = row;
                let credit = credit(worth, [device, host, disk, shared]);
                ((decode - credit).positive() + weight * requests) * taints
            });
        }
        let scale = if tracks { w.prefill_load_scale } else { 0.0 };
        let size = cx.block_size();
        let isl = Lanes::splat(cx.request.prompt_tokens as f64);
        Lanes::each(columns, costs, |worth, row| {
            let [device, host, disk, shared, load, cached, decode, requests, taints] = row;
            let credit = credit(worth, [device, host, disk, shared]);
            // Cached tokens are left out and then put back, so that the discount is by the credit
            // alone; what remains is the longer of the prompt and what is cached of it.
            let prompt = cached.higher(isl);
            let prefill = scale * ((load + prompt) / size - credit).positive();
            (prefill + decode + weight * requests) * taints
        })
    }
}

impl KvCost {
    /// Whether the formula comes down to prefill and decode for this request: all that it weighs
    /// otherwise is known to be 0, or 1 where it multiplies. Most requests are so.
    fn is_plain(&self, cx: &Context<'_>, rows: &Candidates<'_>) -> bool {
        let absent = |input, read: bool| !read || rows.uniform(input) == Some(0.0);
        let reads = &self.reads;
        self.may_be_plain
            && cx.request.tracks_prefill_tokens
            && rows.uniform(Input::PreferredTaintMultiplier) == Some(1.0)
            && absent(Input::HostOverlapBlocks, reads.host)
            && absent(Input::DiskOverlapBlocks, reads.disk)
            && absent(Input::SharedBeyondDeviceBlocks, reads.shared)
    }

    /// The costs then. What is multiplied by 1 stays as it is.
    fn plain(&self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let columns = [
            rows.column(device(cx)),
            rows.column(Input::ActivePrefillTokens),
            rows.column(Input::CachedTokens),
            rows.column(Input::DecodeCostBlocks),
        ];
        let size = cx.block_size();
        let isl = Lanes::splat(cx.request.prompt_tokens as f64);
        let (worth, scale) = (self.credit_weight(true), self.weights.prefill_load_scale);
        // To divide by a power of two is to multiply by what 1 is of it, to the last bit, and sooner done.
        let part = 1.0 / size;
        if worth == 1.0 && scale == 1.0 && size * part == 1.0 && part.to_bits() << 12 == 0 {
            return Lanes::each(columns, costs, |_, [device, load, cached, decode]| {
                ((load + cached.higher(isl)) * part - device).positive() + decode
            });
        }
        if worth == 1.0 && scale == 1.0 {
            return Lanes::each(columns, costs, |_, [device, load, cached, decode]| {
                ((load + cached.higher(isl)) / size - device).positive() + decode
            });
        }
        Lanes::each(columns, costs, |_, [device, load, cached, decode]| {
            let prefill = (load + cached.higher(isl)) / size - worth * device;
            scale * prefill.positive() + decode
        })
    }
}

/// Where no tier matched, the estimate speaks for the device.
fn device(cx: &Context<'_>) -> Input {
    if cx.request.has_tier_matches {
        Input::DeviceOverlapBlocks
    } else {
        Input::EffectiveOverlapBlocks
    }
}

/// The lower of two. Written out, since `f64::min` is a call in wasm, for the sake of NaN.
fn lower(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}
