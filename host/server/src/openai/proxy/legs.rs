//! A request on its way through two workers: one computes its prompt, the other its answer.
//!
//! Owns the order of the two legs and what follows from the failure of either. Both are decided and
//! booked before anything is sent, the answering worker first, so that no prompt is computed that
//! nobody is there for. The prefill's booking goes back when that leg ends; either goes back on every way
//! out, also when the client goes away and this future is dropped. Each leg is tried elsewhere by the
//! rules of [`Tries`], on its own account.
//!
//! A decode worker that failed may have fetched the prompt's blocks, and then they are gone: the next one
//! is sent a prompt that has been computed anew, which a prefill worker with the blocks in its cache
//! does at once.
//!
//! # Without a prefill worker
//!
//! Where the router's settings say so (`router_conditional_disagg`), a prompt that isn't worth a second
//! worker is computed by the one that was chosen to decode it: that very booking goes on.

mod bypass;
mod together;

use std::sync::Arc;

use http::header;
use pointsman_core::RouteError;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::disaggregation::{ConditionalDisagg, Protocol};
use pointsman_core::eligibility::Exclusions;
use pointsman_core::ids::DecisionId;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span, field};

use super::attempt::{Attempt, Failed, Prefilled};
use super::retry::Tries;
use super::session::Stay;
use super::{Call, Front, Sharing};
use crate::dispatch::DispatchError;
use crate::openai::disaggregation::{Original, handed_over};
use crate::openai::error::ApiError;
use crate::openai::upstream::Outgoing;
use crate::prompts::Prompt;

/// What the client gets.
type Verdict = Result<Attempt, ApiError>;

/// One of the two, with its tries.
#[derive(Debug)]
struct Leg<'a> {
    front: &'a Front,
    call: &'a Call,
    request: Arc<RouteRequest>,
    prompt: Prompt,
    pinned_by: Option<&'static str>,
    tries: Tries<'a>,
    /// The session's, whose requests go to one worker that answers; none for a prefill.
    stay: Option<Stay>,
    /// The last try's worker can't be had, whatever the session is bound to.
    lost: bool,
    /// By this, a request classifier hears where the request is sent; none for a prefill.
    lifecycle: Option<&'a Lifecycle>,
    /// The try of which it has heard.
    told: Option<DecisionId>,
    /// The prefill's own, so that the request's shows who answered.
    span: Span,
}

impl<'a> Leg<'a> {
    fn new(
        front: &'a Front,
        call: &'a Call,
        request: RouteRequest,
        prompt: Prompt,
        pinned_by: Option<&'static str>,
        span: Span,
    ) -> Self {
        let tries = Tries::new(front, call.route, &call.outgoing, &request);
        Self {
            front,
            call,
            request: request.into(),
            prompt,
            pinned_by,
            tries,
            stay: None,
            lost: false,
            lifecycle: None,
            told: None,
            span,
        }
    }

    /// The same, which keeps to its session, and whose classifier hears of it.
    async fn answering(
        mut self,
        lifecycle: Option<&'a Lifecycle>,
        end: Instant,
    ) -> Result<Self, ApiError> {
        let request = Arc::make_mut(&mut self.request);
        self.stay = Some(Stay::begin(self.front, request, self.pinned_by, end).await?);
        Ok(Self { lifecycle, ..self })
    }

    /// The request is sent now, of which this worker is to give the answer; again is nothing.
    fn is_sent(&mut self, to: &Attempt) {
        let receipt = to.receipt();
        if self.told.replace(receipt.decision_id) != Some(receipt.decision_id)
            && let Some(lifecycle) = self.lifecycle
        {
            lifecycle.sent(receipt.worker);
        }
    }

