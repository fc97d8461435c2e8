//! `tokenizers`: what makes prompts into tokens, by model.
//!
//! The files that it names are looked for when the router starts, and by `check`:
//! [`Config::missing_files`].

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::error::{ConfigError, Problem};
use super::keys::{TOKENIZER, TOKENIZER_LIMITS};
use super::places::Places;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, Expected, Read, count, duration, size};
use super::{Config, TokenizerPool, parameters};
use crate::tokens::{Choice, ContentFormat, Limits, TokenSettings};

const SOURCES: &[(&str, Choice)] = &[
    ("auto", Choice::Auto),
    ("tokenizer", Choice::Tokenizer),
    ("engine", Choice::Engine),
    ("text", Choice::Text),
];

/// As engines call them.
const FORMATS: &[(&str, Option<ContentFormat>)] = &[
    ("auto", None),
    ("string", Some(ContentFormat::Text)),
    ("openai", Some(ContentFormat::Parts)),
];

/// How long a prompt may take to become tokens.
pub(super) const PATIENCE: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

/// A day, either way.
const MOST_OFFSET: i32 = 86_400;

impl Config {
    /// The files that the tokenizers name and that aren't there, as mistakes.
    #[must_use]
    pub fn missing_files(&self) -> Vec<ConfigError> {
        let named = self.places.keys_below("tokenizers[");
        let paths = named.filter_map(|(key, at)| Some((at, self.tokenizer_path(key)?)));
        let missing = paths.filter(|(_, path)| !path.exists());
        missing
            .map(|(at, path)| ConfigError {
                at: at.clone(),
                problem: Problem::Refused {
                    what: format!("nothing is at {}", path.display()),
                    remedy: "name the model's folder or file; relative paths begin at this file"
                        .to_owned(),
                },
            })
            .collect()
    }

    /// The same without the tokenizers that these mistakes are about.
    #[must_use]
    pub fn without_tokenizers(&self, mistakes: &[ConfigError]) -> Self {
        let mut config = self.clone();
        config.tokenizers.retain(|model, _| {
            let item = self.tokenizer_place(model).map(|at| format!("{}.", at.path));
            let is_of = |mistake: &ConfigError| {
                item.as_ref().is_some_and(|item| mistake.at.path.starts_with(item))
            };
            !mistakes.iter().any(is_of)
        });
        config
    }

    /// Where the tokenizer of a model stands in the file.
    #[must_use]
    pub fn tokenizer_place(&self, model: &str) -> Option<&super::At> {
        self.places.tokenizers.get(model)
    }

    fn tokenizer_path(&self, key: &str) -> Option<&std::path::Path> {
        let (item, file) = key.rsplit_once('.')?;
        let (model, _) = self.places.tokenizers.iter().find(|(_, at)| at.path == item)?;
        let settings = self.tokenizers.get(model)?;
        match file {
            "tokenizer" => settings.tokenizer.as_deref(),
            _ => settings.chat_template.as_deref(),
        }
    }
}

pub(super) fn read(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    pool: TokenizerPool,
    places: &mut Places,
) -> BTreeMap<Arc<str>, TokenSettings> {
    let mut models: BTreeMap<Arc<str>, TokenSettings> = BTreeMap::new();
    for item in cx.list(spot) {
        let Some(fields) = cx.fields(&item, &TOKENIZER) else { continue };
        let model = cx.required(&fields, "model");
        let name = model.as_ref().and_then(|spot| cx.read(spot, scalar::name));
        let settings = settings(cx, &fields, pool, places);
        let (Some(spot), Some(name)) = (model, name) else { continue };
        let name: Arc<str> = name.into();
        if let Some(first) = places.tokenizers.get(&name) {
            let what = format!("another tokenizer, in line {}, is for {name:?}", first.place.line);
            cx.refuse(&spot, what, "keep one of them");
            continue;
        }
        places.tokenizers.insert(name.clone(), cx.at(&item));
        models.insert(name, settings);
    }
    models
}

fn settings(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    pool: TokenizerPool,
    places: &mut Places,
) -> TokenSettings {
    let mut settings = TokenSettings::default();
    cx.set(fields, "source", scalar::word(SOURCES), &mut settings.source);
    for (key, to) in
        [("tokenizer", &mut settings.tokenizer), ("chat_template", &mut settings.chat_template)]
    {
        if let Some(spot) = fields.get(key) {
            places.add_key(cx.at(&spot));
            *to = cx.path(&spot);
        }
    }
    cx.set(fields, "content_format", scalar::word(FORMATS), &mut settings.content_format);
    if let Some(spot) = fields.get("template_defaults") {
        settings.template_defaults = parameters::read(cx, &spot);
    }
    let excludes = &mut settings.exclude_tools_when_none;
    cx.set(fields, "exclude_tools_when_none", scalar::switch, excludes);
    cx.set(fields, "bytes_per_token", count(1..=64), &mut settings.bytes_per_token);
    cx.set(fields, "utc_offset", offset, &mut settings.utc_offset);
    if let Some(spot) = fields.get("limits") {
        settings.limits = limits(cx, &spot);
    }
    settings.limits.threads = pool.threads;
    settings.limits.waiting = pool.queue;
    settings.limits.patience = pool.timeout;
    agree(cx, fields, &settings);
    settings
}

fn limits(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Limits {
    let mut limits = Limits::default();
    let Some(fields) = cx.fields(spot, &TOKENIZER_LIMITS) else { return limits };
    cx.set(&fields, "text_bytes", size(1 << 10..=1 << 30), &mut limits.text_bytes);
    let fuel = count(10_000..=1_000_000_000);
    cx.set(&fields, "template_fuel", fuel, &mut limits.template_fuel);
    cx.set(&fields, "inline_bytes", size(0..=64 << 10), &mut limits.inline_bytes);
    cx.set(&fields, "cache_bytes", size(0..=64 << 30), &mut limits.cache_bytes);
    let patience = Duration::from_millis(1)..=Duration::from_secs(60);
    cx.set(&fields, "engine_timeout", duration(patience), &mut limits.engine_timeout);
    limits
}

/// Nothing is set that has no use.
fn agree(cx: &mut Reader<'_>, fields: &Fields<'_>, settings: &TokenSettings) {
    if settings.source == Choice::Tokenizer && fields.get("tokenizer").is_none() {
        let spot = fields.get("source").unwrap_or_else(|| fields.spot().clone());
        cx.refuse(&spot, "there is no tokenizer", "give `tokenizer`, or set auto");
    }
    if matches!(settings.source, Choice::Engine | Choice::Text)
        && let Some(spot) = fields.get("tokenizer")
    {
        let remedy = "take it out, or set the source to auto or tokenizer";
        cx.refuse(&spot, "a tokenizer that the source leaves unused", remedy);
    }
}

fn offset(text: &str) -> Read<i32> {
    let number = scalar::number(text).ok().filter(|number| number.fract() == 0.0);
    let offset = number.filter(|number| number.abs() <= f64::from(MOST_OFFSET));
    offset
        .map(|number| number as i32)
        .ok_or_else(|| Expected::new(format!("whole seconds, -{MOST_OFFSET} to {MOST_OFFSET}")))
}
