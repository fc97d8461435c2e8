//! What a classifier answers.

use crate::request::WorkerTarget;

/// What an admitted request goes on with; `None` leaves things as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// Another class: one of [`ClassifierEnvironment::policy_classes`](super::ClassifierEnvironment).
    pub policy_class: Option<String>,
    /// Another due time.
    pub due_at_ms: Option<u64>,
    /// Another charge; never zero.
    pub scheduling_cost_tokens: Option<u64>,
    /// The worker that it should go to: policies see it as `affinity_target`. Nothing to pinned
    /// requests.
    pub selection_target: Option<WorkerTarget>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the queue.
    Admit(Admission),
    /// It waits.
    Hold,
    /// It is refused; the text goes to the operator's log.
    Reject(String),
}

impl Verdict {
    /// It goes to the queue as it is.
    pub fn admit() -> Self {
        Self::Admit(Admission::default())
    }

    /// Whether it goes to the queue.
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admit(_))
    }
}

/// A held request's new verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Which.
    pub request_id: String,
    /// What; [`Verdict::Hold`] leaves it where it is.
    pub verdict: Verdict,
}

/// The held requests that an event releases, in the order in which they are given.
#[derive(Debug, Default)]
pub struct Releases(pub(super) Vec<Release>);

impl Releases {
    /// Admits a held request as it is.
    pub fn admit(&mut self, request_id: impl Into<String>) {
        self.give(request_id, Verdict::admit());
    }

    /// Admits held requests as they are.
    pub fn admit_all<I: Into<String>>(&mut self, request_ids: impl IntoIterator<Item = I>) {
        request_ids.into_iter().for_each(|id| self.admit(id));
    }

    /// Admits a held request with something changed.
    pub fn admit_with(&mut self, request_id: impl Into<String>, admission: Admission) {
        self.give(request_id, Verdict::Admit(admission));
    }

    /// Refuses a held request.
    pub fn reject(&mut self, request_id: impl Into<String>, why: impl Into<String>) {
        self.give(request_id, Verdict::Reject(why.into()));
    }

    fn give(&mut self, request_id: impl Into<String>, verdict: Verdict) {
        self.0.push(Release { request_id: request_id.into(), verdict });
    }
}
