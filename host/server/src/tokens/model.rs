//! A model's tokenizer and chat templates, from the files that the model comes with.
//!
//! Owns which files are read and which of them wins, as `transformers` does it: `tokenizer.json`;
//! special tokens from `tokenizer_config.json`, else `special_tokens_map.json`; templates from
//! `chat_template.jinja` and `additional_chat_templates/`, else from `chat_template.json`, else
//! from `tokenizer_config.json`. An operator's own template wins over all of them, as
//! `--chat-template` does in the engine. Of some models' conversations vLLM makes prompts without a
//! template; `config.json` tells which.
//!
//! It reads files once, when it is told to, and knows no request.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;

use super::encode::Encoder;
use super::settings::TokenSettings;
use super::template::{Template, TemplateError, TemplateLimits};

/// The special tokens that templates know by name.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The template that is taken unless another fits better.
const DEFAULT: &str = "default";

/// The template for conversations with tools.
const TOOL_USE: &str = "tool_use";

/// A `tokenizer.json` may be at most this long; the largest have a tenth of it.
const LONGEST_TOKENIZER: u64 = 256 << 20;

/// Any other file may be at most this long; the largest have half of it.
const LONGEST_FILE: u64 = 4 << 20;

/// Why a model's files can't be used.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A file can't be read.
    #[error("{path} can't be read: {source}; give the folder with the model's tokenizer.json")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is too long.
    #[error("{path} has more than {most} bytes; give the model's own file, which is shorter")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
    /// It is no regular file: a pipe, a device, a folder.
    #[error("{path} is not a regular file; copy the model's file there")]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// A file isn't JSON of the right form.
    #[error("{path} can't be understood: {source}; copy it again from the model")]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// `tokenizer.json` isn't one.
    #[error(
        "{path} is no tokenizer that can be used: {problem}; copy it again from the model, or set source to engine"
    )]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// A template isn't one.
    #[error("{path}: {source}")]
    Template {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TemplateError,
    },
}

/// What a model's files say.
#[derive(Debug)]
pub(super) struct ModelTokenizer {
    encoder: Encoder,
    templates: BTreeMap<String, Template>,
    /// What makes conversations of this model into prompts in the engine, if no template does.
    own_format: Option<&'static str>,
}

#[derive(Debug, Default, Deserialize)]
struct Config {
    chat_template: Option<Templates>,
    #[serde(default)]
    split_special_tokens: bool,
    #[serde(flatten)]
    others: serde_json::Map<String, Json>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl Templates {
    fn named(self) -> Vec<(String, String)> {
        match self {
            Self::One(template) => vec![(DEFAULT.to_owned(), template)],
            Self::Named(all) => all.into_iter().map(|each| (each.name, each.template)).collect(),
        }
    }
}

/// `chat_template.json`, which older processors write.
#[derive(Debug, Deserialize)]
struct TemplateFile {
    chat_template: Templates,
}

impl ModelTokenizer {
    /// Reads a model's files: `tokenizer` is its folder, or its `tokenizer.json`.
    pub(super) fn load(tokenizer: &Path, settings: &TokenSettings) -> Result<Self, ModelError> {
        let file = match tokenizer.is_dir() {
            true => tokenizer.join("tokenizer.json"),
            false => tokenizer.to_owned(),
        };
        let folder = file.parent().unwrap_or(Path::new("."));
        let config_file = folder.join("tokenizer_config.json");
        let config: Config = optional_json(&config_file)?.unwrap_or_default();
        let map: Option<serde_json::Map<String, Json>> =
            optional_json(&folder.join("special_tokens_map.json"))?;
        let special_tokens = special_tokens(&config.others, &map.unwrap_or_default());

        let bytes = required(&file, LONGEST_TOKENIZER)?;
        let problem = |problem| ModelError::Tokenizer { path: file.clone(), problem };
        let encoder = Encoder::new(&bytes, config.split_special_tokens).map_err(problem)?;
        let limits = TemplateLimits {
            fuel: settings.limits.template_fuel,
            text_bytes: settings.limits.text_bytes,
        };
        let mut model = Self { encoder, templates: BTreeMap::new(), own_format: None };
        if settings.chat_template.is_none() {
            model.own_format = own_format(folder)?;
        }
        let sources = match &settings.chat_template {
            Some(path) => vec![(DEFAULT.to_owned(), text(path)?, path.clone())],
            None => templates(folder, &config_file, config.chat_template)?,
        };
        for (name, source, path) in sources {
            let template = Template::new(&source, special_tokens.clone(), limits);
            let template = template.map_err(|source| ModelError::Template { path, source })?;
            model.templates.insert(name, template);
        }
        Ok(model)
    }

    /// Its tokenizer.
    pub(super) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// What makes conversations into prompts in the engine, if no template does.
    pub(super) fn own_format(&self) -> Option<&'static str> {
        self.own_format
    }

