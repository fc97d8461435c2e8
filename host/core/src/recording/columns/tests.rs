//! Promises of columns as they are kept.

use super::*;

fn kept(values: &[f64]) -> RecordedColumns {
    let mut columns = RecordedColumns::default();
    // Beside others, so that it has to be found.
    columns.push(Input::ActiveRequests, &[1.0, 2.0, 3.0]);
    columns.push(Input::CachedTokens, values);
    columns.push(Input::DecodeCostBlocks, &[0.5, -1.0, 7.0]);
    columns
}

#[test]
fn a_column_is_kept_bit_for_bit_whatever_its_values() {
    let least = f64::from_bits(1);
    let odd = [-0.0, 0.5, -1.0, 4_294_967_296.0, WHOLE, 2.0 * WHOLE, 1e300, least, f64::NAN];
    let odd = odd.into_iter().chain([f64::INFINITY, -f64::NAN]).map(|odd| vec![3.0, odd, 5.0]);
    let plain = [vec![0.0, 4_294_967_295.0, 7.0], vec![1.0, 2.0], vec![], vec![-0.0; 3]];
    for values in odd.chain(plain) {
        let columns = kept(&values);
        let bits = |row| columns.value(Input::CachedTokens, row).map(f64::to_bits);
        let mut copy = vec![9.0; values.len()];
        columns.copy(Input::CachedTokens, &mut copy);
        for (row, value) in values.iter().enumerate() {
            assert_eq!(bits(row), Some(value.to_bits()), "{values:?}");
            assert_eq!(copy[row].to_bits(), value.to_bits(), "{values:?}");
        }
        assert_eq!(columns.value(Input::DecodeCostBlocks, 1), Some(-1.0), "{values:?}");
    }
}

#[test]
fn whole_numbers_take_half_the_memory_and_one_number_hardly_any() {
    let words = |values: &[f64]| {
        let mut columns = RecordedColumns::default();
        columns.push(Input::CachedTokens, values);
        columns.words.len()
    };
    let whole: Vec<f64> = (0..64).map(f64::from).collect();
    let fractions: Vec<f64> = (0..64).map(|n| f64::from(n) + 0.5).collect();
    assert_eq!((words(&whole), words(&fractions), words(&[0.5; 64])), (33, 65, 2));
    let mut plain = RecordedColumns::default();
    plain.push_each(Input::CachedTokens, &whole);
    plain.push_each(Input::ActiveRequests, &[7.0; 64]);
    assert_eq!(plain.words.len(), 130, "they are copied as they are");
    let mut packed = kept(&fractions);
    for from in [plain.clone(), packed.clone()] {
        packed.pack(&from);
        assert_eq!(packed, from);
    }
    packed.pack(&plain);
    assert_eq!(packed.words.len(), 35);
}

#[test]
fn a_list_of_another_length_is_found_also_if_it_is_one_number_again_and_again() {
    let unlike = |json: &str| {
        let columns: RecordedColumns = serde_json::from_str(json).expect("these are columns");
        columns.unlike(3).map(|(_, rows)| rows)
    };
    assert_eq!(unlike(r#"{"cached-tokens": [2.0, 2.0]}"#), Some(2));
    assert_eq!(unlike(r#"{"cached-tokens": []}"#), Some(0));
    assert_eq!(unlike(r#"{"cached-tokens": [2.0, 2.0, 2.0], "active-requests": 2}"#), None);
}
