//! A prompt as callers of the selection service have it: tokens, or hashes of its blocks.
//!
//! Owns the fields that say it, and what becomes of them: a length, and two chains of hashes. By one,
//! caches are asked; by the other, blocks are booked. Of tokens both are made here and are the same. Who
//! sends hashes sends block hashes for the one and sequence hashes for the other, and may name sequences
//! in a way of his own.

use std::sync::Arc;

use pointsman_core::hashing::{Scope, block_hash, sequence_hash};
use pointsman_core::ids::PartitionKey;
use pointsman_core::request::RouteRequest;
use serde_json::Value;

use super::hashes::{hash, hashes};
use crate::described;
use crate::json::values::{self, Read, show};
use crate::json::{Fields, Problems};
use crate::prompts::{Prompt, Prompter};
use crate::tokens::Source;

/// The longest prompt: up to here policies get counts as they are.
const MOST_TOKENS: u64 = 1 << 53;

/// What a prompt is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// To be looked up in caches, and booked.
    Caches,
    /// To be booked: sequence hashes will do.
    Booking,
    /// Nothing: it is known already.
    Nothing,
}

/// What is given of a prompt.
#[derive(Clone, Debug)]
enum Given {
    /// Tokens, and the media of each block, as far as there are some.
    Tokens {
        ids: Vec<u32>,
        media: Vec<Vec<u64>>,
    },
    Hashes {
        block_hashes: Vec<u64>,
        sequence_hashes: Vec<u64>,
        isl_tokens: u64,
    },
    /// Only what is booked.
    Sequence {
        sequence_hashes: Vec<u64>,
        isl_tokens: u64,
    },
    Nothing,
}

/// A prompt, as it is given.
#[derive(Clone, Debug)]
pub(super) struct Input {
    given: Given,
    scope: Scope,
    /// The LoRA adapter that it is for.
    pub(super) adapter: Option<Arc<str>>,
}

/// Reads what a body says of its prompt. What is wrong with it is among the fields' problems.
pub(super) fn read(fields: &mut Fields<'_>, need: Need) -> Input {
    let adapter = fields.optional("lora_name", described::text).flatten();
    let adapter = adapter.filter(|name| !name.is_empty());
    let namespace = fields.optional("cache_salt", described::text).flatten();
    let scope = Scope::new(adapter.as_deref(), namespace.as_deref());
    let before = fields.problems();
    let given = given(fields, need);
    let given = if fields.problems() > before { Given::Nothing } else { given };
    Input { given, scope, adapter: adapter.map(Into::into) }
}

