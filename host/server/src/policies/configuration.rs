//! The YAML file, as far as it can change while the router runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::policy::{RouterSettings, SelectionSpec};

use crate::config::{Config, Listener};

/// What the configuration wants of policies and workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wish {
    pub(super) selection: SelectionSpec,
    pub(super) settings: Arc<RouterSettings>,
    pub(super) workers: Vec<WorkerSpec>,
}

impl From<&Config> for Wish {
    fn from(config: &Config) -> Self {
        Self {
            selection: config.selection.clone(),
            settings: config.settings.clone(),
            workers: config.workers.clone(),
        }
    }
}

impl Wish {
    /// The types that its instances are made of.
    pub(super) fn uses(&self, policy_type: &str) -> bool {
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
    last: Option<Result<String, String>>,
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
        let text = text(path);
        if !again && self.last.as_ref() == Some(&text) {
            return Reading::Same;
        }
        let reading = match &text {
            Err(error) => Reading::Bad(error.clone()),
            Ok(_) => match Config::from_path(path) {
                Ok(config) => Reading::New(Box::new(config)),
                Err(error) => Reading::Bad(error.to_string()),
            },
        };
        self.last = Some(text);
        reading
    }
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))
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
    let sections = [
        ("listen", listeners_differ(&running.listen, &wanted.listen)),
        ("admin", listeners_differ(&running.admin, &wanted.admin)),
        ("policies_dir", running.policies_dir != wanted.policies_dir),
        (
            "proxy",
            running.proxy.worker_token != wanted.proxy.worker_token
                || differ(&running.proxy, &wanted.proxy),
        ),
        ("health", differ(&running.health, &wanted.health)),
        ("wasm", differ(&running.wasm, &wanted.wasm)),
        ("drain_timeout", running.drain_timeout != wanted.drain_timeout),
    ];
    sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
}
