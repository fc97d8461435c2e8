//! Reads typed values out of a document, and gathers what is wrong on the way.
//!
//! Owns the place and the key path of everything that is read. A value that is wrong is reported
//! and read as absent, so that one run finds all mistakes. It doesn't know any section.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Entry, Mark, Node, Value, shorten};
use super::environment::Strings;
use super::error::{At, ConfigError, Place, Problem};
use super::keys::Table;
use super::mistakes::{Mistake, Mistakes};
use super::scalar::{self, Expected, Read};
use super::words::{as_plain_time, nearest};

/// A node with the keys that lead to it.
#[derive(Clone, Debug)]
pub(super) struct Spot<'n> {
    node: &'n Node,
    path: String,
}

impl<'n> Spot<'n> {
    pub(super) fn root(node: &'n Node) -> Self {
        Self { node, path: String::new() }
    }

    pub(super) fn node(&self) -> &'n Node {
        self.node
    }

    /// The path of the value.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The value of a key if it is a mapping and has that key, else itself.
    pub(super) fn child_or_self(&self, key: &str) -> Self {
        let Value::Mapping(entries) = &self.node.value else { return self.clone() };
        let entry = entries.iter().find(|entry| entry.key == key);
        entry.map_or_else(|| self.clone(), |entry| self.child(key, &entry.value))
    }

    fn child(&self, key: &str, node: &'n Node) -> Self {
        Self { node, path: join(&self.path, key) }
    }
}

fn join(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-/@".contains(c);
    // Anything that could be mistaken for the path itself, or for a terminal's commands, is quoted.
    let key = match shorten(key) {
        key if !key.is_empty() && key.chars().all(plain) => key,
        key => format!("{key:?}"),
    };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// A mapping whose keys are all known.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    spot: Spot<'n>,
    entries: &'n [Entry],
    table: &'static Table,
}

impl<'n> Fields<'n> {
    /// The mapping itself.
    pub(super) fn spot(&self) -> &Spot<'n> {
        &self.spot
    }

    /// A key's value, if the level has such a key and it is there.
    pub(super) fn optional(&self, key: &'static str) -> Option<Spot<'n>> {
        self.table.key(key).and_then(|_| self.get(key))
    }

    /// The path of this level.
    pub(super) fn path(&self) -> &str {
        &self.spot.path
    }

    /// A key's value, if the key is there.
    pub(super) fn get(&self, key: &'static str) -> Option<Spot<'n>> {
        debug_assert!(self.table.key(key).is_some(), "{key} is not in the table");
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(self.spot.child(key, &entry.value))
    }
}

/// What reading a file takes, and the mistakes up to here.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    file: Arc<str>,
    base: &'a Path,
    pub(super) strings: &'a dyn Strings,
    mistakes: Mistakes,
}

impl<'a> Reader<'a> {
    /// A reader of the file that is called `file`, whose relative paths begin at `base`. It goes on
    /// from what was wrong with the text.
    pub(super) fn new(
        file: &str,
        base: &'a Path,
        strings: &'a dyn Strings,
        mistakes: Mistakes,
    ) -> Self {
        Self { file: file.into(), base, strings, mistakes }
    }

    /// The first of what was wrong, and how much there is beside it; nothing if all was well.
    pub(super) fn finish(self) -> (Vec<ConfigError>, usize) {
        let (mistakes, more) = self.mistakes.finish();
        let file = self.file;
        let told = |Mistake { mark, path, problem }| {
            let place = Place { file: file.clone(), line: mark.line, column: mark.column };
            ConfigError { at: At { place, path }, problem }
        };
        (mistakes.into_iter().map(told).collect(), more)
    }

    /// Whether something is wrong with a key that begins so, as far as that can be told.
    pub(super) fn is_reported(&self, path: &str) -> bool {
        self.mistakes.may_concern(path)
    }

    fn place(&self, mark: Mark) -> Place {
        Place { file: self.file.clone(), line: mark.line, column: mark.column }
    }

    /// Where a value stands.
    pub(super) fn at(&self, spot: &Spot<'_>) -> At {
        At { place: self.place(spot.node.mark), path: spot.path.clone() }
    }

    pub(super) fn report(&mut self, spot: &Spot<'_>, problem: Problem) {
        self.mistakes.add(spot.node.mark, || (spot.path.clone(), problem));
    }

