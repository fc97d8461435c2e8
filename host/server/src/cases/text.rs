//! A YAML text as a tree of values that know where they stand.
//!
//! For changes that leave the rest of a text as it is. What is right in it is the reader's to say: a text
//! that is no YAML has no tree.

use std::ops::Range;

use saphyr_parser::{Event, Parser};

use super::difference::Key;

/// A value.
#[derive(Debug)]
pub(super) struct Node {
    /// From 1.
    pub(super) line: usize,
    /// Its bytes in the text.
    pub(super) at: Range<usize>,
    pub(super) holds: Holds,
}

/// What a value holds.
#[derive(Debug)]
pub(super) enum Holds {
    Nothing,
    List(Vec<Node>),
    Mapping { is_flow: bool, entries: Vec<Entry> },
}

/// A key with its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Where the key begins.
    pub(super) start: usize,
    pub(super) value: Node,
}

impl Node {
    /// The value of a text; none if it is no YAML.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).collect();
        bytes.push(text.len());
        let mut builder = Builder { text, bytes, open: Vec::new(), root: None };
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.ok()?;
            builder.take(event, span.start.line(), span.start.index(), span.end.index())?;
        }
        builder.root
    }

    /// The value that these keys lead to.
    pub(super) fn find(&self, path: &[Key]) -> Option<&Self> {
        path.iter().try_fold(self, Self::child)
    }

    /// The nearest value on that way.
    pub(super) fn nearest(&self, path: &[Key]) -> &Self {
        let mut node = self;
        for key in path {
            match node.child(key) {
                Some(child) => node = child,
                None => return node,
            }
        }
        node
    }

    fn child(&self, key: &Key) -> Option<&Self> {
        match (&self.holds, key) {
            (Holds::List(items), Key::At(at)) => items.get(*at),
            (Holds::Mapping { entries, .. }, Key::Name(name)) => {
                entries.iter().find(|entry| entry.key == *name).map(|entry| &entry.value)
            }
            _ => None,
        }
    }
}

/// A collection that isn't closed yet.
struct Open {
    line: usize,
    start: usize,
    is_flow: bool,
    is_mapping: bool,
    /// The key whose value comes next, and where it begins.
    key: Option<(String, usize)>,
    entries: Vec<Entry>,
    items: Vec<Node>,
}

struct Builder<'a> {
    text: &'a str,
    /// Where each character begins, and the text's end.
    bytes: Vec<usize>,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, line: usize, start: usize, end: usize) -> Option<()> {
        let (start, end) = (*self.bytes.get(start)?, *self.bytes.get(end)?);
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => self.open.push(Open {
                line,
                start,
                is_flow: self.text.get(start..)?.starts_with(['{', '[']),
                is_mapping: matches!(event, Event::MappingStart(..)),
                key: None,
                entries: Vec::new(),
                items: Vec::new(),
            }),
            Event::MappingEnd | Event::SequenceEnd => {
                let open = self.open.pop()?;
                let last = open.entries.last().map(|entry| &entry.value).or(open.items.last());
                // What isn't in brackets ends with its last value.
                let end = if open.is_flow {
                    open.start + self.text.get(open.start..end)?.trim_end().len()
                } else {
                    last.map_or(open.start, |it| it.at.end)
                };
                let holds = match open.is_mapping {
                    true => Holds::Mapping { is_flow: open.is_flow, entries: open.entries },
                    false => Holds::List(open.items),
                };
                self.value(Node { line: open.line, at: open.start..end, holds }, None);
            }
            Event::Scalar(text, ..) => {
                let written = self.text.get(start..end)?.trim_end();
                let at = start..start + written.len();
                self.value(Node { line, at, holds: Holds::Nothing }, Some(text.into_owned()));
            }
            Event::Alias(_) => {
                self.value(Node { line, at: start..end, holds: Holds::Nothing }, None);
            }
            _ => {}
        }
        Some(())
    }

    fn value(&mut self, node: Node, text: Option<String>) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        if !open.is_mapping {
            return open.items.push(node);
        }
        match open.key.take() {
            Some((key, start)) => open.entries.push(Entry { key, start, value: node }),
            // A key that is no text is found by nobody.
            None => open.key = Some((text.unwrap_or_default(), node.at.start)),
        }
    }
}
