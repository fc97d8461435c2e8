//! `POST /select`: a worker is chosen, and nothing booked.
//!
//! Owns what is kept of a selection that has an id, for whoever books it later. What the decision booked is
//! given back before the partition makes the next one.

use std::sync::Arc;

use axum::extract::State;
use http::HeaderMap;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::outcome::OutcomeReporter;
use serde_json::Value;

use super::answer::{Selection, tracks};
use super::ask::{Ask, Purpose};
use super::body::Told;
use super::cached::Kept;
use super::choose::Ready;
use super::error;
use super::front::Front;
use crate::admin::{AdminError, Json};
use crate::decisions::Made;
use crate::telemetry::Record;

/// A decision whose booking has been given back.
#[derive(Debug)]
struct Released {
    record: Arc<Record>,
    worker: Arc<WorkerSpec>,
    reporter: Option<OutcomeReporter>,
}

impl From<Made> for Released {
    fn from(made: Made) -> Self {
        let Made { record, worker, lease, reporter } = made;
        if let Some(mut lease) = lease {
            lease.prompt_refused();
        }
        Self { record, worker, reporter }
    }
}

pub(super) async fn select(
    State(front): State<Front>,
    headers: HeaderMap,
    Told(body): Told,
) -> Result<Json<Selection>, AdminError> {
    front.takes_new()?;
    front.select_once(&body, &headers).await.map(Json)
}

impl Front {
    /// Selects for what a body asks.
    pub(super) async fn select_once(
        &self,
        body: &Value,
        headers: &HeaderMap,
    ) -> Result<Selection, AdminError> {
        let app = &self.app;
        let ask = Ask::read(body, headers, Purpose::Select, app.dispatcher.clock().now_ms())?;
        if let Some(id) = &ask.selection_id
            && let Some(worker) = app.selections.worker_of(id)
        {
            return Err(error::duplicate(id, &worker));
        }
        let ready = self.ready(&ask).await?;
        let (partition, settings) = (ready.partition.clone(), app.dispatcher.router().settings());
        if ask.advisory {
            return self.advice(ask, ready).await;
        }
        let chosen = self.select(ready, Released::from).await?;
        let Released { record, worker, reporter } = chosen.made;
        let (receipt, request) = (record.receipt(), chosen.request);
        let mut selection = Selection::of(&partition, &settings, &request, receipt, &worker);
        if let Some(id) = ask.selection_id {
            let charged = tracks(&request, &settings) && !receipt.hosted;
            let kept = Kept {
                request,
                worker: receipt.worker,
                epoch: receipt.epoch,
                prefill_tokens: if charged { selection.effective_prefill_tokens } else { 0 },
                lifecycle: chosen.lifecycle,
                reporter,
            };
            app.selections.keep(id.clone(), kept, app.dispatcher.clock().now_ms());
            selection.selection_id = Some(id);
        }
        let receipt = ask.receipt.then(|| receipt.clone());
        Ok(selection.with(ask.ignored, receipt))
    }

    async fn advice(&self, ask: Ask, ready: Ready) -> Result<Selection, AdminError> {
        let app = &self.app;
        let (partition, settings) = (ready.partition.clone(), app.dispatcher.router().settings());
        let advice = self.advise(ready).await?;
        let (request, receipt) = (advice.request, Arc::new(advice.receipt));
        let selection = Selection::of(&partition, &settings, &request, &receipt, &advice.worker);
        let now_ms = app.dispatcher.clock().now_ms();
        let mut selection = selection.advice(&partition, &settings, &advice.worker, now_ms);
        if let Some(id) = ask.selection_id {
            let charged = tracks(&request, &settings);
            let kept = Kept {
                request,
                worker: receipt.worker,
                epoch: receipt.epoch,
                prefill_tokens: if charged { selection.effective_prefill_tokens } else { 0 },
                lifecycle: None,
                reporter: None,
            };
            app.selections.keep(id.clone(), kept, now_ms);
            selection.selection_id = Some(id);
        }
        let receipt = ask.receipt.then_some(receipt);
        Ok(selection.with(ask.ignored, receipt))
    }
}
