//! gRPC's health: whether requests that are sent here now can be picked for.
//!
//! What a gateway does with a picker that isn't ready (let requests pass, or refuse them) is the gateway's;
//! so this says no more than is so.

use std::pin::Pin;
use std::time::Duration;

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::SERVICE_NAME;
use futures_util::{Stream, stream};
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{self, SERVICE_NAME as HEALTH};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response};

use crate::admin;
use crate::app::App;

/// How often it is looked at for who watches.
const LOOKS: Duration = Duration::from_millis(500);

/// Whether the process lives, by the name that it has in the endpoint picker protocol.
const LIVENESS: &str = "liveness";

/// Services that are asked for: all there is, the names that gateways know pickers by, and the service.
const KNOWN: [&str; 5] = ["", "inference-extension", "readiness", LIVENESS, SERVICE_NAME];

/// Answers.
#[derive(Clone, Debug)]
pub(super) struct Health {
    app: App,
}

impl Health {
    /// The service's name.
    pub(super) const NAME: &str = HEALTH;

    pub(super) fn new(app: App) -> Self {
        Self { app }
    }

    async fn status(&self, service: &str) -> ServingStatus {
        if service == LIVENESS {
            return ServingStatus::Serving;
        }
        let app = self.app.clone();
        let ready = tokio::task::spawn_blocking(move || admin::is_ready(&app)).await;
        if matches!(ready, Ok(true)) { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    let status = health_check_response::ServingStatus::from(status);
    HealthCheckResponse { status: status.into() }
}

fn known(request: &HealthCheckRequest) -> Result<(), Status> {
    if KNOWN.contains(&&*request.service) {
        return Ok(());
    }
    let known = KNOWN.map(|name| format!("{name:?}")).join(", ");
    Err(Status::not_found(format!("no service has that name; known: {known}")))
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        known(request.get_ref())?;
        Ok(Response::new(answer(self.status(&request.get_ref().service).await)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        known(request.get_ref())?;
        let begin = (self.clone(), request.into_inner().service, None);
        let changes = stream::unfold(begin, async |(health, service, told)| {
            loop {
                // Who is told that the router stops isn't waited for.
                let is_told = told == Some(ServingStatus::NotServing) || service == LIVENESS;
                if is_told && health.app.draining.is_cancelled() {
                    return None;
                }
                let status = health.status(&service).await;
                if told != Some(status) {
                    return Some((Ok(answer(status)), (health, service, Some(status))));
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOKS) => {}
                    () = health.app.draining.cancelled() => {}
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