    /// Has the leg decided and booked; else what the client gets.
    async fn decide(&mut self, end: Instant) -> Result<Attempt, Verdict> {
        loop {
            if std::mem::take(&mut self.lost) {
                self.renew(end).await.map_err(Err)?;
            }
            let decided =
                Attempt::decide(self.front, self.call.route, self.request.clone(), &self.prompt);
            let decided = timeout_at(end, decided.instrument(self.span.clone())).await;
            let Ok(decided) = decided else { return Err(Err(self.front.decided_too_late())) };
            let stay = self.stay.as_ref();
            match decided {
                Ok(attempt) if stay.is_some_and(|it| it.lost_by_decision(attempt.receipt())) => {
                    self.lost = true;
                }
                Ok(attempt) => {
                    self.tries.go_on();
                    return Ok(attempt);
                }
                Err(error) if stay.is_some_and(|it| it.lost_by_error(&error)) => self.lost = true,
                Err(error) => {
                    let error = self.in_words(error);
                    let undecided = || Err(ApiError::undecided(&error, self.pinned_by));
                    return Err(self.tries.give_up().unwrap_or_else(undecided));
                }
            }
        }
    }

    async fn renew(&mut self, end: Instant) -> Result<(), ApiError> {
        match &mut self.stay {
            Some(stay) => stay.renew(self.front, Arc::make_mut(&mut self.request), end).await,
            None => Ok(()),
        }
    }

    /// The model is there, though no worker of this role is.
    fn in_words(&self, error: DispatchError) -> DispatchError {
        let error = match &self.stay {
            Some(stay) => stay.in_words(error, &self.request.partition),
            None => error,
        };
        match error {
            DispatchError::Route(RouteError::NoPartition(partition)) => {
                RouteError::NoEndpoints { partition, excluded: Exclusions::default() }.into()
            }
            error => error,
        }
    }

    /// Takes a try's result in. None when the leg is to be tried elsewhere.
    fn judge(&mut self, result: Result<Attempt, Failed>) -> Option<Verdict> {
        let worker = match &result {
            Ok(attempt) => attempt.worker(),
            Err(failed) => failed.attempt.worker(),
        };
        match self.tries.judge(result) {
            Some(mut verdict) => {
                if let Ok(attempt) = &mut verdict
                    && let Some(stay) = self.stay.take()
                {
                    stay.end(attempt);
                }
                Some(verdict)
            }
            None if self.stay.as_ref().is_some_and(|it| it.holds(self.tries.was_overload())) => {
                Some(self.tries.give_up().unwrap_or_else(|| Err(ApiError::internal())))
            }
            None => {
                Arc::make_mut(&mut self.request).constraints.tried.insert(worker);
                self.lost = true;
                None
            }
        }
    }
}

impl Call {
    /// Has two workers share it, until there is an answer to pass on.
    pub(super) async fn share(
        &self,
        front: &Front,
        sharing: &Sharing,
        lifecycle: Option<&Lifecycle>,
        end: Instant,
    ) -> Verdict {
        let Some(original) = Original::read(self.outgoing.body.clone()) else {
            return Err(ApiError::bad_body("the body is no JSON object; send one".to_owned()));
        };
        let settings = front.app.dispatcher.router().settings();
        let rule = settings.conditional_disagg;
        let conditional = rule.enabled && sharing.protocol == Protocol::Vllm;
        let mut answering = self.request.clone();
        answering.track_prefill_tokens = Some(false);
        answering.assume_kv_reuse = Some(false);
        // What a worker that only decodes has cached, nobody counts on.
        let prompt = if conditional { self.prompt.clone() } else { self.prompt.not_looked_for() };
        let decode = Leg::new(front, self, answering, prompt, self.pinned_by, Span::current());
        let mut decode = decode.answering(lifecycle, end).await?;
        let span = tracing::info_span!(
            "prefill",
            decision_id = field::Empty,
            policy = field::Empty,
            worker = field::Empty
        );
        let (mut request, pinned_by) = (sharing.prefill.clone(), sharing.pinned_by);
        // As its classifier has it.
        request.admission = self.request.admission.clone();
        let prefill = Leg::new(front, self, request, self.prompt.clone(), pinned_by, span);
        match sharing.protocol {
            Protocol::Sglang => together::share(decode, prefill, &original, end).await,
            Protocol::Vllm => {
                let chosen = match decode.decide(end).await {
                    Ok(chosen) => chosen,
                    Err(verdict) => return verdict,
                };
                let rule = conditional.then_some(rule);
                if rule.is_some_and(|rule| bypass::is_short(front, &rule, &chosen)) {
                    return bypass::alone(decode, chosen, "short", &original, end).await;
                }
                one_after_the_other(decode, chosen, prefill, &original, rule, end).await
            }
        }
    }

