//! The receipt of a decision: what was decided, by whom, from what.

use super::Attempt;
use crate::cache::{CacheView, RowOverlap};
use crate::clock::Stopwatch;
use crate::eligibility::Eligibility;
use crate::fleet::Epoch;
use crate::ids::WorkerRank;
use crate::policy::failure::StageFailure;
use crate::policy::pipeline::{Pipeline, Selected};
use crate::policy::view::RequestView;
use crate::receipt::{Receipt, RowReport};

/// A choice that was made.
pub(super) struct Made<'a> {
    /// By whom.
    pub(super) pipeline: &'a Pipeline,
    /// Whose failure he stands in for.
    pub(super) fallback: Option<StageFailure>,
    /// What.
    pub(super) selected: Selected,
    /// Who that is.
    pub(super) rank: WorkerRank,
    /// Which life of him.
    pub(super) epoch: Epoch,
    /// What he holds of the prompt.
    pub(super) overlap: RowOverlap,
    /// His active blocks with this request's.
    pub(super) potential_decode_blocks: u64,
}

impl Attempt<'_> {
    pub(super) fn receipt(
        &self,
        view: &RequestView<'_>,
        eligible: &Eligibility,
        caches: &CacheView,
        made: Made<'_>,
        watch: &Stopwatch,
    ) -> Receipt {
        let Made { pipeline, fallback, selected, rank, epoch, overlap, potential_decode_blocks } =
            made;
        let tokens = |blocks: u64| blocks.saturating_mul(u64::from(view.block_size));
        let kept = pipeline.kept().iter().filter_map(|&at| eligible.rows.get(at as usize).copied());
        Receipt {
            decision_id: self.decision_id,
            request_id: self.request.request_id.clone(),
            partition: self.partition.key.clone(),
            policy: pipeline.label(),
            fallback,
            worker: rank,
            epoch,
            cost: selected.cost,
            prompt_tokens: self.request.prompt_tokens,
            prompt_tokens_exact: self.request.prompt_tokens_exact,
            request_blocks: view.request_blocks,
            potential_decode_blocks,
            overlap,
            predicted_cached_tokens: overlap.usable_tokens(view.prompt_tokens, view.block_size),
            selected_raw_cached_tokens: tokens(overlap.raw_blocks()),
            max_raw_cached_tokens: caches.most_raw_blocks(kept).map(tokens),
            hosted: false,
            eligible: eligible.rows.len() as u32,
            kept: selected.kept as u32,
            excluded: eligible.excluded,
            stages: pipeline.trace().iter().cloned().collect(),
            micros: watch.micros(),
            now_ms: self.moment.now_ms,
            seed: self.moment.seed,
            fleet_generation: self.snapshot.generation,
            rows: self.reports().then(|| self.row_reports(pipeline, &eligible.rows, caches)),
        }
    }

    fn row_reports(
        &self,
        pipeline: &Pipeline,
        eligible: &[u32],
        caches: &CacheView,
    ) -> Vec<RowReport> {
        let reports = pipeline.rows().filter_map(|(at, cost)| {
            let row = *eligible.get(at)? as usize;
            let worker = *self.snapshot.rows.get(row)?;
            Some(RowReport {
                worker,
                kept: cost.is_some(),
                cost,
                overlap: caches.row(row).unwrap_or_default(),
            })
        });
        reports.collect()
    }
}
