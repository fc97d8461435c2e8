//! From a request and what the fleet carries and holds to a row; nothing is looked up or booked.
//!
//! One rank a worker, a prompt of 2,048 tokens in blocks of 16, temperature 0; worker i has (i % 32) * 64 tokens
//! cached, and carries 16 i prompt tokens, i % 127 blocks and i % 17 requests. Between two selections one
//! row's prompt tokens and the prompt's length change.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::clock::Moment;
use pointsman_core::policy::pipeline::Selected;
use pointsman_core::policy::{Catalog, RouterSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::testing::{Given, GivenRow};
use serde_json::Map;

use crate::fleet;

/// Tokens of the prompt.
pub const PROMPT_TOKENS: u64 = 2_048;

/// The same in blocks.
pub const PROMPT_BLOCKS: usize = 128;

/// What changes from one selection to the next, the same for all.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Which row carries another number of prompt tokens.
    pub row: u64,
    /// How many.
    pub row_tokens: u64,
    /// The prompt's length.
    pub prompt_tokens: u64,
}

impl Change {
    /// The `n`th. Each row in turn carries three thousand tokens more, and then no longer, so that the
    /// cheapest isn't always the same.
    #[must_use]
    pub fn new(n: u64, rows: u64) -> Self {
        let more = if (n / rows).is_multiple_of(2) { 3_000 } else { 0 };
        let row = n % rows;
        Self { row, row_tokens: 16 * row + more, prompt_tokens: PROMPT_TOKENS - n % 16 }
    }
}

/// Our selection.
#[derive(Debug)]
pub struct Selection {
    given: Given,
    request: RouteRequest,
    rows: u64,
    n: u64,
}

impl Selection {
    /// A selection among so many rows by a policy of this type.
    pub fn new(catalog: &Catalog, policy_type: &str, rows: u64) -> Result<Self> {
        let settings = Arc::<RouterSettings>::default();
        let router = fleet::router(catalog, policy_type, &Map::new(), &settings, rows)?;
        let loads: Vec<GivenRow> = (0..rows).map(row).collect();
        let given = Given::new(fleet::partition(&router)?, settings, &loads);
        let mut request = RouteRequest::new("r", fleet::key(), PROMPT_TOKENS);
        request.expected_output_tokens = Some(256);
        Ok(Self { given, request, rows, n: 0 })
    }

    /// Selects once.
    pub fn select(&mut self) -> Result<Selected> {
        let change = Change::new(self.n, self.rows);
        self.n += 1;
        self.given.set_prefill_tokens(change.row as usize, change.row_tokens);
        self.request.prompt_tokens = change.prompt_tokens;
        let moment = Moment { now_ms: self.n, seed: self.n };
        let selected = self.given.choose(black_box(&self.request), moment)?;
        selected.context("the fleet doesn't change")
    }
}

/// What a worker carries and holds.
#[must_use]
pub fn row(id: u64) -> GivenRow {
    GivenRow {
        active_requests: (id % 17) as u32,
        active_prefill_tokens: 16 * id,
        active_decode_blocks: id % 127,
        effective_overlap_blocks: (id % 32 * 64 / 16) as f64,
    }
}
