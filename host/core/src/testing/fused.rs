//! What one call for all stages has to answer, in the plainest way.

use super::rank;
use crate::clock::Chance;
use crate::ids::WorkerRank;
use crate::policy::builtin::pick_lowest;
use crate::policy::candidates::Matrix;
use crate::policy::native::NativePolicy;
use crate::policy::{
    Candidates, Declaration, Outcome, PolicyInstance, RequestView, RowMask, StageError,
};

/// A native policy that also decides in one call, in the plainest way: on copies.
#[derive(Debug)]
pub(crate) struct Fused {
    parts: NativePolicy,
    declaration: Declaration,
}

impl Fused {
    pub(crate) fn new(parts: NativePolicy) -> Self {
        let mut declaration = parts.declaration().clone();
        declaration.properties.fused = true;
        Self { parts, declaration }
    }
}

impl PolicyInstance for Fused {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.parts.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.parts.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.parts.pick(request, rows, costs)
    }

    fn decide(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        let union = self.declaration.union();
        // The contract: the columns come in the order of their first appearance.
        assert!(rows.block_of(&union).is_some(), "the block has another order than declared");
        let of = |ids: &[WorkerRank], kept: &[usize]| {
            let ids: Vec<WorkerRank> =
                kept.iter().filter_map(|&row| ids.get(row).copied()).collect();
            let mut matrix = Matrix::new(&union);
            matrix.fill(kept.len(), |input, column| {
                let from = rows.column(input).expect("declared");
                column.iter_mut().zip(kept).for_each(|(to, &row)| *to = from[row]);
            });
            (ids, matrix)
        };
        let all: Vec<usize> = (0..rows.rows()).collect();
        let ids = rows.identity().map_or_else(|| vec![rank(0, 0); all.len()], <[_]>::to_vec);
        let mut kept = all.clone();
        for (at, filter) in self.declaration.filters.iter().enumerate() {
            let (ids, matrix) = of(&ids, &all);
            let seen = Candidates::new(&ids, &matrix, filter.input_set(), &[]);
            let mut verdicts = RowMask::default();
            verdicts.keep_all(all.len());
            self.parts.keep(at, request, &seen, &mut verdicts)?;
            kept.retain(|&row| verdicts.keeps(row));
        }
        outcome.verdicts.keep_all(all.len());
        all.iter().filter(|row| !kept.contains(row)).for_each(|&row| outcome.verdicts.reject(row));
        if kept.is_empty() {
            return Ok(());
        }
        let (ids, matrix) = of(&ids, &kept);
        let mut sums: Option<Vec<f64>> = None;
        for (at, scorer) in self.declaration.scorers.iter().enumerate() {
            let seen = Candidates::new(&ids, &matrix, scorer.input_set(), &[]);
            let mut costs = vec![f64::NAN; kept.len()];
            self.parts.score(at, request, &seen, &mut costs)?;
            sums = Some(match sums {
                None => costs,
                Some(sums) => sums.iter().zip(costs).map(|(sum, cost)| sum + cost).collect(),
            });
        }
        outcome.costs = sums.clone().unwrap_or_default();
        if !outcome.costs.iter().all(|cost| cost.is_finite()) {
            return Ok(());
        }
        let costs = sums.unwrap_or_else(|| vec![0.0; kept.len()]);
        let row = match &self.declaration.picker {
            None => pick_lowest(&costs, &mut Chance::new(request.moment.seed)),
            Some(picker) => {
                let seen = Candidates::new(&ids, &matrix, picker.input_set(), &[]);
                self.parts.pick(request, &seen, &costs)?
            }
        };
        // A row that there isn't stays one.
        outcome.row = kept.get(row).copied().unwrap_or(usize::MAX);
        Ok(())
    }
}
