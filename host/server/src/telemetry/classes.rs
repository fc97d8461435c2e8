//! Requests that name a policy class that there isn't: counted by model, and told to the log.
//!
//! Such a name is as good as none, since a reload may have taken it away: the request isn't refused for
//! it. So that a slip of the pen is found all the same, it is counted. The name itself is no label, for it
//! comes from clients: the log has one of them, now and then.

use parking_lot::Mutex;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use prometheus::{IntCounterVec, Opts, Registry};

use super::metrics::{keep_models, registered};
use super::{Seldom, names};

/// The family, and the log's line.
#[derive(Debug)]
pub struct PolicyClasses {
    unknown: IntCounterVec,
    log: Mutex<Seldom>,
}

impl PolicyClasses {
    pub(super) fn new(registry: &Registry) -> Self {
        let unknown = Opts::new(
            names::UNKNOWN_POLICY_CLASSES,
            "Requests that named a policy class that there isn't, and got the default",
        );
        let unknown = registered(registry, IntCounterVec::new(unknown, &[names::MODEL]));
        Self { unknown, log: Mutex::default() }
    }

    pub(super) fn keep_models(&self, served: &impl Fn(&str) -> bool) {
        keep_models(&self.unknown, served);
    }

    /// A request has come: one that names no class, or one that there is, is nothing to tell.
    pub fn heed(&self, router: &Router, request: &RouteRequest, now_ms: u64) {
        let Some(named) = &request.admission.policy_class else { return };
        let model = &request.partition.model;
        let profile = router.queue_profile(model);
        // A model that nobody serves has no classes.
        if profile.has_choice(named) || router.partition(&request.partition).is_none() {
            return;
        }
        self.unknown.with_label_values(&[model]).inc();
        let told = self.log.lock().tell(now_ms);
        if let Some(times_before) = told {
            let policy_class = &**named;
            let known: Vec<&str> = profile.choices().map(|name| &**name).collect();
            let known = crate::config::listed(known.into_iter());
            tracing::warn!(
                %model, policy_class, known, taken = %profile.asked_for(Some(named)), times_before,
                "a request names a policy class that there isn't, and belongs to the default"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::ids::PartitionKey;

    use super::*;
    use crate::telemetry::Metrics;
    use crate::telemetry::names::UNKNOWN_POLICY_CLASSES;

    #[test]
    fn models_that_nobody_serves_and_requests_without_a_class_are_counted_nowhere() {
        let router = Router::new(pointsman_core::router::Policies::default(), 0);
        let partition = PartitionKey {
            model: "m".into(),
            routing_group: "default".into(),
            role: Default::default(),
        };
        let mut request = RouteRequest::new("r", partition, 1);
        let metrics = Metrics::new();
        metrics.classes().heed(&router, &request, 0);
        request.admission.policy_class = Some("bacth".into());
        metrics.classes().heed(&router, &request, 0);
        assert!(!metrics.encode().contains(&format!("{UNKNOWN_POLICY_CLASSES}{{")));
    }
}
