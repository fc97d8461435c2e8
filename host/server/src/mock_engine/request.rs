//! From an inference request's body to a [`Job`]: what is to be generated, checked as a vLLM checks it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config::MockConfig;
use super::error::ApiError;
use super::prompt::{Prompt, brief};
use super::visit::Finish;

/// The most choices one request may have in total, against a slip that would ask for millions.
const MOST_CHOICES: usize = 1024;

/// Which of the two generating endpoints was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Completion,
}

/// Work for the engine: every field has been checked.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) model: String,
    pub(super) prompts: Vec<Prompt>,
    /// What the prompts' blocks are kept apart by.
    pub(super) cache_salt: Option<String>,
    /// How many answers, over all prompts: at least one.
    pub(super) choices: usize,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Tokens to generate for each choice: at least one.
    pub(super) tokens: u32,
    pub(super) finish: Finish,
}

impl Job {
    /// The tokens of all prompts; further choices of the same prompt don't count again.
    pub(super) fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.tokens.len()).sum()
    }
}

/// The fields in use; a vLLM accepts and ignores many more, and so does this.
#[derive(Deserialize)]
struct Fields {
    model: Option<String>,
    messages: Option<Value>,
    prompt: Option<Texts>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    n: Option<i64>,
    temperature: Option<f64>,
    cache_salt: Option<String>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// One or many texts, as text or as token ids.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Texts {
    Text(String),
    Many(Vec<String>),
    Ids(Vec<u32>),
    ManyIds(Vec<Vec<u32>>),
}

impl Texts {
    pub(super) fn prompts(self) -> Result<Vec<Prompt>, ApiError> {
        match self {
            Self::Text(text) => Ok(vec![Prompt::from_text(&text)]),
            Self::Many(texts) => Ok(texts.iter().map(|text| Prompt::from_text(text)).collect()),
            Self::Ids(ids) => Ok(vec![Prompt::from_ids(ids)?]),
            Self::ManyIds(lists) => lists.into_iter().map(Prompt::from_ids).collect(),
        }
    }
}

impl Job {
    /// Reads a request.
    pub(super) fn parse(kind: Kind, body: &[u8], config: &MockConfig) -> Result<Self, ApiError> {
        let fields: Fields = parse(body)?;
        let prompts = match kind {
            Kind::Chat => vec![Prompt::from_messages(
                fields.messages.as_ref().ok_or_else(|| missing(body, "messages"))?,
            )?],
            Kind::Completion => fields.prompt.map(Texts::prompts).transpose()?.unwrap_or_default(),
        };
        if prompts.iter().all(|prompt| prompt.tokens.is_empty()) {
            let message =
                "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)";
            return Err(ApiError::bad_request(message, Some("prompt")));
        }
        if let Some(temperature) = fields.temperature
            && temperature < 0.0
        {
            let message = format!("temperature must be non-negative, got {temperature:?}.");
            return Err(ApiError::parameter(
                &message,
                "temperature",
                format_args!("{temperature:?}"),
            ));
        }
        if fields.cache_salt.as_deref() == Some("") {
            let message = "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)";
            return Err(ApiError::bad_request(message, Some("cache_salt")));
        }
        let stream = fields.stream.unwrap_or(false);
        if fields.stream_options.is_some() && !stream {
            let message =
                "Stream options can only be defined when `stream=True`. (parameter=stream_options)";
            return Err(ApiError::bad_request(message, Some("stream_options")));
        }
        let choices = choices(fields.n.unwrap_or(1), prompts.len())?;
        let model = model(fields.model, config)?;
        let (tokens, finish) =
            length(fields.max_completion_tokens.or(fields.max_tokens), &prompts, config)?;
        let include_usage = fields.stream_options.is_some_and(|options| options.include_usage);
        let cache_salt = fields.cache_salt;
        Ok(Self {
            kind,
            model,
            prompts,
            cache_salt,
            choices,
            stream,
            include_usage,
            tokens,
            finish,
        })
    }
}

/// The name of the model to answer with: the one asked for, else the first served.
pub(super) fn model(asked: Option<String>, config: &MockConfig) -> Result<String, ApiError> {
    match asked {
        Some(model) if config.models.contains(&model) => Ok(model),
        Some(model) => Err(ApiError::unknown_model(&model, &config.models)),
        None => Ok(config.models.first().cloned().unwrap_or_default()),
    }
}

fn choices(n: i64, prompts: usize) -> Result<usize, ApiError> {
    let choices = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| n.checked_mul(prompts));
    match choices {
        Some(choices) if choices <= MOST_CHOICES => Ok(choices),
        Some(_) => Err(ApiError::parameter(
            &format!("n must be at most {}, got {n}.", MOST_CHOICES / prompts),
            "n",
            n,
        )),
        None => Err(ApiError::parameter(&format!("n must be at least 1, got {n}."), "n", n)),
    }
}

/// How many tokens to generate, and how that ends.
fn length(
    asked: Option<i64>,
    prompts: &[Prompt],
    config: &MockConfig,
) -> Result<(u32, Finish), ApiError> {
    let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or(0);
    let room = room(longest, config)?;
    let Some(asked) = asked else { return Ok((config.output_tokens.min(room), Finish::Stop)) };
    if asked < 1 {
        return Err(ApiError::parameter(
            &format!("max_tokens must be at least 1, got {asked}."),
            "max_tokens",
            asked,
        ));
    }
    let most = config.max_model_len;
    if asked > i64::from(most) {
        let message = format!(
            "max_tokens={asked} cannot be greater than max_model_len={most}. Please request fewer output tokens."
        );
        return Err(ApiError::parameter(&message, "max_tokens", asked));
    }
    match u32::try_from(asked) {
        Ok(tokens) if tokens <= room => Ok((tokens, Finish::Length)),
        _ => {
            let message = format!(
                "This model's maximum context length is {most} tokens. However, you requested {asked} output tokens and your \
                 prompt contains {longest} input tokens. Please reduce the length of the input prompt or the number of \
                 requested output tokens."
            );
            Err(ApiError::parameter(&message, "max_tokens", asked))
        }
    }
}

/// How many tokens a prompt of this length leaves room for: at least one.
pub(super) fn room(prompt: usize, config: &MockConfig) -> Result<u32, ApiError> {
    let most = config.max_model_len;
    match u32::try_from(prompt)
        .ok()
        .and_then(|prompt| most.checked_sub(prompt))
        .filter(|room| *room > 0)
    {
        Some(room) => Ok(room),
        None => {
            let over = u64::from(most) + 1;
            let message = format!(
                "This model's maximum context length is {most} tokens. However, your prompt contains at least {over} input \
                 tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
            );
            Err(ApiError::parameter(&message, "input_tokens", over))
        }
    }
}

/// Reads a JSON body; what is wrong with it is told in vLLM's words.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            let text = error.to_string().replace('\'', "\"");
            return ApiError::validation("value_error", "body", &format!("'msg': '{text}', 'input': '{}'", whole(body)));
        }
        let before: usize = body.split_inclusive(|byte| *byte == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
        let place = format!("body.{}", (before + error.column()).min(body.len()));
        let detail = "'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}";
        ApiError::validation("json_invalid", &place, detail)
    })
}

/// A field that must be there and isn't.
pub(super) fn missing(body: &[u8], field: &str) -> ApiError {
    let detail = format!("'msg': 'Field required', 'input': '{}'", whole(body));
    ApiError::validation("missing", &format!("body.{field}"), &detail)
}

fn whole(body: &[u8]) -> String {
    serde_json::from_slice(body).map(|value| brief(&value)).unwrap_or_default()
}
