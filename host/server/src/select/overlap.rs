//! What the workers of a model hold of a prompt, rank by rank and tier by tier, in blocks.

use axum::extract::State;
use axum::response::Response;
use pointsman_core::cache::{RowOverlap, shared_beyond};
use pointsman_core::ids::WorkerRank;
use pointsman_core::policy::RouterSettings;
use pointsman_core::policy::settings::SharedCacheType;
use pointsman_core::request::RouteRequest;
use serde::Serialize;

use super::body::Told;
use super::front::Front;
use crate::prompts::Prompt;
use crate::rest::{Json, RestError, aside};
use crate::tokens::Source;

/// What all hold.
#[derive(Debug, Serialize)]
struct Scores {
    block_size: u32,
    /// Whole blocks that were looked for.
    num_blocks: usize,
    workers: Vec<Score>,
    shared_cache: Shared,
}

/// What one rank holds.
#[derive(Debug, Serialize)]
struct Score {
    #[serde(flatten)]
    worker: WorkerRank,
    device_blocks: u64,
    /// With those on the device, and the next with those in the host's memory: what tiers hold adds up.
    host_pinned_blocks: u64,
    disk_blocks: u64,
    /// Beyond the tier before.
    host_pinned_extension_blocks: u64,
    disk_extension_blocks: u64,
    /// None where the shared cache wasn't asked, or didn't answer.
    shared_beyond_device_blocks: Option<u64>,
    /// What they are worth by the router's settings.
    router_credit_blocks: f64,
}

/// What the cache holds that all workers share.
#[derive(Debug, Serialize)]
struct Shared {
    enabled: bool,
    total_hit_blocks: u64,
    ranges: Vec<[u32; 2]>,
    error: Option<&'static str>,
}

pub(super) async fn scores(State(front): State<Front>, told: Told) -> Result<Response, RestError> {
    let (partition, request) = told.read(|body| front.asked_about(&body))?;
    let block_size = partition.block_size();
    let asked = Prompt {
        chain: request.chain.clone(),
        block_size,
        source: Some(Source::Client),
        ..Prompt::default()
    };
    let hits = front.app.shared_cache.ask_anyway(&asked).hits().await;
    aside(move || {
        let settings = front.app.dispatcher.router().settings();
        let snapshot = partition.ledger().snapshot();
        let held = partition.cache().overlaps(&settings, &request.chain, &snapshot);
        let beyond = |held: &RowOverlap| {
            let device = u32::try_from(held.device_blocks).unwrap_or(u32::MAX);
            hits.as_ref().map(|hits| shared_beyond(hits, device))
        };
        let workers = snapshot.rows.iter().zip(held);
        let workers =
            workers.map(|(&worker, held)| Score::of(worker, &held, beyond(&held), &settings));
        Ok(Json(Scores {
            block_size,
            num_blocks: request.chain.len(),
            workers: workers.collect(),
            shared_cache: Shared::of(&request, hits.as_deref(), &settings),
        }))
    })
    .await
}

impl Score {
    fn of(
        worker: WorkerRank,
        held: &RowOverlap,
        shared: Option<u64>,
        settings: &RouterSettings,
    ) -> Self {
        let (device, host) = (held.device_blocks, held.host_blocks);
        let disk = held.disk_blocks + held.external_blocks;
        let lower = held.effective_blocks - device as f64;
        let credit = settings.overlap_score_credit * device as f64
            + lower
            + settings.shared_cache_multiplier * shared.unwrap_or_default() as f64;
        Self {
            worker,
            device_blocks: device,
            host_pinned_blocks: device + host,
            disk_blocks: device + host + disk,
            host_pinned_extension_blocks: host,
            disk_extension_blocks: disk,
            shared_beyond_device_blocks: shared,
            router_credit_blocks: credit,
        }
    }
}

impl Shared {
    fn of(
        request: &RouteRequest,
        hits: Option<&[std::ops::Range<u32>]>,
        settings: &RouterSettings,
    ) -> Self {
        let enabled = settings.shared_cache_type != SharedCacheType::None;
        let unanswered = enabled && hits.is_none() && !request.chain.is_empty();
        let hits = hits.unwrap_or_default();
        Self {
            enabled,
            total_hit_blocks: shared_beyond(hits, 0),
            ranges: hits.iter().map(|hit| [hit.start, hit.end]).collect(),
            error: unanswered.then_some("the shared cache wasn't asked, or didn't answer in time"),
        }
    }
}
