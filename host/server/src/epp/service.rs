//! The gRPC services on the listener, and what all conversations share.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer, SERVICE_NAME,
};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse};
use futures_util::{Stream, stream};
use hyper::body::Incoming;
use pointsman_core::ids::WorkerId;
use tonic::{Status, Streaming};
use tonic_health::pb::health_server::HealthServer;
use tower::ServiceExt;

use super::arrival::Arrival;
use super::conversation::Conversation;
use super::destination::Destinations;
use super::health::Health;
use super::subset;
use crate::app::App;
use crate::bearer;
use crate::bodies::Room;
use crate::openai::{Pick, Picks, Refused};
use crate::serve::Answers;

/// A message has a body of at most this much more than the body itself.
const AROUND: usize = 1 << 20;

/// What conversations share.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) picks: Picks,
    app: App,
    destinations: Destinations,
}

impl Office {
    /// The workers at these endpoints.
    pub(super) fn named(&self, endpoints: &[String]) -> BTreeSet<WorkerId> {
        subset::named(endpoints, &self.app.dispatcher.router().workers())
    }

    /// Where a picked worker is reached.
    pub(super) async fn reached(&self, pick: Pick) -> Result<(Pick, SocketAddr), Refused> {
        match self.destinations.of(pick.endpoint()).await {
            Some(address) => Ok((pick, address)),
            None => Err(pick.leads_nowhere()),
        }
    }

    /// A request was picked for, so long after all of it was there, and with so much work.
    pub(super) fn picked(&self, answered: Duration, own: Duration) {
        self.app.metrics.epp().picked(answered, own);
    }

    /// A request got no worker.
    pub(super) fn refused(&self, refused: &Refused) {
        self.app.metrics.epp().refused(refused.kind);
    }

    /// Another endpoint may have answered than was picked. Its load stays where it was booked.
    pub(super) fn compare(&self, picked: &str, served: &str) {
        if picked != served {
            self.app.metrics.epp().mismatched();
            tracing::warn!(picked, served, "the gateway sent a request elsewhere");
        }
    }
}

/// Answers gateways. One is made for each stream, and costs no more than a word.
#[derive(Clone, Debug)]
pub(crate) struct Gateways(Arc<Services>);

#[derive(Debug)]
struct Services {
    processor: ExternalProcessorServer<Processor>,
    health: HealthServer<Health>,
    /// For messages that aren't whole yet: they are no bodies yet, and don't take from theirs.
    room: Room,
    app: App,
}

impl Gateways {
    /// Over what the listeners share. Call it where there is a runtime.
    pub(crate) fn new(app: App) -> Self {
        let proxy = &app.config.proxy;
        let room = Room::new(proxy.body_budget, app.metrics.epp().body_bytes());
        let most = proxy.max_body.saturating_add(AROUND);
        let arriving = Room::new(proxy.body_budget, app.metrics.epp().body_bytes());
        let picks = Picks::new(app.clone(), room);
        let office = Office { picks, app: app.clone(), destinations: Destinations::default() };
        let processor = ExternalProcessorServer::new(Processor(Arc::new(office)));
        let processor = processor.max_decoding_message_size(most);
        let health = HealthServer::new(Health::new(app.clone()));
        Self(Arc::new(Services { processor, health, room: arriving, app }))
    }
}

impl Services {
    /// Whether who asks may have picks made. Whether there is anybody to pick is nobody's secret.
    fn opens(&self, request: &http::Request<Incoming>) -> bool {
        let tokens = self.app.config.epp.as_ref().map(|epp| &*epp.listener.tokens);
        bearer::opens(tokens.unwrap_or_default(), request.headers())
    }
}

impl Answers for Gateways {
    /// A decision that takes its time is made on a thread of its own.
    const IN_ONE_TASK: bool = true;

    async fn answer(self, request: http::Request<Incoming>) -> Response {
        let Self(services) = self;
        let service = request.uri().path().trim_start_matches('/').split('/').next();
        let answered = match service {
            Some(SERVICE_NAME) if !services.opens(&request) => {
                let status = Status::unauthenticated(
                    "a token is needed; send authorization: Bearer and one of the picker's tokens",
                );
                return status.into_http::<Body>();
            }
            Some(SERVICE_NAME) => {
                let patience = services.app.config.proxy.client_timeout;
                let room = services.room.clone();
                let arrival = request.map(|body| Arrival::new(body, room, patience));
                services.processor.clone().oneshot(arrival).await
            }
            Some(Health::NAME) => services.health.clone().oneshot(request).await,
            _ => {
                let words = "nothing of that name is served; see host/server/ENDPOINT-PICKER.md";
                return Status::unimplemented(words).into_http::<Body>();
            }
        };
        let answer = answered.unwrap_or_else(|never| match never {});
        answer.map(Body::new)
    }
}

/// Takes streams.
#[derive(Debug)]
struct Processor(Arc<Office>);

#[tonic::async_trait]
impl ExternalProcessor for Processor {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        let began = self.0.app.metrics.epp().begin();
        let conversation = Conversation::new(self.0.clone(), request.into_inner());
        let replies = stream::unfold((conversation, began), async |(mut conversation, began)| {
            let reply = conversation.next().await?;
            Some((reply, (conversation, began)))
        });
        Ok(tonic::Response::new(Box::pin(replies)))
    }
}
