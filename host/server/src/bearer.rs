//! Bearer tokens: whether a request brings one that opens a listener.

use http::{HeaderMap, HeaderValue, header};

use crate::config::Secret;

/// Whether the client's token is one of those that are configured, if any is.
pub(crate) fn opens(tokens: &[Secret], headers: &HeaderMap) -> bool {
    if tokens.is_empty() {
        return true;
    }
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some((scheme, token)) = given.and_then(|given| given.split_at_checked(7)) else {
        return false;
    };
    let bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    // Every token is compared, whole: how long it takes tells nothing about how near one was.
    bearer & tokens.iter().fold(false, |any, Secret(one)| any | same(one.as_bytes(), token))
}

fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_opens() {
        let tokens = [Secret("one".to_owned()), Secret("two".to_owned())];
        let ask = |value| {
            let value = HeaderValue::from_static(value);
            opens(&tokens, &HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        };
        assert!(ask("Bearer one") && ask("bearer two"));
        for bad in ["Bearer", "Bearer ", "Bearer on", "Bearer onet", "Basic one", "one", ""] {
            assert!(!ask(bad), "{bad:?}");
        }
        assert!(!opens(&tokens, &HeaderMap::new()));
        assert!(opens(&[], &HeaderMap::new()));
    }
}
