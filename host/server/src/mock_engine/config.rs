//! What a mock engine is told at its start: address, names, speeds and sizes.
//!
//! Read from command-line flags (`clap::Args`) or from a document (`serde`, unknown keys refused). What may change while it
//! runs is not here but in [`super::Control`].

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

/// The configuration of one mock engine. The default answers at once, with no delays, on any free port of the loopback.
#[derive(Debug, Clone, PartialEq, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct MockConfig {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, default_value_t = default_addr())]
    pub addr: SocketAddr,
    /// Name the engine signs its answers with (`x-mock-engine`, `system_fingerprint`)
    #[arg(long, default_value = "mock")]
    pub name: String,
    /// Model served; repeat it for further names of the same model
    #[arg(long = "model", value_name = "MODEL", default_values_t = [default_model()])]
    pub models: Vec<String>,
    /// Prefill speed of one request in prompt tokens per second; 0 is instant
    #[arg(long, default_value_t = 0.0)]
    pub prefill_tokens_per_s: f64,
    /// Prefill time in milliseconds whatever the prompt's length; wins over the speed
    #[arg(long)]
    pub prefill_ms: Option<f64>,
    /// Decode speed of one stream in tokens per second; 0 is instant
    #[arg(long, default_value_t = 0.0)]
    pub decode_tokens_per_s: f64,
    /// Milliseconds between two tokens of one stream; wins over the speed
    #[arg(long)]
    pub decode_ms: Option<f64>,
    /// Sequences that run at the same time; the rest waits, first come first served
    #[arg(long, default_value_t = 256)]
    pub max_num_seqs: u32,
    /// Tokens generated for a request that names no maximum; it then ends with "stop"
    #[arg(long, default_value_t = 16)]
    pub output_tokens: u32,
    /// Longest prompt and answer together, in tokens
    #[arg(long, default_value_t = 131_072)]
    pub max_model_len: u32,
    /// Tokens in one KV block
    #[arg(long, default_value_t = 16)]
    pub block_size: u32,
    /// KV blocks the engine claims to have; used for its reported cache usage only
    #[arg(long, default_value_t = 65_536)]
    pub total_kv_blocks: u32,
    /// What it does for a prompt: all of it, or one of two engines' halves
    #[arg(long, value_enum, default_value_t)]
    pub role: MockRole,
    /// How a prefill and a decode engine hand a prompt over. SGLang's meet at the prefill engine's own port
    #[arg(long, value_enum, default_value_t)]
    pub protocol: MockProtocol,
    /// A vLLM decode engine also computes prompts that nobody handed over
    #[arg(long)]
    pub computes_prompts: bool,
    /// Length of an embedding vector
    #[arg(long, default_value_t = 8)]
    pub embedding_dims: u32,
}

/// What a mock engine does for a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum MockRole {
    /// Prefill and decode.
    #[default]
    Aggregated,
    /// Prefill only: it refuses whatever asks for more.
    Prefill,
    /// Decode only: it refuses a prompt that nobody computed for it.
    Decode,
}

/// How two mock engines hand a prompt over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum MockProtocol {
    /// By `kv_transfer_params`, one after the other.
    #[default]
    Vllm,
    /// By `bootstrap_host`, `bootstrap_port` and `bootstrap_room`, both at once.
    Sglang,
}

fn default_addr() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn default_model() -> String {
    "mock-model".to_owned()
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            addr: default_addr(),
            name: "mock".to_owned(),
            models: vec![default_model()],
            prefill_tokens_per_s: 0.0,
            prefill_ms: None,
            decode_tokens_per_s: 0.0,
            decode_ms: None,
            max_num_seqs: 256,
            output_tokens: 16,
            max_model_len: 131_072,
            block_size: 16,
            total_kv_blocks: 65_536,
            role: MockRole::Aggregated,
            protocol: MockProtocol::Vllm,
            computes_prompts: false,
            embedding_dims: 8,
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A count that must be at least one is zero.
    #[error("{field} is 0; give at least 1")]
    Zero {
        /// The field as it is written in the configuration.
        field: &'static str,
    },
    /// A speed or a time is negative, infinite or not a number.
    #[error("{field} is {value}; give a number of at least 0 and at most {MOST}")]
    NotASpeed {
        /// The field as it is written in the configuration.
        field: &'static str,
        /// What was given.
        value: String,
    },
    /// The engine's name cannot be sent in a header.
    #[error("the name {name:?} can't be sent in a header; use visible ASCII characters")]
    Name {
        /// What was given.
        name: String,
    },
    /// No model is named.
    #[error("no model is named; give at least one")]
    NoModel,
}

/// The highest speed and the longest time accepted: both far beyond use, and both safe to convert into a `Duration`.
const MOST: f64 = 1e9;

impl MockConfig {
    /// Refuses what no engine could run with.
    ///
    /// # Errors
    ///
    /// The first field that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (field, value) in [
            ("max_num_seqs", self.max_num_seqs),
            ("output_tokens", self.output_tokens),
            ("max_model_len", self.max_model_len),
            ("block_size", self.block_size),
            ("total_kv_blocks", self.total_kv_blocks),
            ("embedding_dims", self.embedding_dims),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero { field });
            }
        }
        for (field, value) in [
            ("prefill_tokens_per_s", Some(self.prefill_tokens_per_s)),
            ("prefill_ms", self.prefill_ms),
            ("decode_tokens_per_s", Some(self.decode_tokens_per_s)),
            ("decode_ms", self.decode_ms),
        ] {
            if let Some(value) = value
                && !(0.0..=MOST).contains(&value)
            {
                return Err(ConfigError::NotASpeed { field, value: value.to_string() });
            }
        }
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ConfigError::Name { name: self.name.clone() });
        }
        if self.models.is_empty() {
            return Err(ConfigError::NoModel);
        }
        Ok(())
    }

    /// How long a prompt of so many tokens takes before its first token.
    pub(super) fn prefill_time(&self, tokens: usize) -> Duration {
        match self.prefill_ms {
            Some(ms) => milliseconds(ms),
            None => per_second(self.prefill_tokens_per_s, tokens),
        }
    }

    /// The time between two tokens of one stream.
    pub(super) fn decode_interval(&self) -> Duration {
        match self.decode_ms {
            Some(ms) => milliseconds(ms),
            None => per_second(self.decode_tokens_per_s, 1),
        }
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

/// The time for so many tokens; no time at all for a speed of zero, which means "instant". A speed so low that the time
/// leaves the range of `Duration` waits for as long as the timer can.
fn per_second(speed: f64, tokens: usize) -> Duration {
    if speed <= 0.0 {
        return Duration::ZERO;
    }
    let seconds = tokens as f64 / speed;
    Duration::try_from_secs_f64(seconds.min(MOST)).unwrap_or_default()
}
