//! What is particular to a try whose worker only computes the prompt, or whose prompt another computed.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::outcome::Ending;
use pointsman_core::receipt::Receipt;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{Answer, Attempt, Failed, worker_label};
use crate::openai::Front;
use crate::openai::stream::said;
use crate::openai::upstream::{Failure, Outgoing};

/// The longest answer to a prefill that is read: where a very long prompt's blocks are is far shorter.
const MOST_ANSWER: usize = 16 << 20;

/// A prefill that the answer is to tell of.
#[derive(Clone, Debug)]
pub(in crate::openai::proxy) struct Prefilled {
    /// Whose it was, as headers have it.
    pub(in crate::openai::proxy) worker: String,
    pub(in crate::openai::proxy) model: Arc<str>,
    /// How much of the prompt that worker was thought to have; none if nobody looked.
    pub(super) cached: Option<u64>,
}

impl Attempt {
    /// Who it is.
    pub(in crate::openai::proxy) fn spec(&self) -> &WorkerSpec {
        &self.spec
    }

    /// Prompt tokens that its worker was thought to have cached, as they were counted for the booking.
    pub(in crate::openai::proxy) fn cached_tokens(&self) -> u64 {
        let block_size = f64::from(self.spec.block_size.get());
        (self.receipt().overlap.effective_blocks * block_size).round() as u64
    }

    /// Whether anything of it went out.
    pub(in crate::openai::proxy) fn was_sent(&self) -> bool {
        self.booking.sent().has_begun()
    }

    /// Whether its worker said that it had too much to do, and did nothing.
    pub(in crate::openai::proxy) fn was_declined(&self) -> bool {
        self.status().is_some_and(|status| [429, 503, 529].contains(&status.as_u16()))
    }

    /// It is not to be sent after all.
    pub(in crate::openai::proxy) fn abandon(mut self) {
        self.booking.refused();
        if let Some(reporter) = self.reporter.take() {
            reporter.end(Ending::Cancelled);
        }
    }

    /// The worker that was chosen to decode computes the prompt as well.
    pub(in crate::openai::proxy) fn computes_prompt(&mut self) {
        let new = self.receipt().prompt_tokens.saturating_sub(self.cached_tokens());
        self.booking.prefill_added(new);
    }

    /// What the answer is to tell of this prefill.
    pub(in crate::openai::proxy) fn prefilled(&self) -> Prefilled {
        let receipt = self.receipt();
        let looked_for = self.record.prompt_source().is_some();
        Prefilled {
            worker: worker_label(&self.spec, receipt.worker),
            model: receipt.partition.model.clone(),
            cached: looked_for.then_some(receipt.predicted_cached_tokens),
        }
    }

    /// The answer of a prompt that another worker computed.
    pub(in crate::openai::proxy) fn after(self, prefilled: Prefilled) -> Self {
        Self { prefilled: Some(prefilled), ..self }
    }

    /// The answer while another worker may still be at the prompt.
    pub(in crate::openai::proxy) fn beside(self, accompanying: Accompanying) -> Self {
        Self { accompanying: Some(accompanying), ..self }
    }

    /// The answer of the prefill worker itself, which is none to the client's question.
    pub(in crate::openai::proxy) fn by_prefill_alone(self) -> Self {
        Self { is_prefill: true, ..self }
    }

    /// Whether it is a prefill that went well.
    pub(in crate::openai::proxy) fn has_prefilled(&self) -> bool {
        self.status().is_some_and(|status| status.is_success())
    }

    /// Sends a prefill, and waits for the whole answer.
    pub(in crate::openai::proxy) async fn prefill(
        self,
        front: &Front,
        outgoing: &Outgoing,
        end: Instant,
    ) -> Result<Self, Failed> {
        let leg = front.app.metrics.legs().prefill(&self.receipt().partition.model);
        let result = match self.send(front, outgoing, end).await {
            Ok(attempt) if attempt.has_prefilled() => attempt.read_whole(front, end).await,
            other => other,
        };
        leg.ends(match &result {
            Ok(attempt) if attempt.has_prefilled() => "completed",
            Ok(_) => "refused",
            Err(_) => "failed",
        });
        result
    }