    /// The request as a leg sends it.
    fn with_body(&self, body: axum::body::Bytes) -> Outgoing {
        Outgoing { body, ..self.outgoing.clone() }
    }
}

/// The prefill first, then the decode.
async fn one_after_the_other(
    mut decode: Leg<'_>,
    mut chosen: Attempt,
    mut prefill: Leg<'_>,
    original: &Original,
    mut rule: Option<ConditionalDisagg>,
    end: Instant,
) -> Verdict {
    let front = decode.front;
    let mut prefills = decode.call.with_body(original.vllm_prefill());
    // It is read here.
    prefills.headers.remove(header::ACCEPT_ENCODING);
    loop {
        let attempt = match prefill.decide(end).await {
            Ok(attempt) => attempt,
            Err(verdict) => return verdict.map(Attempt::by_prefill_alone),
        };
        // Asked once: of the worker that would be picked.
        if let Some(rule) = rule.take()
            && bypass::is_busy(front, &rule, &attempt)
            && bypass::may_compute(front, &rule, &chosen)
        {
            attempt.abandon();
            return bypass::alone(decode, chosen, "prefill_busy", original, end).await;
        }
        let span = prefill.span.clone();
        decode.is_sent(&chosen);
        let result = attempt.prefill(front, &prefills, end).instrument(span).await;
        let attempt = match prefill.judge(result) {
            None => continue,
            Some(Ok(attempt)) if attempt.has_prefilled() => attempt,
            Some(verdict) => return verdict.map(Attempt::by_prefill_alone),
        };
        let (prefilled, answer) = attempt.ends_prefill(front);
        let params = handed_over(&answer).ok().flatten();
        front.app.metrics.legs().handed_over(&prefilled.model, params.is_some());
        if params.is_none() {
            tracing::debug!(
                worker = %prefilled.worker,
                "a prefill worker kept no blocks; the decode worker computes the prompt again: \
                 start both with a KV connector that hands over (`--kv-transfer-config`)"
            );
        }
        let decodes = decode.call.with_body(original.vllm_decode(params));
        chosen = match decoded(&mut decode, chosen, &decodes, &prefilled, end).await {
            Next::Over(verdict) => return verdict,
            Next::Again(chosen) => chosen,
        };
    }
}

/// How it goes on after a prefill.
enum Next {
    /// The client gets this.
    Over(Verdict),
    /// Another decode worker is to have a prompt that is computed anew.
    Again(Attempt),
}

/// Sends the decode, to another worker too as long as the prompt's blocks are surely where they were.
async fn decoded(
    decode: &mut Leg<'_>,
    mut chosen: Attempt,
    outgoing: &Outgoing,
    prefilled: &Prefilled,
    end: Instant,
) -> Next {
    loop {
        decode.is_sent(&chosen);
        let result = chosen.send(decode.front, outgoing, end).await;
        let untouched = match &result {
            Ok(attempt) => attempt.was_declined(),
            Err(failed) => !failed.attempt.was_sent(),
        };
        if let Some(verdict) = decode.judge(result) {
            return Next::Over(verdict.map(|attempt| attempt.after(prefilled.clone())));
        }
        chosen = match decode.decide(end).await {
            Ok(chosen) => chosen,
            Err(verdict) => {
                return Next::Over(verdict.map(|attempt| attempt.after(prefilled.clone())));
            }
        };
        if !untouched {
            return Next::Again(chosen);
        }
    }
}
