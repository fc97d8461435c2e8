//! The KV cost function.
//!
//! cost = (scale * max(0, prefill blocks - credit) + decode blocks + weight * active requests),
//! multiplied by the taints' factor, where the credit is what the worker needn't compute again: the
//! blocks of its device, which count less the more prefill it carries above the lightest row, those
//! of slower tiers, and those that a shared cache has beyond. Every sum and product stands in the
//! built-in's order, so that the last bit agrees too.

use pointsman_sdk::prelude::*;

use crate::Weights;

/// Rows that the loop handles at once: fuel is counted per block of code.
const UNROLL: usize = 8;

/// The scorer.
#[derive(Debug)]
pub struct KvCost {
    weights: Weights,
    role: Role,
    plain_decode: bool,
    inputs: Vec<Input>,
    /// What stands for a column that isn't read.
    zeros: Vec<f64>,
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
        let wanted = [
            (Input::ActivePrefillTokens, prefills),
            (Input::DecodeCostBlocks, true),
            (Input::ActiveRequests, w.decode_active_request_weight != 0.0),
            (Input::PreferredTaintMultiplier, true),
            (Input::DeviceOverlapBlocks, caches),
            (Input::HostOverlapBlocks, caches && w.host_cache_hit_weight != 0.0),
            (Input::DiskOverlapBlocks, caches && w.disk_cache_hit_weight != 0.0),
            (Input::SharedBeyondDeviceBlocks, caches && w.shared_cache_multiplier != 0.0),
            (Input::EffectiveOverlapBlocks, caches),
            (Input::CachedTokens, caches && prefills),
        ];
        let inputs = wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(input, _)| input);
        Self {
            weights: weights.clone(),
            role,
            plain_decode,
            inputs: inputs.collect(),
            zeros: Vec::new(),
        }
    }

    fn reads(&self, input: Input) -> bool {
        self.inputs.contains(&input)
    }

    /// Writes what each block of a row's device is worth.
    fn device_worth(&self, cx: &Context<'_>, rows: &Candidates<'_>, worth: &mut [f64]) {
        let tracks = cx.request.tracks_prefill_tokens;
        let credit = self.credit_weight(tracks);
        let decay = self.weights.overlap_score_credit_decay;
        if decay == 0.0 || !tracks || !self.reads(Input::ActivePrefillTokens) {
            worth.fill(credit);
            return;
        }
        let prefill = rows.column(Input::ActivePrefillTokens);
        let lightest = prefill.iter().copied().fold(f64::INFINITY, lower);
        let (size, blocks) = (cx.block_size(), cx.request.request_blocks.max(1) as f64);
        rows.score_columns([Input::ActivePrefillTokens], worth, |[load]| {
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
        let column =
            |input| if self.reads(input) { rows.column(input) } else { &self.zeros[..costs.len()] };
        let columns = [
            column(device(cx)),
            column(Input::HostOverlapBlocks),
            column(Input::DiskOverlapBlocks),
            column(Input::SharedBeyondDeviceBlocks),
            column(Input::ActivePrefillTokens),
            column(Input::CachedTokens),
            column(Input::DecodeCostBlocks),
            column(Input::ActiveRequests),
            column(Input::PreferredTaintMultiplier),
        ];
        let w = &self.weights;
        let tracks = cx.request.tracks_prefill_tokens;
        // Neither the credit's weight nor its decay is the other tiers'.
        let credit = |worth: f64, [device, host, disk, shared]: [f64; 4]| {
            worth * device
                + w.host_cache_hit_weight * host
                + w.disk_cache_hit_weight * disk
                + w.shared_cache_multiplier * shared
        };
        let weight = w.decode_active_request_weight;
        if self.role == Role::Decode && !tracks && self.credit_weight(tracks) > 0.0 {
            // A decode worker that may also prefill: what it has cached makes it cheaper to decode
            // on.
            return each_row(columns, costs, |worth, row| {
                let [device, host, disk, shared, _, _, decode, requests, taints] = row;
                let credit = credit(worth, [device, host, disk, shared]);
                (positive(decode - credit) + weight * requests) * taints
            });
        }
        let scale = if tracks { w.prefill_load_scale } else { 0.0 };
        let (size, isl) = (cx.block_size(), cx.request.prompt_tokens as f64);
        each_row(columns, costs, |worth, row| {
            let [device, host, disk, shared, load, cached, decode, requests, taints] = row;
            let credit = credit(worth, [device, host, disk, shared]);
            // Cached tokens are left out and then put back, so that the discount is by the credit
            // alone; what remains is the longer of the prompt and what is cached of it.
            let prompt = longer(cached, isl);
            let prefill = scale * positive((load + prompt) / size - credit);
            (prefill + decode + weight * requests) * taints
        })
    }
}

impl KvCost {
    /// Whether the formula comes down to prefill and decode for this request: nothing that it weighs
    /// otherwise is anything but 0, or 1 where it multiplies. Most requests are so, and to find out
    /// costs less than to multiply.
    fn is_plain(&self, cx: &Context<'_>, rows: &Candidates<'_>) -> bool {
        let w = &self.weights;
        let absent = |input| !self.reads(input) || all_are(rows.column(input), 0.0);
        cx.request.tracks_prefill_tokens
            && w.prefill_load_scale != 0.0
            && w.overlap_score_credit_decay == 0.0
            && self.reads(Input::CachedTokens)
            && !self.reads(Input::ActiveRequests)
            && all_are(rows.column(Input::PreferredTaintMultiplier), 1.0)
            && absent(Input::HostOverlapBlocks)
            && absent(Input::DiskOverlapBlocks)
            && absent(Input::SharedBeyondDeviceBlocks)
    }

    /// The costs then. What is multiplied by 1 stays as it is.
    fn plain(&self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let columns = [
            rows.column(device(cx)),
            rows.column(Input::ActivePrefillTokens),
            rows.column(Input::CachedTokens),
            rows.column(Input::DecodeCostBlocks),
        ];
        let (size, isl) = (cx.block_size(), cx.request.prompt_tokens as f64);
        let (worth, scale) = (self.credit_weight(true), self.weights.prefill_load_scale);
        if worth == 1.0 && scale == 1.0 {
            return each_row(columns, costs, |_, [device, load, cached, decode]| {
                positive((load + longer(cached, isl)) / size - device) + decode
            });
        }
        each_row(columns, costs, |_, [device, load, cached, decode]| {
            let prefill = (load + longer(cached, isl)) / size - worth * device;
            scale * positive(prefill) + decode
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

/// Whether a column is this number in every row, to the bit.
fn all_are(column: &[f64], number: f64) -> bool {
    let differs = |other: &f64| other.to_bits() ^ number.to_bits();
    let mut blocks = column.chunks_exact(UNROLL);
    let mut different = 0;
    for block in &mut blocks {
        different |= block.iter().fold(0, |bits, other| bits | differs(other));
    }
    blocks.remainder().iter().fold(different, |bits, other| bits | differs(other)) == 0
}

/// Writes each row's cost, from what `costs` had for it and from its values of the columns.
fn each_row<const N: usize>(
    columns: [&[f64]; N],
    costs: &mut [f64],
    cost: impl Fn(f64, [f64; N]) -> f64,
) -> Result {
    if columns.iter().any(|column| column.len() != costs.len()) {
        return Err("a column has another length than there are rows".into());
    }
    let mut start = 0;
    while let Some(block) = costs.get_mut(start..start + UNROLL) {
        // By reference: copies of so many cells would cost loads and stores of their own. Every column is as
        // long as `costs`, so that none is too short here.
        let cells = columns.map(|column| {
            column.get(start..).and_then(<[f64]>::first_chunk).unwrap_or(&[0.0; UNROLL])
        });
        for (lane, slot) in block.iter_mut().enumerate() {
            *slot = cost(*slot, cells.map(|cells| cells[lane]));
        }
        start += UNROLL;
    }
    for (row, slot) in costs.iter_mut().enumerate().skip(start) {
        *slot = cost(*slot, columns.map(|column| column[row]));
    }
    Ok(())
}

// Written out, since `f64::max` and `f64::min` are calls in wasm, for the sake of NaN.

/// The value, and 0 for what is below.
fn positive(value: f64) -> f64 {
    if value > 0.0 { value } else { 0.0 }
}

/// The higher of two.
fn longer(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The lower of two.
fn lower(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}
