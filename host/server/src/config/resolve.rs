//! From the text of a file to a [`Config`].

use std::path::Path;
use std::sync::Arc;

use super::document::Document;
use super::environment::{Environment, Strings};
use super::error::{ConfigError, ConfigErrors};
use super::keys::ROOT;
use super::places::Places;
use super::process::{self, DRAIN};
use super::reader::{Reader, Spot};
use super::{
    Config, classifier, discovery, epp, file, listener, overrides, queue, recording, scalar,
    select, selection, tokenizers, workers,
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
        Draft::from_path(path, strings)?.finish()
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
        Draft::read(name, bytes, base, strings).finish()
    }
}

/// A configuration as far as it could be read, with what is wrong in it: for whoever looks for further
/// mistakes in what is sound.
#[derive(Debug)]
pub(crate) struct Draft {
    /// What could be read, with the default in place of each value that couldn't; none if nothing.
    pub(crate) config: Option<Config>,
    /// The first mistakes, in the order of their places.
    pub(crate) mistakes: Vec<ConfigError>,
    /// How many there are beside them.
    pub(crate) more: usize,
}

impl Draft {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It can't be read at all.
    pub(crate) fn from_path(path: &Path, strings: &dyn Strings) -> Result<Self, ConfigErrors> {
        let bytes = file::read(path)
            .map_err(|source| ConfigErrors::Unreadable { path: path.to_owned(), source })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Ok(Self::read(&path.display().to_string(), &bytes, base, strings))
    }

    fn read(name: &str, bytes: &[u8], base: &Path, strings: &dyn Strings) -> Self {
        let Document { root, mistakes } = Document::read(bytes);
        let mut cx = Reader::new(name, base, strings, mistakes);
        let config = root.as_ref().and_then(|root| read(&mut cx, &Spot::root(root)));
        let (mistakes, more) = cx.finish();
        Self { config, mistakes, more }
    }

    /// Whether nothing is wrong with a part of the file, as far as that can be told.
    pub(crate) fn is_sound(&self, part: &str) -> bool {
        let concerns = |mistake: &ConfigError| {
            let rest = mistake.at.path.strip_prefix(part);
            mistake.at.path.is_empty()
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.more == 0 && !self.mistakes.iter().any(concerns)
    }

    fn finish(self) -> Result<Config, ConfigErrors> {
        let Self { config, mistakes, more } = self;
        match config {
            Some(config) if mistakes.is_empty() => Ok(config),
            // Nothing is read only where something is wrong.
            _ => Err(ConfigErrors::Invalid { mistakes, more }),
        }
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
        mut load_reports,
        mut wasm,
        mut recording,
        mut drain_timeout,
        ..
    } = Config::default();
    let mut queueing = queue::RouterWide::default();
    let mut places = Places::default();
    let noted = [
        "listen",
        "admin",
        "select",
        "epp",
        "policies_dir",
        "workers",
        "router",
        "policy_classes",
        "models",
    ];
    for key in noted {
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
    let select = fields.get("select").map(|spot| select::read(cx, &spot, &mut places));
    if let Some(select) = &select {
        select::check(cx, &fields, select, [("listen", &listen), ("admin", &admin)]);
    }
    let epp = fields.get("epp").map(|spot| epp::read(cx, &spot, &mut places));
    if let Some(epp) = &epp {
        let select = select.as_ref().map(|select| ("select", &select.listener));
        let others = [("listen", &listen), ("admin", &admin)].into_iter().chain(select);
        epp::check(cx, &fields, epp, others);
    }
    let policies_dir = fields.get("policies_dir").and_then(|spot| cx.path(&spot));
    if let Some(spot) = fields.get("router") {
        let (read, shared, wide) = process::router(cx, &spot, &mut places);
        (settings, shared_cache, queueing) = (read.into(), shared, wide);
    } else {
        let settings = Arc::make_mut(&mut settings);
        overrides::conditional(cx, spot, &mut settings.conditional_disagg);
        process::check(cx, spot, None, settings);
    }
    let queue = queue::read(cx, &fields, queueing);
    let selected = fields.get("worker_selection");
    if let Some(spot) = &selected {
        selection = selection::read(cx, spot, &mut places);
    }
    overrides::roles(cx, selected.as_ref().unwrap_or(spot), &mut selection, &mut places);
    let classifier = fields.get("request_classifier");
    let classifier = classifier.and_then(|spot| classifier::read(cx, &spot, &mut places));
    if let Some(spot) = fields.get("workers") {
        workers = workers::read(cx, &spot, &mut places);
    }
    let discovery = fields.get("discovery").map(|spot| discovery::read(cx, &spot, &mut places));
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
    if let Some(spot) = fields.get("load_reports") {
        load_reports = Some(process::load_reports(cx, &spot));
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
        select,
        epp,
        policies_dir,
        selection,
        classifier,
        settings,
        queue: Arc::new(queue),
        shared_cache,
        workers,
        discovery: discovery.unwrap_or_default(),
        tokenizers: models,
        tokenizer_pool,
        proxy,
        health,
        load_reports,
        wasm,
        recording,
        drain_timeout,
        places,
    })
}
