//! Workers that a request names, instead of leaving the choice to the router.
//!
//! Two may be named: who answers, and who computes the prompt if that is another. An id that is for
//! either (`nvext.backend_instance_id`) is the answering one's until somebody knows what that worker does:
//! see [`Pin::is_for_either`].

use pointsman_core::ids::{DpRank, WorkerId, WorkerTarget};

use super::body::{BACKEND, NvExt};
use super::headers::Headers;
use crate::openai::error::ApiError;

/// A worker that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::openai) struct Pin {
    /// It, with its rank if that is named too.
    pub(in crate::openai) target: WorkerTarget,
    /// The header or field that says so.
    pub(in crate::openai) by: &'static str,
    /// The rank to take should it be the prefill worker.
    pub(super) prefill_rank: Option<DpRank>,
}

impl Pin {
    /// Whether it is the worker's role that says what it is to do.
    pub(in crate::openai) fn is_for_either(&self) -> bool {
        self.by == BACKEND
    }

    /// The same worker for the prompt.
    pub(in crate::openai) fn for_prefill(self) -> Self {
        let dp_rank = self.prefill_rank.or(self.target.dp_rank);
        Self { target: WorkerTarget { dp_rank, ..self.target }, ..self }
    }
}

/// Who is to answer, and who is to compute the prompt.
pub(super) fn read(
    headers: &Headers<'_>,
    nvext: &NvExt<'_>,
) -> Result<(Option<Pin>, Option<Pin>), ApiError> {
    let worker = match headers
        .first_number("a worker's id", &["x-dynamo-worker-instance-id", "x-worker-instance-id"])?
    {
        Some((name, id)) => Some((name, WorkerId(id))),
        None => nvext.worker()?,
    };
    let names = ["x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"];
    let rank = match headers.first_number("a data-parallel rank", &names)? {
        Some((name, rank)) => Some((name, rank)),
        None => nvext.rank()?,
    };
    let prefill = match headers.first_number("a worker's id", &["x-dynamo-prefill-instance-id"])? {
        Some((name, id)) => Some((name, WorkerId(id))),
        None => nvext.prefill_worker()?,
    };
    let names = ["x-dynamo-prefill-dp-rank"];
    let prefill_rank = match headers.first_number("a data-parallel rank", &names)? {
        Some((name, rank)) => Some((name, rank)),
        None => nvext.prefill_rank()?,
    };
    // What clients send that have a field for it and nothing to put there.
    let said = |rank: Option<(&'static str, u32)>| rank.filter(|&(_, rank)| rank != u32::MAX);
    let (rank, prefill_rank) = (said(rank), said(prefill_rank));
    let nobodys = |(name, rank): (&'static str, u32), header: &str| {
        let message = format!(
            "{name} is {rank}, but no worker is named; name one in {header}, or leave the rank to \
             the router"
        );
        ApiError::bad_value(name, message)
    };
    if let (None, Some(rank)) = (worker, rank) {
        return Err(nobodys(rank, "x-dynamo-worker-instance-id"));
    }
    let either = worker.filter(|(name, _)| *name == BACKEND);
    if let (None, None, Some(rank)) = (prefill, either, prefill_rank) {
        return Err(nobodys(rank, "x-dynamo-prefill-instance-id"));
    }
    let rank_of = |rank: Option<(&'static str, u32)>| rank.map(|(_, rank)| DpRank(rank));
    let pin = |(by, worker_id): (&'static str, WorkerId), rank| Pin {
        target: WorkerTarget { worker_id, dp_rank: rank_of(rank) },
        by,
        prefill_rank: rank_of(prefill_rank),
    };
    Ok((worker.map(|worker| pin(worker, rank)), prefill.map(|worker| pin(worker, prefill_rank))))
}