fn given(fields: &mut Fields<'_>, need: Need) -> Given {
    let before = fields.problems();
    let multimodal = fields.nested("mm_routing_info", |fields| {
        let ids = fields.optional("routing_token_ids", values::token_ids).flatten();
        let media = fields.optional("block_mm_infos", media).flatten();
        Some((ids.unwrap_or_default(), media.unwrap_or_default()))
    });
    let ids = fields.optional("token_ids", values::token_ids).flatten();
    let media = fields.optional("block_mm_infos", media).flatten();
    let block_hashes = fields.optional("block_hashes", hashes).flatten();
    let sequence_hashes = fields.optional("sequence_hashes", hashes).flatten();
    let isl_tokens = fields.optional("isl_tokens", values::whole).flatten();
    let eagle = fields.optional("is_eagle", switch).flatten();
    if eagle == Some(true) {
        let words =
            "is true; prompts of EAGLE workers aren't supported by this version: leave it out";
        fields.problem("is_eagle", words);
    }
    if fields.problems() > before {
        // What could not be read would be missed here.
        return Given::Nothing;
    }
    if let Some((ids, media)) = multimodal.filter(|(ids, _)| !ids.is_empty()) {
        return Given::Tokens { ids, media };
    }
    if let Some(ids) = ids {
        return Given::Tokens { ids, media: media.unwrap_or_default() };
    }
    if need == Need::Nothing {
        return Given::Nothing;
    }
    let mut needed = |name: &'static str, is_there: bool| {
        if !is_there {
            let all = match need {
                Need::Caches => "token_ids, or block_hashes, sequence_hashes and isl_tokens",
                _ => "token_ids, or sequence_hashes and isl_tokens",
            };
            fields.problem(name, format!("is missing; expected {all}"));
        }
    };
    needed("sequence_hashes", sequence_hashes.is_some());
    needed("isl_tokens", isl_tokens.is_some());
    needed("block_hashes", block_hashes.is_some() || need == Need::Booking);
    let (Some(sequence_hashes), Some(isl_tokens)) = (sequence_hashes, isl_tokens) else {
        return Given::Nothing;
    };
    if isl_tokens == 0 {
        fields.problem("isl_tokens", "is 0; expected at least 1");
    } else if isl_tokens > MOST_TOKENS {
        let words = format!(
            "is {isl_tokens}; expected at most {MOST_TOKENS}, up to which counts are exact"
        );
        fields.problem("isl_tokens", words);
    }
    let Some(block_hashes) = block_hashes else {
        return Given::Sequence { sequence_hashes, isl_tokens };
    };
    if block_hashes.len() != sequence_hashes.len() {
        let (blocks, sequences) = (block_hashes.len(), sequence_hashes.len());
        let words =
            format!("has {sequences} entries beside {blocks} block_hashes; expected as many");
        fields.problem("sequence_hashes", words);
    }
    Given::Hashes { block_hashes, sequence_hashes, isl_tokens }
}

impl Input {
    /// What there is to know of it in a partition, told to the request.
    pub(super) fn describe(
        &self,
        prompter: &Prompter,
        partition: &PartitionKey,
        block_size: u32,
        request: &mut RouteRequest,
    ) -> Prompt {
        let (chain, booked, tokens) = match &self.given {
            Given::Nothing => return Prompt::default(),
            Given::Tokens { ids, media } if media.iter().all(Vec::is_empty) => {
                let prompt = prompter.of_ids(partition, ids, self.scope);
                prompt.describe(request);
                return prompt;
            }
            Given::Tokens { ids, media } => {
                (with_media(ids, media, block_size, self.scope), None, ids.len() as u64)
            }
            Given::Hashes { block_hashes, sequence_hashes, isl_tokens } => {
                let chain = linked(block_hashes.iter().copied());
                let own = (chain != *sequence_hashes).then(|| sequence_hashes.as_slice().into());
                (chain, own, *isl_tokens)
            }
            Given::Sequence { sequence_hashes, isl_tokens } => {
                (sequence_hashes.clone(), None, *isl_tokens)
            }
        };
        let prompt = Prompt {
            tokens,
            exact: true,
            chain: chain.into(),
            block_size,
            source: Some(Source::Client),
            prompts: 1,
            ..Prompt::default()
        };
        prompt.describe(request);
        request.booked_chain = booked;
        prompt
    }
}

/// The chain of a prompt some of whose blocks have pictures and the like.
fn with_media(ids: &[u32], media: &[Vec<u64>], block_size: u32, scope: Scope) -> Vec<u64> {
    let size = usize::try_from(block_size.max(1)).unwrap_or(usize::MAX);
    let of_block = |at: usize| media.get(at).map(Vec::as_slice).unwrap_or_default();
    let blocks = ids.chunks_exact(size).enumerate();
    linked(blocks.map(|(at, tokens)| block_hash(tokens, of_block(at), scope)))
}

fn linked(blocks: impl Iterator<Item = u64>) -> Vec<u64> {
    let link = |parent: &mut Option<u64>, block: u64| {
        *parent = Some(sequence_hash(*parent, block));
        *parent
    };
    blocks.scan(None, link).collect()
}

