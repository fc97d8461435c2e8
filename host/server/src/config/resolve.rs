//! From the text of a file to a [`Config`].

use std::path::Path;
use std::sync::Arc;

use super::document::Document;
use super::environment::{Environment, Strings};
use super::error::ConfigErrors;
use super::keys::ROOT;
use super::places::Places;
use super::process::{self, DRAIN};
use super::reader::{Reader, Spot};
use super::{
    Config, classifier, file, listener, queue, recording, scalar, selection, tokenizers, workers,
};

impl Config {
    /// Reads a file. Relative paths in it begin at the file's folder.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn from_path(path: &Path) -> Result<Self, ConfigErrors> {
        Self::from_path_with(path, &Environment)
    }

    /// As [`Config::from_path`], with named texts from elsewhere than the process's environment.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn from_path_with(path: &Path, strings: &dyn Strings) -> Result<Self, ConfigErrors> {
        let bytes = file::read(path)
            .map_err(|source| ConfigErrors::Unreadable { path: path.to_owned(), source })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::from_bytes(&path.display().to_string(), &bytes, base, strings)
    }

    /// Reads a text. `name` stands for the file in messages; relative paths begin at `base`.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn from_yaml(name: &str, text: &str, base: &Path) -> Result<Self, ConfigErrors> {
        Self::from_bytes(name, text.as_bytes(), base, &Environment)
    }

    /// Reads bytes, with named texts from elsewhere than the process's environment.
    ///
    /// # Errors
    ///
    /// All that is wrong with them.
    pub fn from_bytes(
        name: &str,
        bytes: &[u8],
        base: &Path,
        strings: &dyn Strings,
    ) -> Result<Self, ConfigErrors> {
        let Document { root, mistakes } = Document::read(bytes);
        let mut cx = Reader::new(name, base, strings, mistakes);
        let config = root.as_ref().map(|root| read(&mut cx, &Spot::root(root)));
        cx.finish()?;
        // Nothing is read only where something is wrong.
        config.flatten().ok_or(ConfigErrors::Invalid { mistakes: Vec::new(), more: 0 })
    }
}

fn read(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<Config> {
    let fields = cx.fields(spot, &ROOT)?;
    let Config {
        mut listen,
        mut admin,
        mut selection,
        mut settings,
        mut shared_cache,
        mut workers,
        tokenizers: mut models,
        mut tokenizer_pool,
        mut proxy,
        mut health,
        mut wasm,
        mut recording,
        mut drain_timeout,
        ..
    } = Config::default();
    let mut queueing = queue::RouterWide::default();
    let mut places = Places::default();
    for key in ["listen", "admin", "policies_dir", "workers"] {
        if let Some(spot) = fields.get(key) {
            places.add_key(cx.at(&spot));
        }
    }
    if let Some(spot) = fields.get("listen") {
        listen = listener::read(cx, &spot, listen, &mut places);
    }
    if let Some(spot) = fields.get("admin") {
        admin = listener::read(cx, &spot, admin, &mut places);
    }
    listener::check(cx, &fields, &listen, &admin);
    let policies_dir = fields.get("policies_dir").and_then(|spot| cx.path(&spot));
    if let Some(spot) = fields.get("router") {
        let (read, shared, wide) = process::router(cx, &spot, &mut places);
        (settings, shared_cache, queueing) = (read.into(), shared, wide);
    }
    let queue = queue::read(cx, &fields, queueing);
    if let Some(spot) = fields.get("worker_selection") {
        selection = selection::read(cx, &spot, &mut places);
    }
    let classifier = fields.get("request_classifier");
    let classifier = classifier.and_then(|spot| classifier::read(cx, &spot, &mut places));
    if let Some(spot) = fields.get("workers") {
        workers = workers::read(cx, &spot, &mut places);
    }
    cx.set(&fields, "tokenizer_threads", scalar::count(1..=256), &mut tokenizer_pool.threads);
    cx.set(&fields, "tokenizer_queue", scalar::count(1..=1_000_000), &mut tokenizer_pool.queue);
    let patience = scalar::duration(tokenizers::PATIENCE);
    cx.set(&fields, "tokenizer_timeout", patience, &mut tokenizer_pool.timeout);
    if let Some(spot) = fields.get("tokenizers") {
        models = tokenizers::read(cx, &spot, tokenizer_pool, &mut places);
    }
    if let Some(spot) = fields.get("proxy") {
        proxy = process::proxy(cx, &spot);
    }
    if let Some(spot) = fields.get("health") {
        health = process::health(cx, &spot);
    }
    if let Some(spot) = fields.get("wasm") {
        wasm = process::wasm(cx, &spot);
    }
    if let Some(spot) = fields.get("recording") {
        recording = recording::read(cx, &spot, &mut places);
    }
    cx.set(&fields, "drain_timeout", scalar::duration(DRAIN), &mut drain_timeout);
    Some(Config {
        listen,
        admin,
        policies_dir,
        selection,
        classifier,
        settings,
        queue: Arc::new(queue),
        shared_cache,
        workers,
        tokenizers: models,
        tokenizer_pool,
        proxy,
        health,
        wasm,
        recording,
        drain_timeout,
        places,
    })
}
