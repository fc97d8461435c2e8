//! What is set for one model's tokens. Whoever reads the configuration makes these.

use std::path::PathBuf;
use std::time::Duration;

use super::template::ContentFormat;

/// Where tokens come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The tokenizer if there is one, and an engine for what it can't do; without one, the text.
    #[default]
    Auto,
    /// The tokenizer alone; what it can't do is an estimate.
    Tokenizer,
    /// The engine's `/tokenize`; one more round trip for each request.
    Engine,
    /// Chunks of text.
    Text,
}

/// The settings.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// Where tokens come from.
    pub source: Choice,
    /// A folder with `tokenizer.json` and its companions, or that file. None: there is none.
    pub tokenizer: Option<PathBuf>,
    /// A file with the chat template, if the engine was started with one (`--chat-template`).
    pub chat_template: Option<PathBuf>,
    /// How the template takes content, if the engine was started with a word on it
    /// (`--chat-template-content-format`). None: found out from the template.
    pub content_format: Option<ContentFormat>,
    /// Variables for the template, as JSON objects' members, if the engine was started with some
    /// (`--default-chat-template-kwargs`).
    pub template_defaults: serde_json::Map<String, serde_json::Value>,
    /// Whether the engine leaves tools out when a request says `tool_choice: none`
    /// (`--exclude-tools-when-tool-choice-none`).
    pub exclude_tools_when_none: bool,
    /// Bytes of text that count as one token where nothing knows better: 1 to 64.
    pub bytes_per_token: u32,
    /// How far engines' clocks on the wall are from UTC, for templates that write the date.
    /// Seconds, -86,400 to 86,400; 0 unless set.
    pub utc_offset: i32,
    /// What may be used up.
    pub limits: Limits,
}

/// Limits, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest prompt, in bytes of text, that is made into tokens; of longer ones the length
    /// is estimated. 1 KiB to 1 GiB, 4 MiB unless set: about a million tokens.
    pub text_bytes: usize,
    /// Fuel for one rendering of the template: about one for a step, one for each 64 bytes made on
    /// the way. 10,000 to 1,000,000,000; 4,000,000 unless set, which is about 0.2 s and 256 MB.
    pub template_fuel: u64,
    /// The longest text, in bytes, that is tokenised on the thread that asks. Pieces in the cache
    /// don't count. 0 to 64 KiB, 1 KiB unless set: about 0.4 ms.
    pub inline_bytes: usize,
    /// Threads that tokenise longer texts at the same time, for all models that share the pool,
    /// besides the one that is kept for short prompts. 1 to 256, 2 unless set.
    pub threads: usize,
    /// Prompts that may wait for such a thread; of one more the length is estimated. 1 to
    /// 1,000,000, 1,024 unless set.
    pub waiting: usize,
    /// How long a prompt may wait for such a thread, and be in work there, before its length is
    /// estimated. 10 ms to 60 s, 2 s unless set.
    pub patience: Duration,
    /// Bytes that the cache of tokenised pieces may take. 0 switches it off; 64 MiB unless set.
    pub cache_bytes: usize,
    /// How long an engine may take to answer `/tokenize`. 1 ms to 60 s, 500 ms unless set.
    pub engine_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_bytes: 4 << 20,
            template_fuel: 4_000_000,
            inline_bytes: 1 << 10,
            threads: 2,
            waiting: 1_024,
            patience: Duration::from_secs(2),
            cache_bytes: 64 << 20,
            engine_timeout: Duration::from_millis(500),
        }
    }
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self {
            source: Choice::Auto,
            tokenizer: None,
            chat_template: None,
            content_format: None,
            template_defaults: serde_json::Map::new(),
            exclude_tools_when_none: false,
            bytes_per_token: 4,
            utc_offset: 0,
            limits: Limits::default(),
        }
    }
}
