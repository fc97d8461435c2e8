//! What every rank carries, and what it would carry with a prompt.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use pointsman_core::admission::ClassReport;
use pointsman_core::ids::Role;
use pointsman_core::partition::{Partition, PotentialLoad};
use pointsman_core::request::RouteRequest;
use serde::Serialize;
use serde_json::Value;

use super::ask::{overrides, request, told};
use super::body::Told;
use super::front::Front;
use super::prompt::Need;
use super::workers::Filter;
use crate::json::Fields;
use crate::rest::{Json, RestError, aside};

/// The load of one partition.
#[derive(Debug, Serialize)]
struct PartitionLoads {
    model_name: Arc<str>,
    routing_group: Arc<str>,
    role: Role,
    loads: Vec<PotentialLoad>,
    /// Requests that wait, and their prompts' tokens.
    pending_count: u64,
    pending_isl_tokens: u64,
}

pub(super) async fn loads(
    State(front): State<Front>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, RestError> {
    let filter = Filter::of(filter)?;
    aside(move || {
        let dispatcher = &front.app.dispatcher;
        let (settings, now_ms) = (dispatcher.router().settings(), dispatcher.clock().now_ms());
        let partitions = dispatcher.router().partitions();
        let partitions = partitions
            .iter()
            .filter(|one| filter.takes(&one.key().model, &one.key().routing_group));
        let loads = partitions.map(|partition| {
            let key = partition.key();
            // Without a prompt, what there is.
            let nothing = RouteRequest::new("loads", key.clone(), 0);
            let pending = dispatcher.classes(key);
            let sum = |of: fn(&ClassReport) -> u64| pending.iter().map(of).sum();
            PartitionLoads {
                model_name: key.model.clone(),
                routing_group: key.routing_group.clone(),
                role: key.role,
                loads: partition.potential_loads(&nothing, &settings, now_ms),
                pending_count: sum(|class| class.pending.requests),
                pending_isl_tokens: sum(|class| class.pending.isl_tokens),
            }
        });
        Ok(Json(loads.collect::<Vec<_>>()))
    })
    .await
}

pub(super) async fn potential(
    State(front): State<Front>,
    told: Told,
) -> Result<Response, RestError> {
    aside(move || {
        let (partition, request) = told.read(|body| front.asked_about(&body))?;
        let dispatcher = &front.app.dispatcher;
        let (settings, now_ms) = (dispatcher.router().settings(), dispatcher.clock().now_ms());
        Ok(Json(partition.potential_loads(&request, &settings, now_ms)))
    })
    .await
}

impl Front {
    /// A prompt that somebody asks about, in its partition.
    pub(super) fn asked_about(
        &self,
        body: &Value,
    ) -> Result<(Arc<Partition>, RouteRequest), RestError> {
        let read = Fields::of(body).and_then(|mut fields| {
            let (mut request, input) = request(&mut fields, Need::Caches);
            overrides(&mut fields, &mut request, &mut Vec::new());
            fields.finish().map(|()| (request, input))
        });
        let (mut request, input) = read.map_err(|problems| told(&problems))?;
        let key = request.partition.clone();
        let partition = self.partition(&key)?;
        input.describe(&self.app.prompter, &key, partition.block_size(), &mut request);
        Ok((partition, request))
    }
}
