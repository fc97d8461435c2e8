//! What is counted of the selection service.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::metrics::registered;
use super::names::selections as names;

/// The families. What is reserved and kept counts itself.
#[derive(Debug)]
pub struct SelectionMetrics {
    requests: IntCounterVec,
    body_bytes: IntGauge,
    reservations: IntGauge,
    expired: IntCounter,
    abandoned: IntCounter,
    kept: IntGauge,
    dropped: IntCounterVec,
}

impl SelectionMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help));
        let counter = |name, help| registered(registry, IntCounter::new(name, help));
        let by = |name, help, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        Self {
            requests: by(names::REQUESTS, "Requests to the selection service", &["path", "status"]),
            body_bytes: gauge(
                names::BODY_BYTES,
                "Bytes of request bodies that the selection service holds",
            ),
            reservations: gauge(names::RESERVATIONS, "Reservations whose load is booked"),
            expired: counter(
                names::EXPIRED,
                "Reservations of which nobody spoke for as long as their lease",
            ),
            abandoned: counter(
                names::ABANDONED,
                "Reservations given back because their client had gone before it could be told of them",
            ),
            kept: gauge(names::KEPT, "Selections that can be booked by their id"),
            dropped: by(
                names::DROPPED,
                "Selections that can't be booked any more, by why",
                &["reason"],
            ),
        }
    }

    /// A request was answered, on a path that there is or on `unknown`.
    pub fn answered(&self, path: &str, status: &str) {
        self.requests.with_label_values(&[path, status]).inc();
    }

    /// Shows the memory that request bodies take; for who keeps them.
    #[must_use]
    pub fn body_bytes(&self) -> IntGauge {
        self.body_bytes.clone()
    }

    /// Shows how many reservations there are; for who keeps them.
    #[must_use]
    pub fn reservations(&self) -> IntGauge {
        self.reservations.clone()
    }

    /// Shows how many selections are kept; for who keeps them.
    #[must_use]
    pub fn kept(&self) -> IntGauge {
        self.kept.clone()
    }

    /// So many reservations have expired.
    pub fn expired(&self, reservations: usize) {
        self.expired.inc_by(reservations as u64);
    }

    /// A reservation was given back of which nobody could be told.
    pub fn abandoned(&self) {
        self.abandoned.inc();
    }

    /// So many selections are kept no longer: their time is over, or others have their place.
    pub fn dropped(&self, reason: &'static str, selections: usize) {
        self.dropped.with_label_values(&[reason]).inc_by(selections as u64);
    }
}
