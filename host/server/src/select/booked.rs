//! `POST /select_and_reserve`: a worker is chosen and booked, in one step that nothing comes between.
//!
//! Owns that a booking is reserved under its id before anybody is told of it, and not for longer if nobody
//! can be told.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use super::answer::Selection;
use super::ask::{Ask, Purpose, class_of};
use super::body::Told;
use super::choose::Chosen;
use super::error;
use super::front::Front;
use super::handed::{Untold, handed};
use super::selections::Company;
use crate::decisions::Made;
use crate::rest::{Json, RestError};

pub(super) async fn select_and_reserve(
    State(front): State<Front>,
    headers: HeaderMap,
    told: Told,
) -> Result<Response, RestError> {
    front.takes_new()?;
    let class = class_of(&headers)?;
    let ask = told.read(|body| front.ask(&body, class.as_ref(), Purpose::Reserve))?;
    let (selection, untold) = front.reserve_once(ask).await?;
    Ok(handed(Json(selection), vec![untold]).await)
}

impl Front {
    /// Selects and reserves for what is asked.
    pub(super) async fn reserve_once(&self, ask: Ask) -> Result<(Selection, Untold), RestError> {
        let (app, selections) = (&self.app, &self.app.selections);
        let id = ask.request.request_id.clone();
        // Else it would be decided in vain.
        if let Some(worker) = selections.worker_of(&id) {
            return Err(error::duplicate(&id, &worker));
        }
        let ready = self.ready(&ask).await?;
        let (partition, settings) = (ready.partition.clone(), app.dispatcher.router().settings());
        let Chosen { made, request, lifecycle, stay } = self.book(ready).await?;
        let Made { record, worker, lease, reporter } = made;
        let receipt = record.receipt();
        let Some(lease) = lease else { return Err(error::too_late()) };
        let (key, tokens) = (receipt.partition.clone(), receipt.prompt_tokens);
        let company = Company::of(key, &worker, tokens, lifecycle, reporter);
        company.sent(receipt.worker);
        let now_ms = app.dispatcher.clock().now_ms();
        let reserved = selections.reserve(id.clone(), lease, company, ask.lease, now_ms);
        let number = reserved.map_err(|refused| error::unreserved(&refused))?;
        let untold = Untold::new(selections.clone(), id.clone(), number);
        // Only what is reserved binds its session.
        selections.join((&id, number), stay.and_then(|stay| stay.started(receipt)), now_ms);
        let selection = Selection::of(&partition, &settings, &request, receipt, &worker);
        let mut selection = selection.booked(&request, &settings);
        if receipt.hosted {
            selection.track_prefill_tokens = Some(false);
        }
        selection.lease_ms = selections.view(&id, now_ms, |view, _| view.expiry_ms);
        selection.selection_id = Some(id);
        let receipt = ask.receipt.then(|| receipt.clone());
        Ok((selection.with(ask.ignored, receipt), untold))
    }
}
