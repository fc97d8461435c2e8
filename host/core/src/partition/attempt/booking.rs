//! What a decision books on the chosen row.

use super::Attempt;
use crate::cache::RowOverlap;
use crate::ledger::{Charge, Growth, Lease, PromptBlocks};
use crate::policy::view::RequestView;

impl Attempt<'_> {
    pub(super) fn book(
        &self,
        row: usize,
        view: &RequestView<'_>,
        overlap: &RowOverlap,
    ) -> Option<Lease> {
        // What is cached isn't computed.
        let cached = (overlap.effective_blocks * f64::from(view.block_size)).round() as u64;
        let prefill = view.prompt_tokens.saturating_sub(cached);
        let prefill_tokens = if view.tracks_prefill_tokens { prefill } else { 0 };
        let model = self.settings.router_prefill_load_model;
        let grows =
            self.settings.router_track_active_blocks && self.settings.router_track_output_blocks;
        let expected = view.expected_output_tokens;
        let charge = Charge {
            prefill_tokens,
            prefill_ms: model.and_then(|model| model.duration_ms(prefill_tokens)),
            prompt: self.prompt_blocks(view),
            growth: grows.then(|| Growth::new(view.prompt_tokens, view.block_size, expected)),
        };
        self.partition.ledger.book(&self.snapshot, row, charge, self.moment.now_ms)
    }

    /// The blocks that are booked for the prompt.
    pub(super) fn prompt_blocks(&self, view: &RequestView<'_>) -> PromptBlocks<'_> {
        let (request, settings) = (self.request, self.settings);
        if !settings.router_track_active_blocks {
            PromptBlocks::default()
        } else if request.assume_kv_reuse.unwrap_or(settings.router_assume_kv_reuse) {
            PromptBlocks::shared(&request.chain, view.request_blocks)
        } else {
            PromptBlocks::own(view.request_blocks)
        }
    }

    /// The chosen row's blocks with this request's, booked or not.
    pub(super) fn potential_decode_blocks(
        &self,
        row: usize,
        view: &RequestView<'_>,
        lease: Option<&Lease>,
    ) -> u64 {
        let prompt = self.prompt_blocks(view);
        let potential = match lease {
            Some(lease) => lease.potential_decode_blocks(),
            None => self
                .partition
                .ledger
                .read(|books| books.potential_decode_blocks(&self.snapshot, row, &prompt)),
        };
        // Where blocks aren't booked, the request's are all that is known.
        potential.saturating_add(view.request_blocks.saturating_sub(prompt.count()))
    }
}