    async fn read_whole(mut self, front: &Front, end: Instant) -> Result<Self, Failed> {
        let idle = front.app.config.proxy.idle_timeout;
        let Some(Answer { first, rest: Some(rest), .. }) = &mut self.answer else {
            return Ok(self);
        };
        let mut whole = Vec::new();
        let mut frame = first.take();
        let failure = loop {
            if let Some(data) = frame.as_ref().and_then(Frame::data_ref) {
                whole.extend_from_slice(data);
            }
            if whole.len() > MOST_ANSWER {
                break Some(Failure::Unusable("longer than an answer to a prefill may be"));
            }
            match timeout_at(end.min(Instant::now() + idle), rest.frame()).await {
                Ok(Some(Ok(next))) => frame = Some(next),
                Ok(None) => break None,
                Ok(Some(Err(error))) => break Some(Failure::Empty(error)),
                Err(_) => break Some(Failure::TimedOut),
            }
        };
        *first = Some(Frame::data(whole.into()));
        match failure {
            None => Ok(self),
            Some(failure) => {
                if let Some(reporter) = self.reporter.take() {
                    reporter.end(Ending::failed(failure.kind()));
                }
                Err(Failed { attempt: self, failure })
            }
        }
    }

    /// A prefill that went well is over: its booking goes back, and what there is to tell of it is
    /// told. Returns what the worker said.
    pub(in crate::openai::proxy) fn ends_prefill(self, front: &Front) -> (Prefilled, Bytes) {
        let prefilled = self.prefilled();
        let Self { record, booking, reporter, witness, answer, .. } = self;
        let answer = answer.and_then(|answer| answer.first?.into_data().ok()).unwrap_or_default();
        if let Some(mut lease) = booking.into_lease() {
            lease.prefill_done_at(front.app.dispatcher.clock().now_ms());
        }
        let usage = said([&*answer]).usage;
        if let Some(mut reporter) = reporter {
            reporter.first_token();
            let output_tokens = usage.completion_tokens.unwrap_or(1);
            reporter.end(Ending::Completed { output_tokens });
        }
        front.app.metrics.reported(&record, usage);
        if let Some(witness) = witness {
            if let Some(cached) = usage.cached_tokens {
                witness.had_cached(record.receipt(), cached);
            }
            witness.praise();
        }
        (prefilled, answer)
    }

    /// Computes the prompt while another worker is at the answer. None when it went well.
    pub(in crate::openai::proxy) async fn computes(
        self,
        front: &Front,
        outgoing: &Outgoing,
        end: Instant,
    ) -> Option<Ended> {
        match self.prefill(front, outgoing, end).await {
            Ok(attempt) if attempt.has_prefilled() => {
                attempt.ends_prefill(front);
                None
            }
            other => Some(Ended(Box::new(other))),
        }
    }
}

/// A prefill that didn't go well.
#[derive(Debug)]
pub(in crate::openai::proxy) struct Ended(
    pub(in crate::openai::proxy) Box<Result<Attempt, Failed>>,
);

/// A prefill beside the answer. It ends with this.
#[derive(Debug)]
pub(in crate::openai) struct Accompanying {
    running: JoinSet<Option<Ended>>,
}

impl Accompanying {
    pub(in crate::openai::proxy) fn new(running: JoinSet<Option<Ended>>) -> Self {
        Self { running }
    }

    /// The answer is whole: what is left of the prefill is no more than its own end, within its times.
    pub(in crate::openai) fn let_go(mut self) {
        self.running.detach_all();
    }

    /// Waits for its failure: for ever, if it goes well.
    pub(in crate::openai::proxy) async fn failed(&mut self) -> Ended {
        loop {
            match self.running.join_next().await {
                Some(Ok(Some(ended))) => return ended,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Whether it has failed, once the answer has begun. Its worker is blamed for that.
    pub(in crate::openai) fn poll_failed(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(Some(ended)) = self.running.poll_join_next(cx) {
            let Ok(Some(Ended(result))) = ended else { continue };
            let (mut attempt, why) = match *result {
                Ok(attempt) => (attempt, None),
                Err(Failed { attempt, failure }) => (attempt, failure.blames_worker()),
            };
            let Receipt { request_id, decision_id, .. } = attempt.receipt();
            tracing::warn!(
                %request_id,
                %decision_id,
                worker = %attempt.worker(),
                "a prefill failed after its answer had begun"
            );
            if let (Some(witness), Some(why)) = (attempt.witness.take(), why) {
                witness.blame(why);
            }
            attempt.tell_status();
            return true;
        }
        false
    }
}