    /// The template for a conversation with or without tools; none if the model has none.
    pub(super) fn template_for(&self, has_tools: bool) -> Option<&Template> {
        let tools = self.templates.get(TOOL_USE).filter(|_| has_tools);
        tools.or_else(|| self.templates.get(DEFAULT))
    }
}

/// Models whose conversations vLLM makes into prompts with code of its own, by their type or
/// architecture in `config.json`, whatever templates they have.
const OWN_FORMATS: [(&str, &str); 9] = [
    ("gpt_oss", "harmony"),
    ("DeepseekV32ForCausalLM", "deepseek_v32"),
    ("DeepseekV4ForCausalLM", "deepseek_v4"),
    ("DeepseekV4ForConditionalGeneration", "deepseek_v4"),
    ("DeepseekV41ForCausalLM", "deepseek_v41"),
    ("KimiK3ForConditionalGeneration", "kimi_k3"),
    ("MoonshotKimiaForCausalLM", "kimi_audio"),
    ("InklingForCausalLM", "inkling"),
    ("InklingForConditionalGeneration", "inkling"),
];

#[derive(Debug, Default, Deserialize)]
struct ModelConfig {
    model_type: Option<String>,
    #[serde(default)]
    architectures: Vec<String>,
}

/// The model's own format, if it has one.
fn own_format(folder: &Path) -> Result<Option<&'static str>, ModelError> {
    let config: ModelConfig = optional_json(&folder.join("config.json"))?.unwrap_or_default();
    let names: Vec<String> = config.architectures.into_iter().chain(config.model_type).collect();
    let own = OWN_FORMATS.iter().find(|(name, _)| names.iter().any(|own| own == name));
    // With weights in Mistral's form, vLLM takes Mistral's tokenizer too.
    let is_part = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("consolidated") && name.ends_with(".safetensors")
    };
    let is_mistral = || folder.join("tekken.json").is_file() && files(folder).iter().any(is_part);
    Ok(own.map(|(_, format)| *format).or_else(|| is_mistral().then_some("mistral-common")))
}

/// Names, templates, and the files that they are from.
fn templates(
    folder: &Path,
    config_file: &Path,
    configured: Option<Templates>,
) -> Result<Vec<(String, String, PathBuf)>, ModelError> {
    let mut found = Vec::new();
    let jinja = folder.join("chat_template.jinja");
    if let Some(template) = optional(text(&jinja))? {
        found.push((DEFAULT.to_owned(), template, jinja));
    }
    for path in files(&folder.join("additional_chat_templates")) {
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some(name) = name.filter(|_| path.extension().is_some_and(|kind| kind == "jinja")) {
            found.push((name, text(&path)?, path));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let legacy = folder.join("chat_template.json");
    let (templates, path) = match optional_json::<TemplateFile>(&legacy)? {
        Some(file) => (Some(file.chat_template), legacy),
        None => (configured, config_file.to_owned()),
    };
    let named = templates.map(Templates::named).unwrap_or_default();
    Ok(named.into_iter().map(|(name, template)| (name, template, path.clone())).collect())
}

/// The files of a folder, in order. A folder that isn't there has none.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// The named tokens: a text each, or an object that has it as its content.
fn special_tokens(
    config: &serde_json::Map<String, Json>,
    map: &serde_json::Map<String, Json>,
) -> Vec<(String, String)> {
    let of = |from: &serde_json::Map<String, Json>, name: &str| {
        let value = from.get(name)?;
        let text = value.as_str().or_else(|| value.get("content").and_then(Json::as_str));
        text.map(str::to_owned)
    };
    let token = |name: &&str| {
        let known = config.contains_key(*name);
        let token = if known { of(config, name) } else { of(map, name) };
        token.map(|token| ((*name).to_owned(), token))
    };
    NAMED_TOKENS.iter().filter_map(token).collect()
}

/// A regular file, and no more of it than is taken.
fn required(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let unreadable = |source| ModelError::Unreadable { path: path.to_owned(), source };
    let too_long = || ModelError::TooLong { path: path.to_owned(), most };
    let file = pointsman_wasm::open_regular(path).map_err(unreadable)?;
    let file = file.ok_or_else(|| ModelError::NotAFile { path: path.to_owned() })?;
    if file.metadata().map_err(unreadable)?.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

fn text(path: &Path) -> Result<String, ModelError> {
    String::from_utf8(required(path, LONGEST_FILE)?).map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error.utf8_error());
        ModelError::Unreadable { path: path.to_owned(), source }
    })
}

/// None where nothing is.
fn optional<T>(read: Result<T, ModelError>) -> Result<Option<T>, ModelError> {
    match read {
        Err(ModelError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn optional_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, ModelError> {
    let Some(bytes) = optional(required(path, LONGEST_FILE))? else { return Ok(None) };
    let read = serde_json::from_slice(&bytes);
    read.map(Some).map_err(|source| ModelError::Json { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
