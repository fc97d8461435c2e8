//! What every row carries.

use axum::extract::State;
use axum::response::Response;
use pointsman_core::admission::ClassReport;
use pointsman_core::ids::PartitionKey;
use pointsman_core::ledger::RowLoad;
use serde::Serialize;

use super::answer::Json;
use super::aside::aside;
use super::error::AdminError;
use crate::app::App;

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

pub(super) async fn loads(State(app): State<App>) -> Result<Response, AdminError> {
    aside(move || {
        let partitions = app.dispatcher.router().partitions();
        let loads = partitions.iter().map(|partition| PartitionLoads {
            partition: partition.key().clone(),
            live_leases: partition.ledger().live_leases(),
            pending: app.dispatcher.classes(partition.key()),
            rows: partition.ledger().loads(),
        });
        Ok(Json(Loads { partitions: loads.collect() }))
    })
    .await
}
