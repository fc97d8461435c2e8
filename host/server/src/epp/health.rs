//! gRPC's health: whether requests that are sent here now can be picked for.
//!
//! What a gateway does with a picker that isn't ready (let requests pass, or refuse them) is the gateway's;
//! so this says no more than is so.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::SERVICE_NAME;
use futures_util::{Stream, stream};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{self, SERVICE_NAME as HEALTH};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response};

use crate::admin;
use crate::app::App;

/// How often who watches is seen to. With [`FRESH`], nobody is told later than half a second.
const LOOKS: Duration = Duration::from_millis(400);

/// For how long one look at it does for all who watch: anybody may, as often as he likes.
const FRESH: Duration = Duration::from_millis(100);

/// Whether the process lives, by the name that it has in the endpoint picker protocol.
const LIVENESS: &str = "liveness";

/// Services that are asked for: all there is, the names that gateways know pickers by, and the service.
const KNOWN: [&str; 5] = ["", "inference-extension", "readiness", LIVENESS, SERVICE_NAME];

/// Answers.
#[derive(Clone, Debug)]
pub(super) struct Health {
    app: App,
    latest: Arc<Latest>,
}

/// The latest look.
#[derive(Debug, Default)]
struct Latest(Mutex<Option<(Instant, ServingStatus)>>);

impl Latest {
    /// What it has shown, if that was less than `fresh` ago; else what another shows, for which all wait who
    /// want it.
    async fn or(
        &self,
        fresh: Duration,
        look: impl Future<Output = ServingStatus>,
    ) -> ServingStatus {
        let mut latest = self.0.lock().await;
        if let Some((at, status)) = *latest
            && at.elapsed() < fresh
        {
            return status;
        }
        let status = look.await;
        *latest = Some((Instant::now(), status));
        status
    }
}

impl Health {
    /// The service's name.
    pub(super) const NAME: &str = HEALTH;

    pub(super) fn new(app: App) -> Self {
        Self { app, latest: Arc::default() }
    }

    async fn status(&self, service: &str) -> ServingStatus {
        if service == LIVENESS {
            return ServingStatus::Serving;
        }
        let app = self.app.clone();
        let ready = tokio::task::spawn_blocking(move || admin::is_ready(&app)).await;
        if matches!(ready, Ok(true)) { ServingStatus::Serving } else { ServingStatus::NotServing }
    }

    /// The same, for who watches.
    async fn watched(&self, service: &str) -> ServingStatus {
        match service {
            LIVENESS => ServingStatus::Serving,
            _ if self.app.draining.is_cancelled() => ServingStatus::NotServing,
            _ => self.latest.or(FRESH, self.status(service)).await,
        }
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
                let status = health.watched(&service).await;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn all_who_watch_share_one_look_while_it_is_fresh() {
        let (latest, looks) = (Latest::default(), AtomicU32::new(0));
        let look = || async {
            tokio::task::yield_now().await;
            looks.fetch_add(1, Ordering::Relaxed);
            ServingStatus::Serving
        };
        let hour = Duration::from_secs(3_600);
        let all = join_all((0..1_000).map(|_| latest.or(hour, look()))).await;
        assert!(all.iter().all(|status| *status == ServingStatus::Serving));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        latest.or(Duration::ZERO, look()).await;
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }
}
