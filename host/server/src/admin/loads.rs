//! What every row carries.

use axum::extract::State;
use pointsman_core::ids::PartitionKey;
use pointsman_core::ledger::RowLoad;
use serde::Serialize;

use super::answer::Json;
use crate::app::App;

#[derive(Serialize)]
pub(super) struct Loads {
    partitions: Vec<PartitionLoads>,
}

#[derive(Serialize)]
struct PartitionLoads {
    #[serde(flatten)]
    partition: PartitionKey,
    /// Bookings that have not been given back, those on workers that left included.
    live_leases: u64,
    rows: Vec<RowLoad>,
}

pub(super) async fn loads(State(app): State<App>) -> Json<Loads> {
    let partitions = app.dispatcher.router().partitions();
    let loads = partitions.iter().map(|partition| PartitionLoads {
        partition: partition.key().clone(),
        live_leases: partition.ledger().live_leases(),
        rows: partition.ledger().loads(),
    });
    Json(Loads { partitions: loads.collect() })
}
