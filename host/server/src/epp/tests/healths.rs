//! Whether the picker says that it can pick only when it can.

use pointsman_core::fleet::Availability;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::gateway::Gateway;

const NAMES: [&str; 4] =
    ["", "inference-extension", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"];

fn asks(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn says(gateway: &Gateway) -> Vec<ServingStatus> {
    let mut client = HealthClient::new(gateway.channel.clone());
    let mut said = Vec::new();
    for name in NAMES {
        said.push(client.check(asks(name)).await.unwrap().into_inner().status());
    }
    said
}

#[tokio::test]
async fn the_picker_serves_while_a_worker_is_ready() {
    let gateway = Gateway::new().await;
    assert_eq!(says(&gateway).await, [ServingStatus::Serving; 4]);
    let router = gateway.server.app().dispatcher.router().clone();
    for worker in router.workers() {
        router.set_availability(worker.spec.worker_id, Availability::Unhealthy).unwrap();
    }
    assert_eq!(says(&gateway).await, [ServingStatus::NotServing; 4]);
    let unknown = HealthClient::new(gateway.channel.clone()).check(asks("another")).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
    let nobody = Gateway::with(|config| config.workers.clear()).await;
    assert_eq!(says(&nobody).await, [ServingStatus::NotServing; 4]);
    let alive = HealthClient::new(nobody.channel.clone()).check(asks("liveness")).await.unwrap();
    assert_eq!(alive.into_inner().status(), ServingStatus::Serving);
}

#[tokio::test]
async fn who_watches_is_told_of_each_change_and_let_go_when_the_picker_stops() {
    let Gateway { server, channel } = Gateway::new().await;
    let mut client = HealthClient::new(channel);
    let mut changes = client.watch(asks("")).await.unwrap().into_inner();
    let next = changes.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::Serving);
    let watches = async {
        let next = changes.message().await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing);
        assert!(changes.message().await.is_ok_and(|more| more.is_none()));
    };
    tokio::join!(server.shutdown(), watches);
}
