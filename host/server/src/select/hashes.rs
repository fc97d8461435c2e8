//! Hashes as they come and go in JSON: numbers of 64 bits, negative from 2^63 on.

use serde_json::Value;

use crate::json::values::{Read, show};

/// A hash: a number of 64 bits with or without a sign, or its decimal digits in a text.
pub(super) fn hash(value: &Value) -> Read<u64> {
    let read = match value {
        Value::Number(number) => number.as_i64().map(|hash| hash as u64).or(number.as_u64()),
        Value::String(text) => {
            text.parse::<i64>().map(|hash| hash as u64).or_else(|_| text.parse::<u64>()).ok()
        }
        _ => None,
    };
    read.ok_or_else(|| format!("is {}; expected a whole number of 64 bits", show(value)))
}

/// A list of them.
pub(super) fn hashes(value: &Value) -> Read<Vec<u64>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    let hashes = list.iter().enumerate();
    hashes.map(|(i, one)| hash(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

/// As they are answered.
pub(super) fn signed(hashes: &[u64]) -> Vec<i64> {
    hashes.iter().map(|&hash| hash as i64).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_64_bits_come_in_whatever_sign_and_go_out_with_one() {
        for (value, bits) in [
            (json!(0), 0),
            (json!(-1), u64::MAX),
            (json!(u64::MAX), u64::MAX),
            (json!(i64::MIN), 1 << 63),
            (json!("-1"), u64::MAX),
            (json!("18446744073709551615"), u64::MAX),
        ] {
            assert_eq!(hash(&value), Ok(bits), "{value}");
        }
        for bad in [json!(1.5), json!(1e30), json!("x"), json!(null), json!("")] {
            assert!(hash(&bad).is_err(), "{bad}");
        }
        let list = hashes(&json!([1, -2]));
        assert_eq!(list.as_deref().map(signed), Ok(vec![1, -2]));
        let bad = hashes(&json!([1, true]));
        assert_eq!(bad, Err("entry 1 is true; expected a whole number of 64 bits".to_owned()));
    }
}
