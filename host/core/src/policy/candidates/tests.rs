//! Promises of the columns and the mask, against the plainest way to do the same.

use proptest::prelude::*;

use super::*;
use crate::testing::rank;

#[test]
fn a_mask_has_no_bits_past_its_rows() {
    for rows in [0, 1, 63, 64, 65, 128, 130, 4096] {
        let mut mask = RowMask::default();
        mask.keep_all(rows);
        assert_eq!((mask.rows(), mask.kept()), (rows, rows));
        assert_eq!(mask.iter().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
        assert!(!mask.keeps(rows));
        mask.reject(rows);
        mask.reject(usize::MAX);
        assert_eq!(mask.kept(), rows, "there is no such row to reject");
    }
}

#[test]
fn a_foreign_mask_is_taken_only_if_it_fits() {
    let mut mask = RowMask::default();
    mask.keep_all(66);
    let before = mask.clone();
    assert!(!mask.and(&[u64::MAX]), "too short");
    assert!(!mask.and(&[u64::MAX, 0b11, 0]), "too long");
    assert!(!mask.and(&[u64::MAX, 0b111]), "a bit past the last row");
    assert_eq!(mask, before, "a mask that doesn't fit changes nothing");
    assert!(mask.and(&[1, 0b10]));
    assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 65]);
}

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
    assert_eq!(requests.block_of(&inputs), Some(&[1.0; 4][..]));
    assert!(requests.block_of(&[Input::CachedTokens, Input::ActiveRequests]).is_none());
    assert!(requests.block_of(&[Input::ActiveRequests]).is_none());
}

proptest! {
    #[test]
    fn a_mask_is_a_list_of_booleans(verdicts in prop::collection::vec(any::<bool>(), 0..200)) {
        let mut mask = RowMask::default();
        mask.keep_all(verdicts.len());
        for (row, _) in verdicts.iter().enumerate().filter(|(_, keep)| !**keep) {
            mask.reject(row);
        }
        let kept: Vec<usize> = (0..verdicts.len()).filter(|&row| verdicts[row]).collect();
        prop_assert_eq!(mask.iter().collect::<Vec<_>>(), kept.clone());
        prop_assert_eq!(mask.kept(), kept.len());
        for row in 0..verdicts.len() + 70 {
            prop_assert_eq!(mask.keeps(row), verdicts.get(row).copied().unwrap_or(false));
            prop_assert_eq!(mask.kept_before(row), kept.iter().filter(|&&k| k < row).count());
        }
        let mut all = RowMask::default();
        all.keep_all(verdicts.len());
        prop_assert!(all.and(mask.words()));
        prop_assert_eq!(all, mask);
    }

    #[test]
    fn compaction_is_picking_rows_from_every_column(
        columns in 0..11_usize,
        kept in prop::collection::vec(any::<bool>(), 0..150),
    ) {
        let inputs: Vec<Input> = Input::ALL.into_iter().take(columns).collect();
        let mut matrix = Matrix::new(&inputs);
        let value = |input: Input, row: usize| (input as usize * 1_000 + row) as f64;
        matrix.fill(kept.len(), |input, column| {
            column.iter_mut().enumerate().for_each(|(row, v)| *v = value(input, row));
        });
        let left: Vec<u32> = (0..kept.len() as u32).filter(|&row| kept[row as usize]).collect();
        matrix.compact(&left);
        for input in Input::ALL {
            let expected: Option<Vec<f64>> = (inputs.contains(&input) && input.is_column())
                .then(|| left.iter().map(|&row| value(input, row as usize)).collect());
            prop_assert_eq!(matrix.column(input).map(<[f64]>::to_vec), expected);
        }
    }
}
