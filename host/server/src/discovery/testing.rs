//! What tests of those who list workers have in common.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::collections::BTreeSet;
use std::time::Duration;

use pointsman_core::fleet::{Availability, Worker};

use crate::config::{Config, DiscoveryConfig};
use crate::serve::Server;
use crate::serve::testing::config;

const PATIENCE: Duration = Duration::from_secs(20);

/// A router without workers of its own.
pub(super) async fn following(discovery: DiscoveryConfig) -> Server {
    Server::start(Config { discovery, ..config::<&str>(&[]) }, None).await.unwrap()
}

/// Endpoints of the workers that stay.
pub(super) fn endpoints(server: &Server) -> BTreeSet<String> {
    let stays = |worker: &Worker| worker.availability != Availability::Draining;
    let workers = server.app().dispatcher.router().workers();
    workers.into_iter().filter(stays).map(|worker| worker.spec.endpoint.clone()).collect()
}

/// Waits until these are the endpoints.
pub(super) async fn becomes(server: &Server, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|one| (*one).to_owned()).collect();
    until(
        || endpoints(server) == wanted,
        || format!("{:?} instead of {wanted:?}", endpoints(server)),
    )
    .await;
}

/// Waits for something.
pub(super) async fn until(is_so: impl Fn() -> bool, else_told: impl Fn() -> String) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, wait).await;
    assert!(came.is_ok(), "{}", else_told());
}