    /// Reports a value that is what it should be, but not in its company.
    pub(super) fn refuse(
        &mut self,
        spot: &Spot<'_>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(spot, Problem::Refused { what: what.into(), remedy: remedy.into() });
    }

    /// Reports a value of another kind than expected, showing it.
    pub(super) fn expected(&mut self, spot: &Spot<'_>, expected: Expected) {
        self.mismatch(spot, expected, spot.node.show());
    }

    fn mismatch(&mut self, spot: &Spot<'_>, expected: Expected, found: String) {
        let Expected { expected, remedy } = expected;
        let remedy = match spot.node.value {
            // What was reported already needs no second word.
            Value::Bad => return,
            _ if spot.node.is_null() => Some("give a value, or leave the key out".to_owned()),
            Value::Scalar { ref text, .. } => as_plain_time(&spot.path, text).or(remedy),
            _ => remedy,
        };
        self.report(spot, Problem::Expected { expected, found, remedy });
    }

    /// A mapping, with unknown keys reported.
    pub(super) fn fields<'n>(
        &mut self,
        spot: &Spot<'n>,
        table: &'static Table,
    ) -> Option<Fields<'n>> {
        self.fields_or(spot, table, |_| None)
    }

    /// As [`Reader::fields`]; `remedy` says what to write in place of what isn't a mapping.
    pub(super) fn fields_or<'n>(
        &mut self,
        spot: &Spot<'n>,
        table: &'static Table,
        remedy: impl FnOnce(&Node) -> Option<String>,
    ) -> Option<Fields<'n>> {
        let Value::Mapping(entries) = &spot.node.value else {
            let expected = format!("a mapping of {}", table.known());
            self.expected(spot, Expected { expected, remedy: remedy(spot.node) });
            return None;
        };
        for entry in entries.iter().filter(|entry| table.key(&entry.key).is_none()) {
            self.mistakes.add(entry.mark, || (join(&spot.path, &entry.key), unknown(table, entry)));
        }
        Some(Fields { spot: spot.clone(), entries, table })
    }

    /// A key that must be there.
    pub(super) fn required<'n>(
        &mut self,
        fields: &Fields<'n>,
        key: &'static str,
    ) -> Option<Spot<'n>> {
        let found = fields.get(key);
        if found.is_none() {
            let meaning = fields.table.key(key).map_or("", |key| key.meaning);
            self.report(&fields.spot, Problem::Missing { key, meaning });
        }
        found
    }

    /// The items of a list.
    pub(super) fn list<'n>(&mut self, spot: &Spot<'n>) -> Vec<Spot<'n>> {
        self.list_or(spot, |_| None)
    }

    /// As [`Reader::list`]; `remedy` says what to write in place of what isn't a list.
    pub(super) fn list_or<'n>(
        &mut self,
        spot: &Spot<'n>,
        remedy: impl FnOnce(&Node) -> Option<String>,
    ) -> Vec<Spot<'n>> {
        let Value::List(items) = &spot.node.value else {
            let expected = Expected { expected: "a list".to_owned(), remedy: remedy(spot.node) };
            self.mismatch(spot, expected, spot.node.kind().to_owned());
            return Vec::new();
        };
        let numbered = items.iter().enumerate();
        numbered.map(|(i, node)| Spot { node, path: format!("{}[{i}]", spot.path) }).collect()
    }

    /// The entries of a mapping whose keys are free.
    pub(super) fn entries<'n>(&mut self, spot: &Spot<'n>) -> Vec<(&'n str, Spot<'n>)> {
        let Value::Mapping(entries) = &spot.node.value else {
            self.mismatch(spot, Expected::new("a mapping"), spot.node.kind().to_owned());
            return Vec::new();
        };
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), spot.child(&entry.key, &entry.value)))
            .collect()
    }

    /// What a text means.
    pub(super) fn read<T>(&mut self, spot: &Spot<'_>, read: impl Fn(&str) -> Read<T>) -> Option<T> {
        self.read_shown(spot, read, Node::show)
    }

    /// As [`Reader::read`], of a URL, which may hold a password by mistake.
    pub(super) fn read_url<T>(
        &mut self,
        spot: &Spot<'_>,
        read: impl Fn(&str) -> Read<T>,
    ) -> Option<T> {
        self.read_shown(spot, read, |node| match &node.value {
            Value::Scalar { text, .. } if text.contains('@') => "one with credentials".to_owned(),
            _ => node.show(),
        })
    }

    /// As [`Reader::read`], for what must not show in a message.
    pub(super) fn read_secret<T>(
        &mut self,
        spot: &Spot<'_>,
        read: impl Fn(&str) -> Read<T>,
    ) -> Option<T> {
        self.read_shown(spot, read, |node| node.kind().to_owned())
    }

    fn read_shown<T>(
        &mut self,
        spot: &Spot<'_>,
        read: impl Fn(&str) -> Read<T>,
        show: impl FnOnce(&Node) -> String,
    ) -> Option<T> {
        if let Value::Scalar { text, plain: false } = &spot.node.value
            && let Some(expected) = no_text(text, &read)
        {
            let found = format!("{} in quotes, which is a text", show(spot.node));
            self.mismatch(spot, expected, found);
            return None;
        }
        // Reading the empty text says what is expected where there is no text at all.
        let text = match &spot.node.value {
            Value::Scalar { text, .. } if !spot.node.is_null() => Some(text.as_str()),
            _ => None,
        };
        let expected = match (read(text.unwrap_or_default()), text) {
            (Ok(value), Some(_)) => return Some(value),
            (Ok(_), None) => Expected::new("a text"),
            (Err(expected), Some(_)) => expected,
            (Err(Expected { expected, .. }), None) => Expected::new(expected),
        };
        self.mismatch(spot, expected, show(spot.node));
        None
    }

    /// Reads a key into its place, if it is there.
    pub(super) fn set<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &'static str,
        read: impl Fn(&str) -> Read<T>,
        to: &mut T,
    ) {
        if let Some(value) = fields.get(key).and_then(|spot| self.read(&spot, read)) {
            *to = value;
        }
    }

    /// A key's value, if it is there.
    pub(super) fn optional<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &'static str,
        read: impl Fn(&str) -> Read<T>,
    ) -> Option<T> {
        self.read(&fields.get(key)?, read)
    }

    /// A path, relative to the file.
    pub(super) fn path(&mut self, spot: &Spot<'_>) -> Option<PathBuf> {
        self.read(spot, scalar::path).map(|path| self.base.join(path))
    }

    /// A list of different texts.
    pub(super) fn names(&mut self, spot: &Spot<'_>, most: usize) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        if let Value::List(items) = &spot.node.value
            && items.len() > most
        {
            self.refuse(spot, format!("{} of them", items.len()), format!("keep at most {most}"));
            return names;
        }
        for item in self.list(spot) {
            let Some(name) = self.read(&item, scalar::name) else { continue };
            if !names.insert(name) {
                self.refuse(&item, "it is in the list already", "keep one of them");
            }
        }
        names
    }
}

