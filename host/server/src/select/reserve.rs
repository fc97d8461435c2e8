//! `POST /reservations`: a booking of what was selected before, or of what its owner has decided himself.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use pointsman_core::RouteError;
use pointsman_core::affinity::Bound;
use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::{DpRank, PartitionKey, WorkerId, WorkerRank};
use pointsman_core::outcome::OutcomeReporter;
use pointsman_core::partition::{DirectBooking, Partition};
use pointsman_core::request::RouteRequest;
use serde::Serialize;
use serde_json::Value;

use super::ask::{lease, overrides, request, told};
use super::body::Told;
use super::cached::Kept;
use super::error;
use super::front::Front;
use super::handed::{Untold, handed};
use super::prompt::{Input, Need, switch};
use super::reservations;
use super::selections::Company;
use crate::json::values;
use crate::json::{Fields, Problems};
use crate::rest::{Json, RestError};
use crate::stays;

/// What is to be reserved.
#[derive(Debug)]
struct Wanted {
    id: Arc<str>,
    request: RouteRequest,
    input: Input,
    /// None takes a kept selection.
    worker: Option<WorkerRank>,
    prefill_tokens: Option<u64>,
    lease: Option<Duration>,
}

/// A reservation, as it is told to whoever made it.
#[derive(Debug, Serialize)]
struct Made {
    selection_id: Arc<str>,
    model_name: Arc<str>,
    routing_group: Arc<str>,
    worker_id: WorkerId,
    dp_rank: DpRank,
    endpoint: String,
    effective_prefill_tokens: u64,
    lease_ms: u64,
}

pub(super) async fn create(State(front): State<Front>, body: Told) -> Result<Response, RestError> {
    front.takes_new()?;
    let wanted = body.read(|body| Wanted::read(&body)).map_err(|problems| told(&problems))?;
    let (made, untold) = front.create(wanted)?;
    Ok(handed((StatusCode::CREATED, Json(made)), vec![untold]).await)
}

impl Wanted {
    fn read(body: &Value) -> Result<Self, Problems> {
        let mut fields = Fields::of(body)?;
        let id = fields.required("selection_id", reservations::id);
        let worker_id = fields.optional("worker_id", values::id).flatten();
        let need = if worker_id.is_some() { Need::Booking } else { Need::Nothing };
        let (mut request, input) = request(&mut fields, need);
        let dp_rank = fields.optional("dp_rank", values::count).flatten().unwrap_or_default();
        overrides(&mut fields, &mut request, &mut Vec::new());
        request.expected_output_tokens =
            fields.optional("expected_output_tokens", values::count).flatten();
        let prefill_tokens = fields.optional("effective_prefill_tokens", values::whole).flatten();
        let tracks = fields.optional("track_prefill_tokens", switch).flatten();
        request.track_prefill_tokens = tracks.or(request.track_prefill_tokens);
        let lease = fields.optional("lease", lease).flatten();
        fields.finish()?;
        let id: Arc<str> = id.unwrap_or_default().into();
        request.request_id = id.clone();
        let worker = worker_id.map(|worker_id| WorkerRank { worker_id, dp_rank: DpRank(dp_rank) });
        Ok(Self { id, request, input, worker, prefill_tokens, lease })
    }
}

impl Front {
    /// The partition that a request is of.
    pub(super) fn partition(&self, key: &PartitionKey) -> Result<Arc<Partition>, RestError> {
        let found = self.app.dispatcher.router().partition(key);
        found.ok_or_else(|| error::undecided(&RouteError::NoPartition(key.clone()).into()))
    }

    fn create(&self, wanted: Wanted) -> Result<(Made, Untold), RestError> {
        let selections = &self.app.selections;
        // Else a selection would be used up in vain.
        if let Some(worker) = selections.worker_of(&wanted.id) {
            return Err(error::duplicate(&wanted.id, &worker));
        }
        match wanted.worker {
            Some(worker) => self.book_as_told(wanted, worker),
            None => self.book_as_selected(wanted),
        }
    }

