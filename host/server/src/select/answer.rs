//! A selection as it is answered: who was selected, what he holds of the prompt, and what the request
//! costs him.
//!
//! Tokens are of the prompt; what caches hold is counted in whole blocks, and in tiers that add up: the
//! host's blocks follow the device's, and the disk's follow those.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::cache::RowOverlap;
use pointsman_core::disaggregation::ConditionalDisagg;
use pointsman_core::eligibility::UNKNOWN_BATCHED_TOKENS;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::partition::Partition;
use pointsman_core::policy::RouterSettings;
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use serde::Serialize;

use super::hashes::signed;

/// What is answered.
#[derive(Debug, Serialize)]
pub(super) struct Selection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selection_id: Option<Arc<str>>,
    model_name: Arc<str>,
    routing_group: Arc<str>,
    worker_id: WorkerId,
    dp_rank: DpRank,
    endpoint: String,
    block_size: u32,
    overlap: Overlap,
    /// Prompt tokens that the worker is expected to compute, blocks in caches counted by what they are
    /// worth: what a booking charges.
    pub(super) effective_prefill_tokens: u64,
    /// The worker's active KV blocks with those of this request.
    potential_decode_blocks: u64,
    /// None where no threshold says it, or the worker's memory isn't known.
    #[serde(skip_serializing_if = "Option::is_none")]
    decode_busy: Option<bool>,
    /// What is booked: these three only with a booking.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_hashes: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isl_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) track_prefill_tokens: Option<bool>,
    /// For how long the booking is kept without a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_ms: Option<u64>,
    /// What the worker carries now: only of advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_load: Option<WorkerLoad>,
    /// What the request says that isn't heeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Arc<Receipt>>,
}

/// What the worker holds of the prompt, in tokens.
#[derive(Debug, Serialize)]
struct Overlap {
    longest_matched: u64,
    gpu: u64,
    /// On the device, by rank: of the chosen one, and of others of the worker that hold some.
    dp: BTreeMap<DpRank, u64>,
    cpu: u64,
    disk: u64,
}

/// What the worker carries.
#[derive(Debug, Serialize)]
struct WorkerLoad {
    active_prefill_tokens: u64,
    prefill_token_capacity: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_kv_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_busy: Option<bool>,
}

impl Selection {
    /// Of a decision.
    pub(super) fn of(
        partition: &Partition,
        settings: &RouterSettings,
        request: &RouteRequest,
        receipt: &Receipt,
        worker: &WorkerSpec,
    ) -> Self {
        let block_size = worker.block_size.get();
        let rule = &settings.conditional_disagg;
        let blocks = receipt.potential_decode_blocks;
        Self {
            selection_id: None,
            model_name: receipt.partition.model.clone(),
            routing_group: receipt.partition.routing_group.clone(),
            worker_id: receipt.worker.worker_id,
            dp_rank: receipt.worker.dp_rank,
            endpoint: worker.endpoint.clone(),
            block_size,
            overlap: overlap(partition, settings, request, receipt, worker),
            effective_prefill_tokens: receipt
                .overlap
                .uncached_tokens(receipt.prompt_tokens, block_size),
            potential_decode_blocks: blocks,
            decode_busy: decode_busy(rule, worker, blocks),
            sequence_hashes: None,
            isl_tokens: None,
            track_prefill_tokens: None,
            lease_ms: None,
            worker_load: None,
            ignored: Vec::new(),
            receipt: None,
        }
    }

    /// The same, which is booked.
    pub(super) fn booked(mut self, request: &RouteRequest, settings: &RouterSettings) -> Self {
        let hashes = request.booked_chain.as_ref().unwrap_or(&request.chain);
        self.sequence_hashes = Some(signed(hashes));
        self.isl_tokens = Some(request.prompt_tokens);
        self.track_prefill_tokens = Some(tracks(request, settings));
        self
    }

    /// The same, which is advice.
    pub(super) fn advice(
        mut self,
        partition: &Partition,
        settings: &RouterSettings,
        worker: &WorkerSpec,
        now_ms: u64,
    ) -> Self {
        let rank = WorkerRank { worker_id: self.worker_id, dp_rank: self.dp_rank };
        let left = partition.ledger().read_at(now_ms, |books| {
            let row = books.snapshot.row_of(rank);
            row.map_or(0.0, |row| books.prefill_left(row, now_ms)) as u64
        });
        let capacity = worker.max_num_batched_tokens.unwrap_or(UNKNOWN_BATCHED_TOKENS);
        let threshold = settings.conditional_disagg.prefill_busy_threshold;
        self.worker_load = Some(WorkerLoad {
            active_prefill_tokens: left,
            prefill_token_capacity: capacity,
            total_kv_blocks: worker.total_kv_blocks,
            prefill_busy: threshold.map(|threshold| left as f64 > threshold * capacity as f64),
        });
        self
    }

    /// The same, with what wasn't heeded, and the whole decision if that is wanted.
    pub(super) fn with(mut self, ignored: Vec<String>, receipt: Option<Arc<Receipt>>) -> Self {
        (self.ignored, self.receipt) = (ignored, receipt);
        self
    }
}

/// Whether the prefill of a request is booked.
pub(super) fn tracks(request: &RouteRequest, settings: &RouterSettings) -> bool {
    request.track_prefill_tokens.unwrap_or(settings.router_track_prefill_tokens)
}

fn decode_busy(rule: &ConditionalDisagg, worker: &WorkerSpec, blocks: u64) -> Option<bool> {
    let (threshold, total) = (rule.decode_busy_threshold?, worker.total_kv_blocks?);
    Some(blocks as f64 > threshold * total as f64)
}

fn overlap(
    partition: &Partition,
    settings: &RouterSettings,
    request: &RouteRequest,
    receipt: &Receipt,
    worker: &WorkerSpec,
) -> Overlap {
    let size = u64::from(worker.block_size.get());
    let tokens = |blocks: u64| blocks.saturating_mul(size);
    let held = &receipt.overlap;
    let (gpu, cpu) = (held.device_blocks, held.device_blocks + held.host_blocks);
    let mut dp = BTreeMap::from([(receipt.worker.dp_rank, tokens(gpu))]);
    if worker.data_parallel_size.get() > 1 && !request.chain.is_empty() {
        let snapshot = partition.ledger().snapshot();
        let all = partition.cache().overlaps(settings, &request.chain, &snapshot);
        let its = snapshot.rows.iter().zip(&all);
        let its = its.filter(|(rank, held): &(&WorkerRank, &RowOverlap)| {
            rank.worker_id == receipt.worker.worker_id && held.device_blocks > 0
        });
        for (rank, held) in its {
            dp.entry(rank.dp_rank).or_insert_with(|| tokens(held.device_blocks));
        }
    }
    let disk = held.raw_blocks();
    Overlap {
        longest_matched: tokens(disk),
        gpu: tokens(gpu),
        dp,
        cpu: tokens(cpu),
        disk: tokens(disk),
    }
}
