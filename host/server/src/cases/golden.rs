//! The text of a file of cases: which line a value stands in, and the text with what came in the place of
//! what was expected. Comments and layout stay as they are.

use std::ops::Range;

use super::difference::{Edit, Key};
use super::text::{Entry, Holds, Node};

/// A file's text.
#[derive(Debug)]
pub struct Golden {
    text: String,
    root: Option<Node>,
}

/// A part of the text, and what stands there afterwards.
type Change = (Range<usize>, String);

impl Golden {
    /// Takes in a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), root: Node::read(text) }
    }

    /// The line, from 1, in which a value stands, or what is nearest to it on the way there.
    #[must_use]
    pub fn line(&self, path: &[Key]) -> usize {
        self.root.as_ref().map_or(1, |root| root.nearest(path).line)
    }

    /// The text with these changes, and how many of them could not be made.
    #[must_use]
    pub fn with<'e>(&self, edits: impl IntoIterator<Item = &'e Edit>) -> (String, usize) {
        let mut changes: Vec<Change> = Vec::new();
        let mut left_out = 0;
        for edit in edits {
            match self.root.as_ref().and_then(|root| self.change(root, edit)) {
                Some((at, _)) if at.is_empty() && matches!(edit, Edit::Remove(_)) => {}
                Some((at, _)) if changes.iter().any(|(other, _)| overlap(other, &at)) => {
                    left_out += 1;
                }
                Some(change) => changes.push(change),
                None => left_out += 1,
            }
        }
        // From behind, so that places before them stay where they are.
        changes.sort_by_key(|(at, _)| std::cmp::Reverse((at.start, at.end)));
        let mut text = self.text.clone();
        for (at, new) in changes {
            text.replace_range(at, &new);
        }
        (text, left_out)
    }

    fn change(&self, root: &Node, edit: &Edit) -> Option<Change> {
        match edit {
            Edit::Set(path, new) => match root.find(path) {
                Some(node) => Some((node.at.clone(), new.clone())),
                None => {
                    let (Key::Name(key), parents) = path.split_last()? else { return None };
                    self.add(root.find(parents)?, &format!("{key}: {new}"))
                }
            },
            Edit::Remove(path) => {
                let (Key::Name(key), parents) = path.split_last()? else { return None };
                let Holds::Mapping { is_flow, entries } = &root.find(parents)?.holds else {
                    return None;
                };
                let at = entries.iter().position(|entry| entry.key == *key);
                let at = at.map_or(0..0, |at| self.without(*is_flow, entries, at));
                Some((at, String::new()))
            }
            Edit::Refill(path, new) => {
                let Holds::Mapping { entries, .. } = &root.find(path)?.holds else { return None };
                let (first, last) = (entries.first()?, entries.last()?);
                Some((first.start..last.value.at.end, new.clone()))
            }
        }
    }

    /// A further entry behind the others of a mapping.
    fn add(&self, mapping: &Node, entry: &str) -> Option<Change> {
        let Holds::Mapping { is_flow, entries } = &mapping.holds else { return None };
        let Some(last) = entries.last() else {
            return Some((mapping.at.clone(), format!("{{ {entry} }}")));
        };
        if *is_flow {
            let end = last.value.at.end;
            return Some((end..end, format!(", {entry}")));
        }
        let first = entries.first()?.start;
        let column = self.text.get(..first)?.rsplit('\n').next()?.chars().count();
        let end = self.line_end(last.value.at.end);
        Some((end..end, format!("\n{}{entry}", " ".repeat(column))))
    }

    /// What goes with an entry: the comma before it, or its lines.
    fn without(&self, is_flow: bool, entries: &[Entry], at: usize) -> Range<usize> {
        let Some(entry) = entries.get(at) else { return 0..0 };
        let before = at.checked_sub(1).and_then(|before| entries.get(before));
        match (before, entries.get(at + 1)) {
            (Some(before), _) if is_flow => before.value.at.end..entry.value.at.end,
            (Some(before), _) => {
                self.line_end(before.value.at.end)..self.line_end(entry.value.at.end)
            }
            (None, Some(next)) => entry.start..next.start,
            (None, None) => entry.start..entry.value.at.end,
        }
    }

    /// The end of the line in which something ends.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.find('\n').map_or(self.text.len(), |end| at + end)
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}
