//! What an exchange shows of its worker, told to who keeps the workers.
//!
//! Owns which outcomes speak for a worker, which against it, and which say nothing. What follows of
//! it, and when, is the keeper's.
//!
//! | outcome | says of the worker |
//! |---|---|
//! | a whole answer below 500 but 429, an error event with a code below 500 included | it is well: what it refuses, it has read |
//! | 500, 502, 503, 504, 520 to 528, 530 to 599 | it failed |
//! | 529 and 429 | nothing: it has too much to do, or one client has too much of it, which is another matter |
//! | other answers of 500 and more | nothing: what was asked for can't be had anywhere |
//! | closed, garbled, or silent before the first byte | it failed |
//! | broken off, silent or in error after it | it failed |
//! | no connection | nothing here: it is unhealthy at once |
//! | the client went away, or the whole request took too long | nothing |
//!
//! A request that breaks engines is tried elsewhere, too: of all its tries, only the first failure
//! is told.

use std::sync::Arc;

use http::StatusCode;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::WorkerId;
use pointsman_core::receipt::Receipt;
use tokio::time::Instant;

use crate::discovery::WorkerKeeper;

/// Tells of one exchange, once at most.
#[derive(Debug)]
pub(super) struct Witness {
    workers: Arc<WorkerKeeper>,
    worker: WorkerId,
    epoch: Epoch,
    began: Instant,
    may_blame: bool,
}

impl Witness {
    /// Of an exchange that begins now.
    pub(super) fn new(workers: Arc<WorkerKeeper>, receipt: &Receipt) -> Self {
        Self {
            workers,
            worker: receipt.worker.worker_id,
            epoch: receipt.epoch,
            began: Instant::now(),
            may_blame: true,
        }
    }

    /// Whatever fails from here on is thought to be the request's own fault.
    pub(super) fn excuse(&mut self) {
        self.may_blame = false;
    }

    /// The engine says how much of the prompt it had cached.
    pub(super) fn had_cached(&self, receipt: &Receipt, tokens: u64) {
        self.workers.had_cached(&receipt.partition, tokens);
    }

    /// It ended well.
    pub(super) fn praise(self) {
        self.workers.answered_well(self.worker, self.epoch, self.began);
    }

    /// It failed. Returns whether that was told.
    pub(super) fn blame(self, why: &str) -> bool {
        if self.may_blame {
            self.workers.failed(self.worker, self.epoch, self.began, why);
        }
        self.may_blame
    }
}

/// What an answer's status alone says of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// That depends on how the answer ends.
    Open,
    /// It failed.
    Failed,
    /// Nothing.
    Nothing,
}

impl Verdict {
    pub(super) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            429 | 529 => Self::Nothing,
            ..500 => Self::Open,
            500 | 502..=504 | 520..=599 => Self::Failed,
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_the_engines_fault_counts_and_what_it_says_of_its_load_does_not() {
        for (statuses, verdict) in [
            (&[200, 204, 302, 400, 404, 422][..], Verdict::Open),
            (&[500, 502, 503, 504, 520, 524, 528, 530, 599][..], Verdict::Failed),
            (&[429, 501, 505, 507, 508, 511, 519, 529, 600, 999][..], Verdict::Nothing),
        ] {
            for &status in statuses {
                let status = StatusCode::from_u16(status).unwrap_or_default();
                assert_eq!(Verdict::of(status), verdict, "{status}");
            }
        }
    }
}
