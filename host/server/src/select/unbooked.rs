//! `POST /select`: a worker is chosen, and nothing booked.
//!
//! Owns what is kept of a selection that has an id, for whoever books it later. What the decision booked is
//! given back before the partition makes the next one.

use std::sync::Arc;

use axum::extract::State;
use http::HeaderMap;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::outcome::OutcomeReporter;
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use serde_json::Value;

use super::answer::{Selection, tracks};
use super::ask::{Ask, Purpose, class_of};
use super::body::Told;
use super::cached::Kept;
use super::choose::{Advice, Chosen};
use super::error;
use super::front::Front;
use crate::decisions::Made;
use crate::rest::{Json, RestError};
use crate::telemetry::Record;

/// A decision, by which nothing is booked.
#[derive(Debug)]
struct Selected {
    request: Arc<RouteRequest>,
    receipt: Arc<Receipt>,
    worker: Arc<WorkerSpec>,
    lifecycle: Option<Lifecycle>,
    reporter: Option<OutcomeReporter>,
}

impl From<Advice> for Selected {
    fn from(advice: Advice) -> Self {
        let Advice { worker, receipt, request } = advice;
        Self { request, receipt: Arc::new(receipt), worker, lifecycle: None, reporter: None }
    }
}

impl From<Chosen<Released>> for Selected {
    fn from(chosen: Chosen<Released>) -> Self {
        let Chosen { made, request, lifecycle, .. } = chosen;
        let Released { record, worker, reporter } = made;
        Self { request, receipt: record.receipt().clone(), worker, lifecycle, reporter }
    }
}

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
    told: Told,
) -> Result<Json<Selection>, RestError> {
    front.takes_new()?;
    let class = class_of(&headers)?;
    let ask = told.read(|body| front.ask(&body, class.as_ref(), Purpose::Select))?;
    front.select_once(ask).await.map(Json)
}

impl Front {
    /// What a body asks.
    pub(super) fn ask(
        &self,
        body: &Value,
        class: Option<&Arc<str>>,
        purpose: Purpose,
    ) -> Result<Ask, RestError> {
        Ask::read(body, class, purpose, self.app.dispatcher.clock().now_ms())
    }

    /// Selects for what is asked.
    pub(super) async fn select_once(&self, ask: Ask) -> Result<Selection, RestError> {
        let app = &self.app;
        if let Some(id) = &ask.selection_id
            && let Some(worker) = app.selections.worker_of(id)
        {
            return Err(error::duplicate(id, &worker));
        }
        let ready = self.ready(&ask).await?;
        let (partition, settings) = (ready.partition.clone(), app.dispatcher.router().settings());
        let selected: Selected = match ask.advisory {
            true => self.advise(ready).await?.into(),
            false => self.select(ready, Released::from).await?.into(),
        };
        let Selected { request, receipt, worker, lifecycle, reporter } = selected;
        let now_ms = app.dispatcher.clock().now_ms();
        let mut selection = Selection::of(&partition, &settings, &request, &receipt, &worker);
        if ask.advisory {
            selection = selection.advice(&partition, &settings, &worker, now_ms);
        }
        if let Some(id) = ask.selection_id {
            let charged = tracks(&request, &settings) && !receipt.hosted;
            let kept = Kept {
                request,
                worker: receipt.worker,
                epoch: receipt.epoch,
                prefill_tokens: if charged { selection.effective_prefill_tokens } else { 0 },
                lifecycle,
                reporter,
            };
            app.selections.keep(id.clone(), kept, now_ms);
            selection.selection_id = Some(id);
        }
        Ok(selection.with(ask.ignored, ask.receipt.then_some(receipt)))
    }
}