/// The media of each block: nothing, or `{"mm_objects": [{"mm_hash": ...}]}`.
fn media(value: &Value) -> Read<Vec<Vec<u64>>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
    let blocks = list.iter().enumerate();
    blocks.map(|(i, one)| of_block(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

fn of_block(value: &Value) -> Read<Vec<u64>> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let read = Fields::of(value).and_then(|mut fields| {
        let objects = fields.required("mm_objects", |value| {
            let list =
                value.as_array().ok_or_else(|| format!("is {}; expected a list", show(value)))?;
            list.iter().map(object).collect::<Read<Vec<u64>>>()
        });
        fields.finish().map(|()| objects.unwrap_or_default())
    });
    read.map_err(in_words)
}

fn object(value: &Value) -> Read<u64> {
    let read = Fields::of(value).and_then(|mut fields| {
        let hash = fields.required("mm_hash", hash);
        // Where in the block it stands makes no difference to what is cached.
        let _ = fields.optional("offsets", |value| {
            value
                .as_array()
                .map(|_| ())
                .ok_or_else(|| format!("is {}; expected a list", show(value)))
        });
        fields.finish().map(|()| hash.unwrap_or_default())
    });
    read.map_err(in_words)
}

fn in_words(problems: Problems) -> String {
    format!("has {problems}")
}

/// True or false.
pub(super) fn switch(value: &Value) -> Read<bool> {
    value.as_bool().ok_or_else(|| format!("is {}; expected true or false", show(value)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use pointsman_core::hashing::sequence_hashes;
    use serde_json::json;

    use super::*;

    fn problems(body: &Value, need: Need) -> Vec<String> {
        let mut fields = Fields::of(body).unwrap();
        read(&mut fields, need);
        let problems = fields.finish().map_err(|Problems(all)| all);
        problems.map_or_else(|all| all.into_iter().map(|one| one.field).collect(), |()| vec![])
    }

    #[test]
    fn a_prompt_is_tokens_or_hashes_and_what_is_missing_of_either_is_named() {
        let hashes = ["sequence_hashes", "isl_tokens", "block_hashes"];
        assert_eq!(problems(&json!({}), Need::Caches), hashes);
        assert_eq!(problems(&json!({}), Need::Booking), hashes[..2]);
        assert_eq!(problems(&json!({}), Need::Nothing), [""; 0]);
        assert_eq!(problems(&json!({ "token_ids": [] }), Need::Caches), [""; 0]);
        let both = json!({ "block_hashes": [1], "sequence_hashes": [1, 2], "isl_tokens": 0 });
        assert_eq!(problems(&both, Need::Caches), ["isl_tokens", "sequence_hashes"]);
        let bad = json!({ "token_ids": [-1], "is_eagle": true, "lora_name": 3 });
        assert_eq!(problems(&bad, Need::Caches), ["lora_name", "token_ids", "is_eagle"]);
        let empty = json!({ "mm_routing_info": { "routing_token_ids": [] }, "token_ids": [1] });
        assert_eq!(problems(&empty, Need::Caches), [""; 0]);
    }

    #[test]
    fn pictures_are_part_of_their_blocks_and_blocks_of_their_sequence() {
        let ids = [1, 2, 3, 4, 5];
        let none = with_media(&ids, &[], 2, Scope::default());
        let mut plain = Vec::new();
        sequence_hashes(&ids, 2, Scope::default(), &mut plain);
        assert_eq!(none, plain);
        let shown = with_media(&ids, &[vec![], vec![7]], 2, Scope::default());
        assert!(shown[0] == plain[0] && shown[1] != plain[1]);
        let read = media(&json!([null, { "mm_objects": [{ "mm_hash": 7, "offsets": [[0, 1]] }] }]));
        assert_eq!(read, Ok(vec![vec![], vec![7]]));
        let bad = media(&json!([{ "mm_objects": [{}] }])).unwrap_err();
        assert!(bad.contains("entry 0") && bad.contains("mm_hash is missing"), "{bad}");
    }
}