    /// Books what its owner has decided.
    fn book_as_told(
        &self,
        wanted: Wanted,
        worker: WorkerRank,
    ) -> Result<(Made, Untold), RestError> {
        let (app, key) = (&self.app, wanted.request.partition.clone());
        let partition = self.partition(&key)?;
        let mut request = wanted.request;
        let size = partition.block_size();
        wanted.input.describe(&app.prompter, &key, size, &mut request);
        if let Some(tokens) = wanted.prefill_tokens
            && tokens > request.prompt_tokens
        {
            let isl = request.prompt_tokens;
            return Err(RestError::bad_request(format!(
                "effective_prefill_tokens is {tokens}; expected at most the prompt's {isl} tokens"
            )));
        }
        let kept = Booking { id: wanted.id, lease: wanted.lease, prefill: wanted.prefill_tokens };
        self.book_kept(kept, request, (worker, None), (None, None))
    }

    /// Books what was selected.
    fn book_as_selected(&self, wanted: Wanted) -> Result<(Made, Untold), RestError> {
        let (app, id) = (&self.app, wanted.id);
        let now_ms = app.dispatcher.clock().now_ms();
        let kept = app.selections.take_kept(&id, now_ms).ok_or_else(|| {
            error::no_selection(&id, "there is none, or it was booked, or its time is over")
        })?;
        if kept.request.partition != wanted.request.partition {
            let its = kept.request.partition.clone();
            app.selections.keep(id.clone(), kept, now_ms);
            return Err(error::no_selection(&id, &format!("it is of {its}")));
        }
        let Kept { request, worker, epoch, prefill_tokens, lifecycle, reporter } = kept;
        let booking = Booking { id, lease: wanted.lease, prefill: Some(prefill_tokens) };
        let request = Arc::unwrap_or_clone(request);
        self.book_kept(booking, request, (worker, Some(epoch)), (lifecycle, reporter))
    }

    fn book_kept(
        &self,
        booking: Booking,
        request: RouteRequest,
        at: (WorkerRank, Option<Epoch>),
        (lifecycle, reporter): Heard,
    ) -> Result<(Made, Untold), RestError> {
        let (app, selections) = (&self.app, &self.app.selections);
        let Booking { id, lease, prefill } = booking;
        let (router, now_ms) = (app.dispatcher.router(), app.dispatcher.clock().now_ms());
        let key = request.partition.clone();
        let partition = self.partition(&key)?;
        let booked = partition.book_directly(&request, &router.settings(), at, prefill, now_ms);
        let booked = booked.map_err(|refused| error::not_booked(&refused))?;
        let DirectBooking { lease: its, worker, epoch, prefill_tokens } = booked;
        let rank = at.0;
        let tokens = request.prompt_tokens;
        let company = Company::of(key.clone(), &worker, tokens, lifecycle, reporter);
        company.sent(rank);
        let reserved = selections.reserve(id.clone(), its, company, lease, now_ms);
        let number = reserved.map_err(|refused| error::unreserved(&refused))?;
        let untold = Untold::new(selections.clone(), id.clone(), number);
        let bound = Bound { worker: rank, epoch };
        let session = stays::belated(&app.dispatcher, &request, bound);
        selections.join((&id, number), session, now_ms);
        let lease_ms = selections.view(&id, now_ms, |view, _| view.expiry_ms);
        let made = Made {
            selection_id: id,
            model_name: key.model,
            routing_group: key.routing_group,
            worker_id: rank.worker_id,
            dp_rank: rank.dp_rank,
            endpoint: worker.endpoint.clone(),
            effective_prefill_tokens: prefill_tokens,
            lease_ms: lease_ms.unwrap_or_default(),
        };
        Ok((made, untold))
    }
}

/// Under which name something is booked, for how long, and with how many tokens to be computed.
#[derive(Debug)]
struct Booking {
    id: Arc<str>,
    lease: Option<Duration>,
    prefill: Option<u64>,
}

/// By these, others hear of it.
type Heard = (Option<Lifecycle>, Option<OutcomeReporter>);
