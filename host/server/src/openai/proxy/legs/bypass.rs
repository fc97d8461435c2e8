//! Requests that the worker which was to decode them serves alone.
//!
//! Owns what is compared with the rule's thresholds: loads are those of the ledger at the moment, without
//! the request's own.

use pointsman_core::disaggregation::{ConditionalDisagg, Occupancy};
use pointsman_core::ledger::RowLoad;
use tokio::time::Instant;

use super::{Leg, Verdict};
use crate::openai::Front;
use crate::openai::disaggregation::Original;
use crate::openai::proxy::attempt::Attempt;

/// Tokens that a prefill rank batches which doesn't say.
const MOST_BATCHED: u64 = 10_000_000;

/// Whether so little of the prompt is new to the decode worker that it may compute that itself.
pub(super) fn is_short(front: &Front, rule: &ConditionalDisagg, chosen: &Attempt) -> bool {
    rule.is_short(chosen.receipt().prompt_tokens, chosen.cached_tokens())
        && may_compute(front, rule, chosen)
}

/// Whether the prefill worker has too much to do.
pub(super) fn is_busy(front: &Front, rule: &ConditionalDisagg, prefill: &Attempt) -> bool {
    if !rule.asks_prefill() {
        return false;
    }
    let own = prefill.receipt().prompt_tokens.saturating_sub(prefill.cached_tokens());
    let load = load(front, prefill).map(|load| Occupancy {
        active: load.active_prefill_tokens.saturating_sub(own),
        capacity: prefill.spec().max_num_batched_tokens.unwrap_or(MOST_BATCHED),
    });
    rule.prefill_is_busy(load)
}

/// Whether the decode worker has room for a prefill.
pub(super) fn may_compute(front: &Front, rule: &ConditionalDisagg, decode: &Attempt) -> bool {
    if rule.decode_busy_threshold.is_none() {
        return true;
    }
    let (spec, own) = (decode.spec(), decode.receipt().request_blocks);
    let block_size = u64::from(spec.block_size.get());
    let load = load(front, decode).zip(spec.total_kv_blocks).map(|(load, blocks)| Occupancy {
        active: load.active_decode_blocks.saturating_sub(own).saturating_mul(block_size),
        capacity: blocks.saturating_mul(block_size),
    });
    rule.decode_allows(load)
}

/// What an attempt's row carries; none if its worker has left since.
fn load(front: &Front, attempt: &Attempt) -> Option<RowLoad> {
    let receipt = attempt.receipt();
    let partition = front.app.dispatcher.router().partition(&receipt.partition)?;
    let now_ms = front.app.dispatcher.clock().now_ms();
    partition.ledger().loads_at(now_ms).into_iter().find(|load| load.worker == receipt.worker)
}

/// Has the decode worker serve the whole request, as it was chosen and booked.
pub(super) async fn alone(
    mut decode: Leg<'_>,
    mut chosen: Attempt,
    reason: &'static str,
    original: &Original,
    end: Instant,
) -> Verdict {
    let front = decode.front;
    front.app.metrics.legs().bypassed(&chosen.receipt().partition.model, reason);
    let outgoing = decode.call.with_body(original.alone());
    loop {
        chosen.computes_prompt();
        decode.is_sent(&chosen);
        let result = chosen.send(front, &outgoing, end).await;
        if let Some(verdict) = decode.judge(result) {
            return verdict;
        }
        chosen = match decode.decide(end).await {
            Ok(chosen) => chosen,
            Err(verdict) => return verdict,
        };
    }
}
