//! What becomes of a request that comes to a line, before anything is done about it.
//!
//! Owns the order of the reasons for which it passes, waits or is refused: for those who come, and for
//! whoever only asks. It doesn't know what is done then.

use std::sync::Arc;

use serde::Serialize;

use super::{Found, Line, Site, overdue};
use crate::error::RouteError;
use crate::queue::{ClassSpec, Pending, Terms};
use crate::request::RouteRequest;

/// What would become of a request that came now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Foreseen {
    /// The class that it belongs to.
    pub policy_class: Arc<str>,
    /// `passes` or `waits`, or the kind of the error that it would get.
    pub outcome: &'static str,
    /// What waits in its class.
    pub pending: Pending,
}

/// What becomes of a request, as far as the line goes.
pub(super) enum Prospect<'s> {
    Passes,
    Waits(Wait<'s>),
}

/// On which terms it has to wait.
pub(super) struct Wait<'s> {
    pub(super) spec: &'s ClassSpec,
    pub(super) terms: Terms,
    /// Whether it is first in its lane.
    pub(super) leads: bool,
    pub(super) workers: u64,
}

impl<T> Line<T> {
    /// What would become of a request if it came now: nobody is told, and nothing is counted.
    pub fn foresee(&mut self, site: &Site<'_>, request: &RouteRequest, found: &Found) -> Foreseen {
        self.heed(site.profile);
        let policy_class = site.profile.class(found.class).map(|class| class.name.clone());
        let pending = self.queue.pending().nth(found.class);
        let outcome = match self.prospect(site, request, found, true) {
            Ok(Prospect::Passes) => "passes",
            Ok(Prospect::Waits(_)) => "waits",
            Err(error) => error.kind(),
        };
        Foreseen {
            policy_class: policy_class.unwrap_or_default(),
            outcome,
            pending: pending.map(|(_, pending)| pending).unwrap_or_default(),
        }
    }

    /// What becomes of a request, before anything is done about it.
    pub(super) fn prospect<'s>(
        &self,
        site: &Site<'s>,
        request: &RouteRequest,
        found: &Found,
        settled: bool,
    ) -> Result<Prospect<'s>, RouteError> {
        let class = found.class;
        if let Some(error) = overdue(request, site.now_ms) {
            return Err(error);
        }
        let (Some(spec), Some(terms)) = (site.profile.class(class), found.terms) else {
            return Ok(Prospect::Passes);
        };
        let leads = settled && self.queue.leads(class, &terms);
        if leads && !found.busy {
            return Ok(Prospect::Passes);
        }
        if request.admission.do_not_queue {
            let (partition, policy_class) = (request.partition.clone(), spec.name.clone());
            return Err(RouteError::DoNotQueue { partition, policy_class });
        }
        let workers = site.partition.ledger().read(|books| books.snapshot.workers.len()) as u64;
        if let Some(rejected) = self.queue.refuses(class, workers) {
            let partition = request.partition.clone();
            return Err(RouteError::QueueRejected { partition, rejected });
        }
        Ok(Prospect::Waits(Wait { spec, terms, leads, workers }))
    }
}