/// What was expected where a number, true or false stands in quotes, which make a text of it; none
/// where a text is as good: where a letter would do in place of the first character.
fn no_text<T>(text: &str, read: &impl Fn(&str) -> Read<T>) -> Option<Expected> {
    if !scalar::is_no_text(text) || read(text).is_err() {
        return None;
    }
    let lettered: String = std::iter::once('x').chain(text.chars().skip(1)).collect();
    let Expected { expected, .. } = read(&lettered).err()?;
    Some(Expected::or(expected, "take the quotes away"))
}

/// What is wrong with a key that isn't in the table.
fn unknown(table: &'static Table, entry: &Entry) -> Problem {
    let find = |list: &'static [(&'static str, &'static str)]| {
        list.iter().find(|(name, _)| *name == entry.key).map(|(_, text)| *text)
    };
    if let Some(why) = find(table.later) {
        return Problem::NotSupported(why);
    }
    if let Some(instead) = find(table.wrong) {
        // What can be no name isn't told to be written elsewhere.
        let name = match &entry.value.value {
            Value::Scalar { text, .. } if !entry.value.is_null() => scalar::plain_name(text).ok(),
            _ => None,
        };
        let name = name.map_or_else(|| "NAME".to_owned(), |name| shorten(&name));
        return Problem::WrongKey(instead.replace("{value}", &name));
    }
    let nearest = nearest(&entry.key, table.keys.iter().map(|key| key.name));
    Problem::UnknownKey { nearest, known: table.known() }
}
