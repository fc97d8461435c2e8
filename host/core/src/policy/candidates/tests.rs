//! Promises of the columns, against the plainest way to do the same.

use proptest::prelude::*;

use super::*;
use crate::testing::rank;

#[test]
fn a_stage_reads_what_it_declared_and_nothing_else() {
    let inputs = [Input::ActiveRequests, Input::Identity, Input::CachedTokens];
    let mut matrix = Matrix::new(&inputs);
    matrix.fill(2, |_, column| column.fill(1.0));
    let ids = [rank(1, 0), rank(2, 0)];
    let seen = |declared: &[Input]| {
        Candidates::new(&ids, &matrix, declared.iter().copied().collect(), &[])
    };
    let requests = seen(&[Input::ActiveRequests]);
    assert!(requests.column(Input::ActiveRequests).is_some());
    assert!(requests.column(Input::CachedTokens).is_none());
    assert!(requests.identity().is_none());
    assert!(seen(&[Input::Identity]).identity().is_some());
    // Declared, but not a column of this matrix.
    assert!(seen(&[Input::HostOverlapBlocks]).column(Input::HostOverlapBlocks).is_none());
    // The whole block, only in its own order.
    assert_eq!(requests.block_of(&inputs), Some(Block { uniform: 0, numbers: &[1.0; 4] }));
    assert!(requests.block_of(&[Input::CachedTokens, Input::ActiveRequests]).is_none());
    assert!(requests.block_of(&[Input::ActiveRequests]).is_none());
}

proptest! {
    #[test]
    fn a_matrix_is_its_columns_however_many_are_one_number(
        columns in 0..11_usize,
        fillings in prop::collection::vec(
            (0..2_048_u64, 0..3_u8, prop::collection::vec(any::<bool>(), 0..150)), 1..4),
    ) {
        let inputs: Vec<Input> = Input::ALL.into_iter().take(columns).collect();
        let own: Vec<Input> = inputs.iter().copied().filter(|input| input.is_column()).collect();
        let mut matrix = Matrix::new(&inputs);
        // In the memory of the filling before.
        for (uniform, number, kept) in fillings {
            let neutral: InputSet = Input::ALL.into_iter().filter(|&i| uniform >> (i as usize) & 1 == 1).collect();
            let same = |input: Input| neutral.contains(input).then(|| input.neutral());
            let value = |input: Input, row: usize| {
                same(input).unwrap_or((input as usize * 1_000 + row) as f64 + f64::from(number))
            };
            // A second time it is laid out as it is.
            for wrong in [1.0, 0.0] {
                matrix.fill_but(kept.len(), neutral, |input, column| {
                    let rows = column.iter_mut().enumerate();
                    rows.for_each(|(row, v)| *v = value(input, row) + wrong);
                });
            }
            let left: Vec<u32> = (0..kept.len() as u32).filter(|&row| kept[row as usize]).collect();
            for rows in [(0..kept.len() as u32).collect(), left] {
                let mut rows_of_it = Matrix::new(&[Input::CachedTokens]);
                let before = matrix.clone();
                for _ in 0..2 {
                    rows_of_it.become_rows_of(&matrix, &rows);
                    prop_assert_eq!(matrix.block(), before.block());
                }
                matrix.compact(&rows);
                prop_assert_eq!(rows_of_it.block(), matrix.block());
                prop_assert!(rows_of_it.is_like(&matrix) && rows_of_it.rows() == matrix.rows());
                for input in Input::ALL {
                    prop_assert_eq!(rows_of_it.column(input), matrix.column(input));
                }
                let column = |input| -> Vec<f64> {
                    rows.iter().map(|&row| value(input, row as usize)).collect()
                };
                for input in Input::ALL {
                    let expected = own.contains(&input).then(|| column(input));
                    prop_assert_eq!(matrix.column(input).map(<[f64]>::to_vec), expected);
                    prop_assert_eq!(matrix.uniform(input), own.contains(&input).then(|| same(input)).flatten());
                }
                let (one, each): (Vec<Input>, Vec<Input>) =
                    own.iter().partition(|input| same(**input).is_some());
                let numbers: Vec<f64> = each.iter().flat_map(|&input| column(input)).collect();
                let numbers: Vec<f64> =
                    numbers.into_iter().chain(one.iter().filter_map(|&input| same(input))).collect();
                let mask = own.iter().enumerate().filter(|(_, input)| one.contains(input));
                let mask = mask.fold(0, |mask, (at, _)| mask | 1 << at);
                prop_assert_eq!(matrix.block(), Block { uniform: mask, numbers: &numbers });
                // The second compaction is of the rows that the first left: all of them.
            }
        }
    }
}
