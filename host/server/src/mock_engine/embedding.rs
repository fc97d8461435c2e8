//! `/v1/embeddings`: vectors of unit length that depend on the text alone, in the shape a vLLM gives them.

use bytes::Bytes;
use ct_codecs::{Base64, Encoder};
use serde::{Deserialize, Serialize};

use super::config::MockConfig;
use super::error::ApiError;
use super::prompt::Prompt;
use super::request::{Texts, missing, model, parse, room};

/// The longest vector that may be asked for.
const MOST_DIMENSIONS: u32 = 16_384;

#[derive(Deserialize)]
struct Fields {
    model: Option<String>,
    input: Option<Texts>,
    dimensions: Option<u32>,
    #[serde(default)]
    encoding_format: Encoding,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

/// A request for vectors, checked.
#[derive(Debug)]
pub(super) struct EmbeddingJob {
    model: String,
    pub(super) prompts: Vec<Prompt>,
    dimensions: u32,
    encoding: Encoding,
}

impl EmbeddingJob {
    pub(super) fn parse(body: &[u8], config: &MockConfig) -> Result<Self, ApiError> {
        let fields: Fields = parse(body)?;
        let prompts = fields.input.ok_or_else(|| missing(body, "input"))?.prompts()?;
        for prompt in &prompts {
            room(prompt.tokens.len(), config)?;
        }
        let dimensions = fields.dimensions.unwrap_or(config.embedding_dims);
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            let message =
                format!("dimensions must be from 1 to {MOST_DIMENSIONS}, got {dimensions}.");
            return Err(ApiError::parameter(&message, "dimensions", dimensions));
        }
        Ok(Self {
            model: model(fields.model, config)?,
            prompts,
            dimensions,
            encoding: fields.encoding_format,
        })
    }

    pub(super) fn tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.tokens.len()).sum()
    }

    pub(super) fn body(&self, id: &str, created: u64) -> Bytes {
        let data = self
            .prompts
            .iter()
            .enumerate()
            .map(|(index, prompt)| {
                let vector = vector(prompt, self.dimensions);
                let embedding = match self.encoding {
                    Encoding::Float => Embedding::Float(vector),
                    Encoding::Base64 => Embedding::Base64(base64(&vector)),
                };
                Item { index, object: "embedding", embedding }
            })
            .collect();
        let tokens = self.tokens();
        let usage = Usage {
            prompt_tokens: tokens,
            total_tokens: tokens,
            completion_tokens: 0,
            prompt_tokens_details: None,
        };
        let list = List { id, object: "list", created, model: &self.model, data, usage };
        serde_json::to_vec(&list).unwrap_or_default().into()
    }
}

#[derive(Serialize)]
struct List<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    data: Vec<Item>,
    usage: Usage,
}

#[derive(Serialize)]
struct Item {
    index: usize,
    object: &'static str,
    embedding: Embedding,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Embedding {
    Float(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
    completion_tokens: usize,
    prompt_tokens_details: Option<()>,
}

/// Numbers drawn from a generator that the tokens seed, scaled to unit length.
fn vector(prompt: &Prompt, dimensions: u32) -> Vec<f32> {
    // FNV-1a over the ids, then splitmix64: small, well spread and the same everywhere.
    let mut state = prompt.tokens.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, token| {
        (hash ^ u64::from(*token)).wrapping_mul(0x0100_0000_01b3)
    });
    let drawn: Vec<f64> = (0..dimensions)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        })
        .collect();
    let length =
        drawn.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    drawn.into_iter().map(|number| (number / length) as f32).collect()
}

/// Little-endian floats in base64, which is what OpenAI's own client asks for.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    // What it fails for is a length beyond memory.
    Base64::encode_to_string(bytes).unwrap_or_default()
}
