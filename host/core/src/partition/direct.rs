//! Bookings that somebody else has decided, and what they would come to.
//!
//! Owns what a partition does for callers who choose the worker themselves, or chose it a while ago: the
//! same is charged as for a decision, and the prompt counts as cached as if the policy had sent it there.
//! No policy is asked and no rule of eligibility is held up to it: what runs somewhere is counted there.
//! It doesn't know for how long the booking lasts.

use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::Partition;
use super::attempt::booking::{charge, prompt_blocks};
use crate::cache::RowOverlap;
use crate::fleet::{Epoch, Snapshot, Worker, WorkerSpec};
use crate::ids::WorkerRank;
use crate::ledger::Lease;
use crate::policy::settings::RouterSettings;
use crate::request::RouteRequest;

/// Why nothing was booked.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DirectError {
    /// No such worker is here.
    #[error("worker {0} isn't there; name one that is registered")]
    NoWorker(WorkerRank),
    /// The worker has no such rank.
    #[error("worker {} has no rank {}; name one that it has", .0.worker_id, .0.dp_rank)]
    NoRank(WorkerRank),
    /// The worker that was meant has begun anew since.
    #[error("worker {0} has begun anew since it was selected; select again")]
    AnotherLife(WorkerRank),
}

/// A booking.
#[derive(Debug)]
pub struct DirectBooking {
    /// It. Dropping it gives the load back.
    pub lease: Lease,
    /// The worker as registered.
    pub worker: Arc<WorkerSpec>,
    /// The life of the worker that it is booked on.
    pub epoch: Epoch,
    /// Prompt tokens that were booked as to be computed; 0 where they aren't counted.
    pub prefill_tokens: u64,
}

/// What a row would carry with a prompt, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PotentialLoad {
    /// Which.
    #[serde(flatten)]
    pub worker: WorkerRank,
    /// Prompt tokens of requests without a first token, with those of the prompt that it hasn't cached.
    pub potential_prefill_tokens: u64,
    /// KV blocks of all active requests, with those of the prompt that aren't among them.
    pub potential_decode_blocks: u64,
    /// Requests that it carries, without this one.
    pub active_requests: u64,
}

impl Partition {
    /// Books a request on a rank, in whichever life of its worker, or only in the one that is given.
    /// `prefill_tokens` are to be computed there, whatever the settings track; none is what the rank
    /// hasn't cached, if prompts are tracked.
    pub fn book_directly(
        &self,
        request: &RouteRequest,
        settings: &RouterSettings,
        (at, epoch): (WorkerRank, Option<Epoch>),
        prefill_tokens: Option<u64>,
        now_ms: u64,
    ) -> Result<DirectBooking, DirectError> {
        loop {
            let snapshot = self.ledger.snapshot();
            let (row, worker) = find(&snapshot, at, epoch)?;
            let block_size = worker.spec.block_size.get();
            let tracks = request.track_prefill_tokens;
            let uncached = || {
                let held = self.cache.row(settings, at, &request.chain);
                held.uncached_tokens(request.prompt_tokens, block_size)
            };
            let prefill_tokens = match prefill_tokens {
                Some(given) => given,
                None if tracks.unwrap_or(settings.router_track_prefill_tokens) => uncached(),
                None => 0,
            };
            let charge = charge(request, settings, block_size, prefill_tokens);
            // The fleet has changed meanwhile: a look at how it is now says what of that.
            let Some(mut lease) = self.ledger.book(&snapshot, row, charge, now_ms) else {
                continue;
            };
            let (chain, capacity) = (&request.chain, worker.spec.total_kv_blocks);
            let place = (at, worker.epoch);
            lease.accompany(self.cache.record(settings, place, chain, capacity, now_ms));
            lease.predict();
            let (worker, epoch) = (worker.spec.clone(), worker.epoch);
            return Ok(DirectBooking { lease, worker, epoch, prefill_tokens });
        }
    }

    /// What each row would carry if it got a request, in row order. Nothing is decided or booked.
    #[must_use]
    pub fn potential_loads(
        &self,
        request: &RouteRequest,
        settings: &RouterSettings,
        now_ms: u64,
    ) -> Vec<PotentialLoad> {
        let snapshot = self.ledger.snapshot();
        let block_size = self.block_size();
        let held = self.cache.overlaps(settings, &request.chain, &snapshot);
        let blocks = request.prompt_tokens.div_ceil(u64::from(block_size.max(1)));
        let prompt = prompt_blocks(request, settings, blocks);
        let tracks = request.track_prefill_tokens;
        let tracks = tracks.unwrap_or(settings.router_track_prefill_tokens);
        self.ledger.read_at(now_ms, |books| {
            let rows = snapshot.rows.iter().zip(&held).enumerate();
            let load = |(row, (&worker, held)): (usize, (&WorkerRank, &RowOverlap))| {
                let new = held.uncached_tokens(request.prompt_tokens, block_size);
                let row_now = books.find(&snapshot, row).map(|row| row as usize);
                let left = row_now.map_or(0.0, |row| books.prefill_left(row, now_ms)) as u64;
                PotentialLoad {
                    worker,
                    potential_prefill_tokens: left.saturating_add(if tracks { new } else { 0 }),
                    potential_decode_blocks: books.potential_decode_blocks(&snapshot, row, &prompt),
                    active_requests: row_now.map_or(0, |row| books.active_requests(row)),
                }
            };
            rows.map(load).collect()
        })
    }
}

/// A rank's row and worker, if that lives the life that is meant.
fn find(
    snapshot: &Snapshot,
    at: WorkerRank,
    epoch: Option<Epoch>,
) -> Result<(usize, &Worker), DirectError> {
    let worker = snapshot.worker_by_id(at.worker_id).ok_or(DirectError::NoWorker(at))?;
    if epoch.is_some_and(|epoch| epoch != worker.epoch) {
        return Err(DirectError::AnotherLife(at));
    }
    let row = snapshot.row_of(at).ok_or(DirectError::NoRank(at))?;
    Ok((row, worker))
}
