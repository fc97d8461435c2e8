//! Halves of surrogate pairs in JSON's escapes.
//!
//! `"\ud800"` is JSON by its grammar, and no Unicode text. Engines in Python take it, so a client's
//! prompt may have it; our parser doesn't. What is read of such a body is read from a copy, in which
//! each half that stands alone is a replacement character: the same number of bytes, whether escaped
//! or not. The body itself goes on as it came.

/// U+FFFD, escaped.
const REPLACEMENT: &[u8; 6] = br"\ufffd";

/// A copy without surrogates that stand alone; none if there are none.
pub(crate) fn without_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let mut copy: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let start = at + found;
        at = match (unit(json, start), unit(json, start + 6)) {
            (Some(Unit::High), Some(Unit::Low)) => start + 12,
            (Some(Unit::High | Unit::Low), _) => {
                let copy = copy.get_or_insert_with(|| json.to_vec());
                if let Some(place) = copy.get_mut(start..start + 6) {
                    place.copy_from_slice(REPLACEMENT);
                }
                start + 6
            }
            // Whatever is escaped, also another backslash.
            (Some(Unit::Other) | None, _) => start + 2,
        };
    }
    copy
}

enum Unit {
    High,
    Low,
    Other,
}

/// The code unit that is escaped at a place, if one is.
fn unit(json: &[u8], at: usize) -> Option<Unit> {
    let [b'\\', b'u', digits @ ..] = json.get(at..at + 6)? else { return None };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some(match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Unit::High,
        0xdc00..=0xdfff => Unit::Low,
        _ => Unit::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced_and_nothing_else() {
        for (json, wanted) in [
            (r#""\ud800""#, Some(r#""\ufffd""#)),
            (r#""\uDFFF""#, Some(r#""\ufffd""#)),
            (r#""a\ud83dz""#, Some(r#""a\ufffdz""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ude00\ud83d""#, Some(r#""\ufffd\ufffd""#)),
            (r#""\ud83d\n""#, Some(r#""\ufffd\n""#)),
            (r#""\\\ud800""#, Some(r#""\\\ufffd""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud800""#, None),
            (r#""\u00e9\"\\""#, None),
            (r#""\ud80""#, None),
            (r#""\ud8"#, None),
            (r"\", None),
            ("", None),
        ] {
            let copy = without_lone_surrogates(json.as_bytes());
            assert_eq!(copy.as_deref(), wanted.map(str::as_bytes), "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_has_the_same_length_and_parses_if_it_only_lacked_that(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![r"\ud800", r"\udc00", r"\\", r"\n", "x", "é", r"\u00e9"]),
                0..12,
            )
        ) {
            let json = format!("\"{}\"", pieces.concat());
            let copy = without_lone_surrogates(json.as_bytes());
            let copy = copy.unwrap_or_else(|| json.clone().into_bytes());
            assert_eq!(copy.len(), json.len());
            assert!(serde_json::from_slice::<String>(&copy).is_ok(), "{json}");
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(0_u8.., 0..64)) {
            if let Some(copy) = without_lone_surrogates(&bytes) {
                assert_eq!(copy.len(), bytes.len());
            }
        }
    }
}
