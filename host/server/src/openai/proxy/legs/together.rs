//! Both legs at once, as SGLang wants it: the two workers wait for each other.
//!
//! Owns the race of the two exchanges up to the answer's first byte. If one fails, the other is broken
//! off, and both are sent anew, each to whom its own tries allow. A prefill that goes on beyond that byte
//! accompanies the answer ([`Accompanying`]).

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use super::{Leg, Verdict};
use crate::openai::disaggregation::{Meeting, Original};
use crate::openai::error::ApiError;
use crate::openai::proxy::attempt::{Accompanying, Attempt, Ended};

/// Prompts of one request: each is told three times in its own words where the workers meet for it.
const MOST_PROMPTS: usize = 1_024;

pub(super) async fn share(
    mut decode: Leg<'_>,
    mut prefill: Leg<'_>,
    original: &Original,
    end: Instant,
) -> Verdict {
    let batch = original.batch();
    if let Some(prompts) = batch.filter(|prompts| *prompts > MOST_PROMPTS) {
        return Err(ApiError::bad_body(format!(
            "the body has {prompts} prompts, and two workers share at most {MOST_PROMPTS} of one \
             request; send fewer at once"
        )));
    }
    loop {
        let answering = match decode.decide(end).await {
            Ok(attempt) => attempt,
            Err(verdict) => return verdict,
        };
        let computing = match prefill.decide(end).await {
            Ok(attempt) => attempt,
            Err(verdict) => return verdict.map(Attempt::by_prefill_alone),
        };
        let (spec, rank) = (computing.spec(), computing.receipt().worker.dp_rank);
        let meeting = Meeting::at(spec, rank, batch);
        let body = |attempt: &Attempt| {
            let several = attempt.spec().data_parallel_size.get() > 1;
            let rank = several.then_some(attempt.receipt().worker.dp_rank);
            decode.call.with_body(original.sglang(&meeting, rank))
        };
        let (prefills, decodes) = (body(&computing), body(&answering));
        let prefilled = computing.prefilled();

        decode.is_sent(&answering);
        let mut running = JoinSet::new();
        let (front, span) = (decode.front.clone(), prefill.span.clone());
        let computed = async move { computing.computes(&front, &prefills, end).await };
        running.spawn(computed.instrument(span));
        let mut accompanying = Accompanying::new(running);

        let answered = answering.send(decode.front, &decodes, end);
        tokio::pin!(answered);
        let result = tokio::select! {
            // A prefill that failed is why the decode does, if both have.
            biased;
            ended = accompanying.failed() => Err(ended),
            answered = &mut answered => Ok(answered),
        };
        match result {
            Ok(answered) => {
                if let Some(verdict) = decode.judge(answered) {
                    return verdict.map(|attempt| attempt.after(prefilled).beside(accompanying));
                }
            }
            Err(Ended(result)) => {
                if let Some(verdict) = prefill.judge(*result) {
                    return verdict.map(Attempt::by_prefill_alone);
                }
            }
        }
    }
}
