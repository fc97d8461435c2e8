//! What is otherwise than a case expects: where that stands in the file, what was expected and what came,
//! and how the file would say what came.
//!
//! Doesn't know the file's text: [`golden`](super::golden) finds the place and makes the changes.

/// One step on the way from a file's root to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of a mapping.
    Name(&'static str),
    /// Of a list, from 0.
    At(usize),
}

/// A change to a file of cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The value there is this YAML now; a key that isn't there is added to its mapping.
    Set(Vec<Key>, String),
    /// The key there goes, if it is there.
    Remove(Vec<Key>),
    /// The mapping there has these entries and no others.
    Refill(Vec<Key>, String),
}

/// One thing that a case expects and that isn't so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where the expectation stands.
    pub path: Vec<Key>,
    /// What was expected and what came, each as YAML; none where that isn't a matter of values.
    pub values: Option<(String, String)>,
    /// The same in words, with the step.
    pub what: String,
    /// What makes the file say what came; nothing if it can't be said there.
    pub edits: Vec<Edit>,
}

impl Difference {
    /// Something that no value in the file is about.
    pub(super) fn plain(what: impl Into<String>) -> Self {
        Self { path: Vec::new(), values: None, what: what.into(), edits: Vec::new() }
    }

    /// The value of a key is another one.
    pub(super) fn value(
        key: &'static str,
        expected: String,
        found: String,
        what: impl Into<String>,
    ) -> Self {
        let path = vec![Key::Name(key)];
        let edits = vec![Edit::Set(path.clone(), found.clone())];
        Self { path, values: Some((expected, found)), what: what.into(), edits }
    }

    /// The whole mapping would have to be another one.
    pub(super) fn whole(expected: String, found: String, what: impl Into<String>) -> Self {
        let edits = vec![Edit::Refill(Vec::new(), found.clone())];
        Self { path: Vec::new(), values: Some((expected, found)), what: what.into(), edits }
    }

    /// The same, which the file can't be made to say.
    pub(super) fn unsaid(self) -> Self {
        Self { edits: Vec::new(), ..self }
    }

    /// The same with a further change.
    pub(super) fn and(mut self, edit: Edit) -> Self {
        self.edits.push(edit);
        self
    }

    /// The same, seen from further up.
    pub(super) fn under(self, prefix: &[Key]) -> Self {
        let longer = |path: Vec<Key>| prefix.iter().cloned().chain(path).collect();
        let edits = self.edits.into_iter().map(|edit| match edit {
            Edit::Set(path, text) => Edit::Set(longer(path), text),
            Edit::Remove(path) => Edit::Remove(longer(path)),
            Edit::Refill(path, text) => Edit::Refill(longer(path), text),
        });
        Self { path: longer(self.path), edits: edits.collect(), ..self }
    }

    /// The same of a step.
    pub(super) fn of_step(self, at: usize) -> Self {
        let what = format!("step {}: {}", at + 1, self.what);
        Self { what, ..self }.under(&[Key::Name("steps"), Key::At(at)])
    }
}

/// A text as YAML has it in double quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// What a policy said, without what the host put around it: the type's name, quotes, escapes.
pub(super) fn own_words(said: &str) -> String {
    let said = said.split_once("refuses to be configured: ").map_or(said, |(_, words)| words);
    let plain = said.replace("\\\"", "\"");
    let inner = plain.strip_prefix('"').and_then(|words| words.strip_suffix('"'));
    inner.unwrap_or(&plain).to_owned()
}
