//! What a decision was made from, kept so that it can be made again: right after, by a policy that is
//! only watched, or from a file, much later.
//!
//! Owns the request's facts, the rows with their columns, and what each stage answered. It holds no
//! prompt text. It doesn't know who keeps it, or why.

mod columns;
pub(crate) mod exact;
mod facts;
mod rows;
mod sample;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::failure::StageKind;
use crate::policy::input::Input;
use crate::policy::pipeline::RunError;
use crate::policy::view::RequestView;

pub use columns::RecordedColumns;
pub use facts::Facts;
pub use rows::RecordedRows;
pub(crate) use sample::Shelf;
pub use sample::{Contents, Sample};

/// What one stage answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageAnswer {
    /// The stage's name.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: StageKind,
    /// A filter's: the rows that it rejected, as places in [`Recording::rows`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<u32>,
    /// A scorer's: its costs before they are weighted, one for each row of [`Recording::kept`].
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact::many")]
    pub costs: Vec<f64>,
}

/// The record of what a decision was made from. It is read from JSON text, which keeps every digit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The request's.
    pub facts: Facts,
    /// The rows that the host's rules allowed.
    pub rows: RecordedRows,
    /// Their columns.
    pub columns: RecordedColumns,
    /// What the stages answered that did, in order; empty where nobody wanted to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageAnswer>,
    /// The rows that the filters kept, as places in `rows`; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<u32>>,
    /// What the kept rows cost together.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact::many")]
    pub costs: Vec<f64>,
}

impl Recording {
    /// Begins a record anew, in the memory that it has.
    pub(crate) fn begin(&mut self, view: &RequestView<'_>, hashes: u32, has_tier_matches: bool) {
        self.facts.take(view, hashes);
        self.facts.has_tier_matches = Some(has_tier_matches);
        self.rows.clear();
        self.columns.clear();
        self.stages.clear();
        self.kept = None;
        self.costs.clear();
    }

    /// Becomes what another is, packed, in the memory that it has. What only few have, it takes from it.
    pub(crate) fn copy_from(&mut self, other: &mut Self) {
        self.facts.copy_from(&other.facts);
        self.rows.copy_from(&other.rows);
        self.columns.pack(&other.columns);
        self.stages = std::mem::take(&mut other.stages);
        self.kept = other.kept.take();
        self.costs = std::mem::take(&mut other.costs);
    }

    /// How much more the best but one of the kept rows costs than the best; none where there is no
    /// other.
    #[must_use]
    pub fn margin(&self) -> Option<f64> {
        let mut costs = self.costs.clone();
        costs.sort_unstable_by(f64::total_cmp);
        Some(costs.get(1)? - costs.first()?)
    }

    /// Prompt tokens that were predicted to be cached on a row: whole blocks, and never the last
    /// token, which is always computed. By the weighted estimate, where slower tiers weigh less. 0
    /// where that wasn't recorded.
    #[must_use]
    pub fn cached_tokens(&self, row: usize) -> u64 {
        let tokens = self.columns.value(Input::CachedTokens, row).unwrap_or(0.0);
        let size = u64::from(self.facts.block_size.max(1));
        let usable = self.facts.prompt_tokens.saturating_sub(1) / size * size;
        (tokens.max(0.0) as u64).min(usable)
    }

    /// How many of the kept rows cost as little as the best; 0 where nothing was scored.
    #[must_use]
    pub fn ties(&self) -> usize {
        let best = self.costs.iter().copied().fold(f64::INFINITY, f64::min);
        self.costs.iter().filter(|&&cost| cost <= best).count()
    }

    /// That a record from elsewhere is one: as many values as rows, and places that there are.
    pub fn check(&self) -> Result<(), Unsound> {
        if self.rows.is_empty() {
            return Err(Unsound("it has no row".to_owned()));
        }
        if !self.rows.is_sorted_by(|a, b| a < b) {
            return Err(Unsound("its rows aren't in ascending order".to_owned()));
        }
        let rows = self.rows.len();
        if let Some((input, values)) = self.columns.unlike(rows) {
            let text = format!("column {:?} has {values} values for {rows} rows", input.name());
            return Err(Unsound(text));
        }
        let kept = self.kept.as_ref().map_or(rows, Vec::len);
        let of_stages = self.stages.iter().map(|stage| &stage.costs);
        let costs = of_stages.chain([&self.costs]).find(|costs| {
            !costs.is_empty() && costs.len() != kept || costs.iter().any(|cost| !cost.is_finite())
        });
        if let Some(costs) = costs {
            let text = format!("{} costs, not all of them of the {kept} rows", costs.len());
            return Err(Unsound(text));
        }
        Ok(())
    }
}

/// Why a record isn't one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the record can't be used: {0}")]
pub struct Unsound(pub String);

/// Why a decision can't be made again.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ReplayError {
    /// A column that the policy reads wasn't recorded.
    #[error("column {name:?} wasn't recorded", name = .0.name())]
    Missing(Input),
    /// The policy chose nothing.
    #[error("{0}")]
    Run(RunError),
}

#[cfg(test)]
mod tests;
