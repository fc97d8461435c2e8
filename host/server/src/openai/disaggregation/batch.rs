//! How many prompts a completion has, without a look into any of them.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

/// How many prompts stand in a list in the body's `prompt`; none if it is no list of prompts.
pub(super) fn batch(body: &[u8]) -> Option<usize> {
    #[derive(Deserialize)]
    struct Body {
        prompt: Option<Prompts>,
    }
    let body: Body = serde_json::from_slice(body).ok()?;
    body.prompt.and_then(|prompts| prompts.0)
}

struct Prompts(Option<usize>);

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counter)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = Prompts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt")
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Prompts, E> {
        Ok(Prompts(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Prompts, A::Error> {
        let Some(first) = items.next_element::<&RawValue>()? else { return Ok(Prompts(None)) };
        // Of token ids, all are one prompt.
        let is_one = first.get().starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let mut count = 1;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Prompts((!is_one).then_some(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_counted_and_tokens_are_not() {
        for (body, count) in [
            (r#"{"prompt":"one"}"#, None),
            (r#"{"prompt":[1,2,3]}"#, None),
            (r#"{"prompt":["one"]}"#, Some(1)),
            (r#"{"prompt":["one","two","\ud800"]}"#, Some(3)),
            (r#"{"prompt":[[1,2],[3]],"x":{"prompt":[1]}}"#, Some(2)),
            (r#"{"prompt":[]}"#, None),
            (r#"{"prompt":null}"#, None),
            (r#"{"messages":[]}"#, None),
            ("[]", None),
        ] {
            assert_eq!(batch(body.as_bytes()), count, "{body}");
        }
    }
}
