//! What a partition's classifier has done, for display.

use serde::Serialize;

use crate::policy::Cause;

/// Counts since the partition began, and what is held now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassifierCounts {
    /// Requests that it was asked about, those that were offered to another instance again included.
    pub classified: u64,
    /// Requests that it admitted at once.
    pub admitted: u64,
    /// Requests that it held at first.
    pub held: u64,
    /// Requests that it held and admitted later.
    pub released: u64,
    /// Requests that it refused, at once or later.
    pub rejected: u64,
    /// Held requests that the host admitted because their due time came.
    pub due: u64,
    /// Held requests that the host admitted because the instance was lost, or there is none any more.
    pub let_go: u64,
    /// Requests that the host let pass, or refused, because an answer about them couldn't be used.
    pub unclassified: u64,
    /// Requests refused because another live one had their id.
    pub duplicates: u64,
    /// Times that the version before took the place of one that failed.
    pub stood_in: u64,
    /// Instances that were lost by a failure.
    pub lost: u64,
    /// Instances that were replaced because they had grown too large.
    pub recycled: u64,
    /// Failed calls by cause; none of them before the first.
    #[serde(skip)]
    pub failures: Vec<(Cause, u64)>,
    /// Requests that are held now.
    pub held_now: u64,
    /// Requests that have come and not ended.
    pub live_now: u64,
}

impl ClassifierCounts {
    pub(super) fn failed(&mut self, cause: Cause) {
        if self.failures.is_empty() {
            self.failures = Cause::ALL.into_iter().map(|cause| (cause, 0)).collect();
        }
        if let Some((_, count)) = self.failures.iter_mut().find(|(known, _)| *known == cause) {
            *count += 1;
        }
    }
}
