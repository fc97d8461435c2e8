//! Decisions that count: made, booked, and told to all who keep count, by whichever door their requests
//! came.
//!
//! Owns what is done with a decision before its partition makes the next one: it is counted and
//! remembered, and left to those who record or only watch. It doesn't know how a request is served.

use std::sync::Arc;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ledger::Lease;
use pointsman_core::outcome::OutcomeReporter;
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;

use crate::app::App;
use crate::dispatch::DispatchError;
use crate::prompts::{Prompt, beyond};
use crate::telemetry::Record;
use crate::tokens::Source;

/// A decision that was made and booked, and counted.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) record: Arc<Record>,
    /// The worker as registered.
    pub(crate) worker: Arc<WorkerSpec>,
    /// The booking.
    pub(crate) lease: Option<Lease>,
    /// By this, what becomes of it is told to policies that learn; none if none does.
    pub(crate) reporter: Option<OutcomeReporter>,
}

impl Made {
    /// The decision.
    pub(crate) fn receipt(&self) -> &Receipt {
        self.record.receipt()
    }
}

/// Has a request decided and booked. `then` is done before the partition's next decision, so that
/// records have the decisions' order; and whether or not somebody waits for it still, so that they have
/// all.
pub(crate) async fn decide<T: Send + 'static>(
    app: &App,
    request: Arc<RouteRequest>,
    prompt: &Prompt,
    then: impl FnOnce(Made) -> T + Send + 'static,
) -> Result<T, DispatchError> {
    let mode = app.recorder.mode();
    let request_id = request.request_id.clone();
    let hop = request.constraints.tried.len();
    let (source, prompts) = (prompt.source.map(Source::label), prompt.prompts);
    let shared_hits = prompt.shared_hits.clone();
    let its = app.clone();
    let made = move |decision: Decision, queued_ms: Option<u64>| {
        let Decision { worker, receipt, lease, reporter, sample } = decision;
        let shared = shared_hits.map(|hits| beyond(&hits, receipt.overlap.device_blocks));
        let record = Record::new(receipt.into(), source, prompts);
        let record = record.with_shared_blocks(shared).with_hop(hop);
        let record = Arc::new(record.with_queued(queued_ms));
        its.metrics.decided(record.clone());
        if let Some(sample) = sample {
            its.afterwards.take(sample, record.clone(), mode == Mode::Record);
        }
        then(Made { record, worker, lease, reporter })
    };
    let decided = app.dispatcher.decide_then(request, mode, made).await;
    decided.inspect_err(|error| match error {
        // Somebody has answered it already, or failed to.
        _ if hop > 0 => {}
        DispatchError::Route(error) => app.metrics.undecided(error.kind()),
        DispatchError::Abandoned(why) => {
            tracing::error!(%request_id, why, "a decision was abandoned");
            app.metrics.undecided("abandoned");
        }
    })
}
