//! Where named texts from outside the file come from.

use std::fmt;

/// Named texts: the process's environment, or a test's own.
pub trait Strings: fmt::Debug {
    /// The text of that name; none when there is none, or one that isn't Unicode.
    fn get(&self, name: &str) -> Option<String>;
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment;

impl Strings for Environment {
    fn get(&self, name: &str) -> Option<String> {
        // The standard library panics on names that no variable can have.
        let possible = !name.is_empty() && !name.contains(['=', '\0']);
        possible.then(|| std::env::var(name).ok()).flatten()
    }
}

impl Strings for std::collections::BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        Self::get(self, name).cloned()
    }
}
