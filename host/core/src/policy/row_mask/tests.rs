//! Promises of the mask, against the plainest way to do the same.

use proptest::prelude::*;

use super::*;

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
}
