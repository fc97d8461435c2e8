//! What is booked on a row: by a decision on the chosen one, and by whoever has decided himself.

use super::Attempt;
use crate::cache::RowOverlap;
use crate::ledger::{Charge, Growth, Lease, PromptBlocks};
use crate::policy::settings::RouterSettings;
use crate::policy::view::RequestView;
use crate::request::RouteRequest;

impl Attempt<'_> {
    pub(super) fn book(
        &self,
        row: usize,
        view: &RequestView<'_>,
        overlap: &RowOverlap,
    ) -> Option<Lease> {
        let prefill = overlap.uncached_tokens(view.prompt_tokens, view.block_size);
        let prefill_tokens = if view.tracks_prefill_tokens { prefill } else { 0 };
        let charge = charge(self.request, self.settings, view.block_size, prefill_tokens);
        self.partition.ledger.book(&self.snapshot, row, charge, self.moment.now_ms)
    }

    /// The blocks that are booked for the prompt.
    pub(super) fn prompt_blocks(&self, view: &RequestView<'_>) -> PromptBlocks<'_> {
        prompt_blocks(self.request, self.settings, view.request_blocks)
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

/// What a request adds to its row, of whose prompt so many tokens are to be computed there.
pub(in crate::partition) fn charge<'a>(
    request: &'a RouteRequest,
    settings: &RouterSettings,
    block_size: u32,
    prefill_tokens: u64,
) -> Charge<'a> {
    let blocks = request.prompt_tokens.div_ceil(u64::from(block_size.max(1)));
    let grows = settings.router_track_active_blocks && settings.router_track_output_blocks;
    let expected = request.expected_output_tokens;
    let model = settings.router_prefill_load_model;
    Charge {
        prefill_tokens,
        prefill_ms: model.and_then(|model| model.duration_ms(prefill_tokens)),
        prompt: prompt_blocks(request, settings, blocks),
        growth: grows.then(|| Growth::new(request.prompt_tokens, block_size, expected)),
    }
}

/// The blocks that are booked for a prompt of so many.
pub(in crate::partition) fn prompt_blocks<'a>(
    request: &'a RouteRequest,
    settings: &RouterSettings,
    blocks: u64,
) -> PromptBlocks<'a> {
    if !settings.router_track_active_blocks {
        PromptBlocks::default()
    } else if request.assume_kv_reuse.unwrap_or(settings.router_assume_kv_reuse) {
        PromptBlocks::shared(request.booked_chain.as_ref().unwrap_or(&request.chain), blocks)
    } else {
        PromptBlocks::own(blocks)
    }
}
