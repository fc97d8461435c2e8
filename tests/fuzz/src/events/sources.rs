//! Where events are published, as engines tell.

use pointsman::feeds::endpoint::Address;
use pointsman::feeds::sources::{self, MOST_RANKS, Source, SourcesError};

use super::super::words::sentence;

/// The longest sentence about an answer, in bytes.
const MOST_WORDS: usize = 1_500;

/// An answer of vLLM's.
pub(super) fn vllm(bytes: &[u8]) {
    check(sources::vllm(&String::from_utf8_lossy(bytes), "worker"));
}

/// An answer of SGLang's.
pub(super) fn sglang(bytes: &[u8]) {
    check(sources::sglang(&String::from_utf8_lossy(bytes), "::1"));
}

fn check(read: Result<Vec<Source>, SourcesError>) {
    let sources = match read {
        Ok(sources) => sources,
        Err(error) => return sentence(&error.to_string(), MOST_WORDS),
    };
    assert!(!sources.is_empty() && sources.len() <= MOST_RANKS as usize);
    assert!(sources.is_sorted_by(|a, b| a.rank < b.rank), "each rank once");
    let places = |source: &Source| {
        [Some(source.endpoint.clone()), source.replay_endpoint.clone()].into_iter().flatten()
    };
    let mut places: Vec<String> = sources.iter().flat_map(places).map(|at| again(&at)).collect();
    let all = places.len();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), all, "no two in one place");
}

/// An address as text, which means the same address.
fn again(address: &Address) -> String {
    let text = address.to_string();
    sentence(&text, 300);
    assert_eq!(text.parse().as_ref(), Ok(address), "{text}");
    text
}
