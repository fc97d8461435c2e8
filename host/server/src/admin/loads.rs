//! What every row carries.

use axum::extract::State;
use axum::response::Response;
use pointsman_core::admission::ClassReport;
use pointsman_core::ids::PartitionKey;
use pointsman_core::ledger::RowLoad;
use serde::Serialize;

use crate::app::App;
use crate::rest::{Json, RestError, aside};

#[derive(Serialize)]
struct Loads {
    partitions: Vec<PartitionLoads>,
}

#[derive(Serialize)]
struct PartitionLoads {
    #[serde(flatten)]
    partition: PartitionKey,
    /// Bookings that have not been given back, those on workers that left included.
    live_leases: u64,
    /// What waits in each class, before it is booked anywhere.
    pending: Vec<ClassReport>,
    rows: Vec<RowLoad>,
}

pub(super) async fn loads(State(app): State<App>) -> Result<Response, RestError> {
    aside(move || {
        let now_ms = app.dispatcher.clock().now_ms();
        let partitions = app.dispatcher.router().partitions();
        let loads = partitions.iter().map(|partition| PartitionLoads {
            partition: partition.key().clone(),
            live_leases: partition.ledger().live_leases(),
            pending: app.dispatcher.classes(partition.key()),
            rows: partition.ledger().loads_at(now_ms),
        });
        Ok(Json(Loads { partitions: loads.collect() }))
    })
    .await
}
