//! The YAML file, as far as it can change while the router runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pointsman_core::classifier::ClassifierSpec;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::policy::{RouterSettings, SelectionSpec};
use pointsman_core::queue::QueueSettings;

use crate::config::{Config, Environment, Listener, Places, SharedCacheConfig};

/// What the configuration wants of policies and workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    pub(super) selection: SelectionSpec,
    pub(super) classifier: Option<ClassifierSpec>,
    pub(super) settings: Arc<RouterSettings>,
    pub(super) queue: Arc<QueueSettings>,
    pub(super) shared_cache: SharedCacheConfig,
    pub(super) workers: Vec<WorkerSpec>,
    /// Where it stands in the file, for messages.
    pub(super) places: Places,
}

impl From<&Config> for Wish {
    fn from(config: &Config) -> Self {
        Self {
            selection: config.selection.clone(),
            classifier: config.classifier.clone(),
            settings: config.settings.clone(),
            queue: config.queue.clone(),
            shared_cache: config.shared_cache.clone(),
            workers: config.workers.clone(),
            places: config.places.clone(),
        }
    }
}

impl Wish {
    /// Whether policies decide the same under both, of the same requests.
    pub(super) fn decides_as(&self, other: &Self) -> bool {
        self.selection == other.selection
            && self.classifier == other.classifier
            && self.settings == other.settings
            && self.queue == other.queue
    }

    /// Whether both want the same, wherever it stands in their files.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.decides_as(other)
            && self.shared_cache == other.shared_cache
            && self.workers == other.workers
    }

    /// The types that its instances and its classifier are made of.
    pub(super) fn uses(&self, policy_type: &str) -> bool {
        if self.classifier.as_ref().is_some_and(|spec| &*spec.classifier_type == policy_type) {
            return true;
        }
        let uses = self.selection.instances.iter().flat_map(|spec| spec.recipe.types());
        uses.into_iter().any(|used| &*used.policy_type == policy_type)
    }
}

/// What a reading of the file gave.
#[derive(Debug)]
pub(super) enum Reading {
    /// The text is the one that was read before; or there is no file.
    Same,
    /// Another text, and a good one.
    New(Box<Config>),
    /// Another text, with its mistakes.
    Bad(String),
}

/// The file, with what it was when last read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: Option<PathBuf>,
    last: Option<Result<Vec<u8>, String>>,
}

impl ConfigFile {
    /// A file that has not been read: what is in force may be older than its text.
    pub(super) fn unread(path: Option<PathBuf>) -> Self {
        Self { path, last: None }
    }

    /// Reads it again, where blocking is allowed. `again` takes the same text for another one, so
    /// that its mistakes are told once more.
    pub(super) fn read(&mut self, again: bool) -> Reading {
        let Some(path) = self.path.as_deref() else { return Reading::Same };
        let bytes = crate::config::read_file(path).map_err(|error| {
            format!("can't read {}: {error}; make it a readable file", path.display())
        });
        if !again && self.last.as_ref() == Some(&bytes) {
            return Reading::Same;
        }
        let reading = match &bytes {
            Err(error) => Reading::Bad(error.clone()),
            Ok(bytes) => parse(path, bytes),
        };
        self.last = Some(bytes);
        reading
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Reading {
    let base = path.parent().unwrap_or(Path::new(""));
    match Config::from_bytes(&path.display().to_string(), bytes, base, &Environment) {
        Ok(config) => Reading::New(Box::new(config)),
        Err(errors) => Reading::Bad(errors.to_string()),
    }
}

/// What a changed file asks for that only a restart can give.
pub(super) fn needs_restart(running: &Config, wanted: &Config) -> Vec<&'static str> {
    fn differ<T: std::fmt::Debug>(one: &T, other: &T) -> bool {
        format!("{one:?}") != format!("{other:?}")
    }
    fn listeners_differ(one: &Listener, other: &Listener) -> bool {
        // Secrets don't show in debug output.
        one.tokens != other.tokens || differ(one, other)
    }
    /// Of what is served only if the file has it.
    fn doors_differ<T: std::fmt::Debug>(
        one: Option<&T>,
        other: Option<&T>,
        listener: fn(&T) -> &Listener,
    ) -> bool {
        let both = one.zip(other);
        differ(&one, &other)
            || both.is_some_and(|(one, other)| listeners_differ(listener(one), listener(other)))
    }
    let (select, epp) = (running.select.as_ref(), running.epp.as_ref());
    let sections = [
        ("listen", listeners_differ(&running.listen, &wanted.listen)),
        ("admin", listeners_differ(&running.admin, &wanted.admin)),
        ("select", doors_differ(select, wanted.select.as_ref(), |select| &select.listener)),
        ("epp", doors_differ(epp, wanted.epp.as_ref(), |epp| &epp.listener)),
        ("policies_dir", running.policies_dir != wanted.policies_dir),
        (
            "proxy",
            running.proxy.worker_token != wanted.proxy.worker_token
                || differ(&running.proxy, &wanted.proxy),
        ),
        ("health", differ(&running.health, &wanted.health)),
        ("discovery", differ(&running.discovery, &wanted.discovery)),
        ("load_reports", running.load_reports != wanted.load_reports),
        ("tokenizers", differ(&running.tokenizers, &wanted.tokenizers)),
        (
            "tokenizer_threads, tokenizer_queue, tokenizer_timeout",
            running.tokenizer_pool != wanted.tokenizer_pool,
        ),
        ("wasm", differ(&running.wasm, &wanted.wasm)),
        ("recording", running.recording != wanted.recording),
        ("drain_timeout", running.drain_timeout != wanted.drain_timeout),
    ];
    sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_section_that_only_a_restart_takes_up_is_named() {
        let read = |text: &str| Config::from_yaml("pointsman.yaml", text, Path::new("/")).unwrap();
        let running = read("{}");
        for (text, named) in [
            ("listen: 127.0.0.1:1", "listen"),
            ("admin: 127.0.0.1:1", "admin"),
            ("select: 127.0.0.1:1", "select"),
            ("epp: 127.0.0.1:1", "epp"),
            ("policies_dir: p", "policies_dir"),
            ("proxy: { retries: 2 }", "proxy"),
            ("health: { probes: false }", "health"),
            ("discovery: { dns: [{ name: a.b, port: 80 }] }", "discovery"),
            ("load_reports: {}", "load_reports"),
            ("wasm: { pool_instances: 1 }", "wasm"),
            ("recording: { percent: 1 }", "recording"),
            ("drain_timeout: 1s", "drain_timeout"),
        ] {
            assert_eq!(needs_restart(&running, &read(text)), [named], "{text}");
        }
        assert_eq!(needs_restart(&running, &running), [""; 0]);
        // A token shows nowhere, and is another one all the same.
        for section in ["select", "epp"] {
            let with = |token: &str| {
                read(&format!("{section}: {{ address: 127.0.0.1:1, tokens: [{token}] }}"))
            };
            assert_eq!(needs_restart(&with("one"), &with("other")), [section]);
        }
    }
}
