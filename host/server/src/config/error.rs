//! What can be wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

/// A place in a file, as compilers and editors write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: u32,
    /// In characters, counted from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A value in a file: where it stands, and the keys that lead to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Where.
    pub place: Place,
    /// As in `worker_selection.instances[0].limits.fuel`; empty for the file as a whole.
    pub path: String,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, ": {}", self.path) }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {problem}")]
pub struct ConfigError {
    /// Where.
    pub at: At,
    /// What.
    pub problem: Problem,
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The text isn't YAML from here on; nothing after it was read.
    #[error("not valid YAML: {0}; mend this first, the rest was not checked")]
    Syntax(String),
    /// YAML, but of a kind that the configuration doesn't take.
    #[error("{what}; {remedy}")]
    Refused {
        /// What was found.
        what: String,
        /// What to do instead.
        remedy: String,
    },
    /// Nobody knows the key.
    #[error("unknown key; {}known here: {known}", meant(.nearest.as_deref()))]
    UnknownKey {
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
        /// All that are known at this level.
        known: String,
    },
    /// The key means something to users of linked policies, but not here yet.
    #[error("not supported by this version; {0}")]
    NotSupported(&'static str),
    /// The key means something elsewhere, or had another name before.
    #[error("{0}")]
    WrongKey(String),
    /// The key stands there twice.
    #[error("the key {key:?} is given twice, first in line {first}; keep one of them")]
    Repeated {
        /// Which.
        key: String,
        /// The line of the first.
        first: u32,
    },
    /// The value is of another kind or out of range.
    #[error("expected {expected}, found {found}{}", then(.remedy.as_deref()))]
    Expected {
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
        /// What to do, where that doesn't follow.
        remedy: Option<String>,
    },
    /// A key that must be there isn't.
    #[error("`{key}` is missing; add it: {meaning}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What it says.
        meaning: &'static str,
    },
    /// A role names an instance that there isn't.
    #[error(
        "no instance is named {name:?}; {}known: {known}{}",
        meant(.nearest.as_deref()), then(.remedy.as_deref())
    )]
    UnknownInstance {
        /// Which.
        name: String,
        /// The known name that looks most like it.
        nearest: Option<String>,
        /// Those that are known.
        known: String,
        /// What to do where nothing looks like it.
        remedy: Option<String>,
    },
    /// The policy type is neither built in nor in the folder.
    #[error(
        "unknown policy type {policy_type:?}; {}known: {known}{}{}",
        meant(.nearest.as_deref()),
        if *.has_folder { "" } else { ", which are the built-ins: no policies_dir is set" },
        then(.remedy.as_deref())
    )]
    UnknownType {
        /// Which.
        policy_type: String,
        /// The known type that looks most like it.
        nearest: Option<String>,
        /// Those that are known.
        known: String,
        /// Whether the configuration has a folder of components.
        has_folder: bool,
        /// What to do where nothing looks like it.
        remedy: Option<String>,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("did you mean {key:?}? ")).unwrap_or_default()
}

fn then(remedy: Option<&str>) -> String {
    remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default()
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigErrors {
    /// The file could not be read at all.
    #[error("can't read {}: {source}; name a readable file with --config", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is wrong in it. Shown one a line.
    #[error("{}{}", lines(.mistakes), left_out(*.more))]
    Invalid {
        /// The first mistakes, in the order of their places; at least one.
        mistakes: Vec<ConfigError>,
        /// How many there are beside them.
        more: usize,
    },
}

impl ConfigErrors {
    /// The first mistakes, in the order of their places; none when the file could not be read.
    #[must_use]
    pub fn mistakes(&self) -> &[ConfigError] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { mistakes, .. } => mistakes,
        }
    }
}

fn lines(mistakes: &[ConfigError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn left_out(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!("\nand {more} more, which are told once some of these are mended"),
    }
}
