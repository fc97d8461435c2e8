//! From text to a tree of nodes that know their places.
//!
//! Owns which YAML is taken: one document, in UTF-8, of bounded size and depth, whose keys are
//! plain and different; anchors, aliases, merge keys and tags are refused, since a configuration
//! that is read by people and reviewed in differences should say what it means where it says it.
//! It reads event by event, so that neither depth nor aliases can cost more than the text's length.
//! It doesn't know any key.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::error::Problem;
use super::mistakes::Mistakes;

/// The largest file: room for 20,000 workers, and nothing that is worth waiting for.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// The deepest nesting. The configuration itself needs seven; the rest is for `parameters`.
const MOST_DEPTH: usize = 64;

/// A place, without its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Mark {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte in a text.
    fn of_byte(text: &[u8], at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.split(|byte| *byte == b'\n').next_back().unwrap_or_default();
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        Self::new(lines + 1, String::from_utf8_lossy(line).chars().count() + 1)
    }

    /// The place behind a text's last character.
    fn end_of(text: &str) -> Self {
        let (mut lines, mut column, mut before) = (1, 1, ' ');
        for c in text.chars() {
            match c {
                // It has ended its line already.
                '\n' if before == '\r' => {}
                '\n' | '\r' => (lines, column) = (lines + 1, 1),
                _ => column += 1,
            }
            before = c;
        }
        Self::new(lines, column)
    }

    fn new(line: usize, column: usize) -> Self {
        let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }
}

impl From<Marker> for Mark {
    fn from(marker: Marker) -> Self {
        // The parser counts lines from 1 and columns from 0.
        Self::new(marker.line().max(1), marker.col() + 1)
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A text as it was written; `plain` if it stands without quotes.
    Scalar { text: String, plain: bool },
    /// In order.
    List(Vec<Node>),
    /// In order; no key twice.
    Mapping(Vec<Entry>),
    /// Something that was reported already.
    Bad,
}

impl Node {
    /// Whether nothing stands there at all.
    fn is_empty(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if text.is_empty())
    }

    /// Whether it is YAML's null.
    pub(super) fn is_null(&self) -> bool {
        let Value::Scalar { text, plain: true } = &self.value else { return false };
        matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// What it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } => "a text",
            Value::List(_) => "a list",
            Value::Mapping(_) => "a mapping",
            Value::Bad => "something unreadable",
        }
    }

    /// What it is, with a text as it was written.
    pub(super) fn show(&self) -> String {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => format!("{:?}", shorten(text)),
            _ => self.kind().to_owned(),
        }
    }
}

/// A text for a message: bounded, and on one line once it is quoted.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) mark: Mark,
    pub(super) key: String,
    pub(super) value: Node,
}

/// A tree, as far as it could be read, and what is wrong with the text.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Option<Node>,
    pub(super) mistakes: Mistakes,
}

impl Document {
    /// Reads bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        if bytes.len() > MOST_BYTES {
            let what = format!("the file has more than {MOST_BYTES} bytes");
            let remedy = "register workers over POST /v1/workers instead";
            return Self::refused(Mark::START, &what, remedy);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let mark = Mark::of_byte(bytes, error.valid_up_to());
                Self::refused(mark, "a byte that is not UTF-8", "save the file as UTF-8")
            }
        }
    }

    /// Reads text.
    fn parse(text: &str) -> Self {
        let mut builder = Builder::default();
        // A byte order mark is no mistake, though UTF-8 needs none.
        builder.run(text.strip_prefix('\u{feff}').unwrap_or(text));
        let Builder { root, mistakes, .. } = builder;
        match root.filter(|root| !root.is_null()) {
            None if mistakes.is_empty() => {
                let remedy = "write the settings, or `{}` for the defaults alone";
                Self::refused(Mark::START, "the file says nothing", remedy)
            }
            root => Self { root, mistakes },
        }
    }

    fn refused(mark: Mark, what: &str, remedy: &str) -> Self {
        let mut mistakes = Mistakes::default();
        mistakes.add(mark, || (String::new(), refused(what, remedy)));
        Self { root: None, mistakes }
    }
}

fn refused(what: &str, remedy: &str) -> Problem {
    Problem::Refused { what: what.to_owned(), remedy: remedy.to_owned() }
}

/// A collection that isn't closed yet.
#[derive(Debug)]
enum Open {
    List(Mark, Vec<Node>),
    Mapping(Mark, OpenMapping),
}

#[derive(Debug, Default)]
struct OpenMapping {
    entries: Vec<Entry>,
    /// The line of each key.
    seen: HashMap<String, u32>,
    awaits: Awaits,
}

/// What comes next in a mapping.
#[derive(Debug, Default)]
enum Awaits {
    #[default]
    Key,
    ValueOf(Mark, String),
    /// The value of a key that was refused.
    Nothing,
}

impl OpenMapping {
    fn take(&mut self, node: Node, mistakes: &mut Mistakes) {
        match std::mem::take(&mut self.awaits) {
            Awaits::Key => {
                self.awaits = match self.key(&node) {
                    Ok(key) => Awaits::ValueOf(node.mark, key),
                    Err(problem) => {
                        if let Some(problem) = problem {
                            mistakes.add(node.mark, || (String::new(), problem));
                        }
                        Awaits::Nothing
                    }
                }
            }
            Awaits::ValueOf(mark, key) => {
                // An empty value has no place of its own to speak of.
                let value = if node.is_empty() { Node { mark, ..node } } else { node };
                self.entries.push(Entry { mark, key, value });
            }
            Awaits::Nothing => {}
        }
    }

    /// The key, or what is wrong with it, unless that was reported already.
    fn key(&mut self, node: &Node) -> Result<String, Option<Problem>> {
        let (text, plain) = match &node.value {
            Value::Scalar { text, plain } => (text, *plain),
            Value::Bad => return Err(None),
            _ => {
                let what = "a list or a mapping as a key";
                return Err(Some(refused(what, "use a plain text; quote one with brackets")));
            }
        };
        if node.is_empty() {
            return Err(Some(refused("a value without a key", "name it before the colon")));
        }
        if plain && text == "<<" {
            let remedy = "write the keys out at each place";
            return Err(Some(refused("a merge key (`<<`)", remedy)));
        }
        match self.seen.insert(text.clone(), node.mark.line) {
            None => Ok(text.clone()),
            Some(first) => {
                self.seen.insert(text.clone(), first);
                Err(Some(Problem::Repeated { key: shorten(text), first }))
            }
        }
    }
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    mistakes: Mistakes,
    documents: u32,
}

impl Builder {
    fn run(&mut self, text: &str) {
        let mut parser = Parser::new_from_str(text);
        // The parser ends a text with a line that it hasn't.
        let end = Mark::end_of(text);
        while let Some(next) = parser.next_event() {
            match next {
                Ok((event, span)) => {
                    if !self.event(event, end.min(span.start.into())) {
                        return;
                    }
                }
                Err(error) => {
                    let mark = end.min(Mark::from(*error.marker()));
                    let problem = Problem::Syntax(error.info().to_owned());
                    self.mistakes.add(mark, || (String::new(), problem));
                    return;
                }
            }
        }
    }

    /// Takes an event. False ends the reading.
    fn event(&mut self, event: Event<'_>, mark: Mark) -> bool {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let remedy = "keep one document, and take out the `---` between them";
                    self.problem(mark, "a second document begins here", remedy);
                    return false;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.anchored(mark, anchor);
                self.tagged(mark, tag.is_some());
                let plain = style == ScalarStyle::Plain;
                self.value(Node { mark, value: Value::Scalar { text: text.into_owned(), plain } });
            }
            Event::SequenceStart(anchor, tag) => {
                self.anchored(mark, anchor);
                self.tagged(mark, tag.is_some());
                return self.deeper(Open::List(mark, Vec::new()), mark);
            }
            Event::MappingStart(anchor, tag) => {
                self.anchored(mark, anchor);
                self.tagged(mark, tag.is_some());
                return self.deeper(Open::Mapping(mark, OpenMapping::default()), mark);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(mark, items)) => {
                    self.value(Node { mark, value: Value::List(items) });
                }
                Some(Open::Mapping(mark, mapping)) => {
                    self.value(Node { mark, value: Value::Mapping(mapping.entries) });
                }
                None => {}
            },
            Event::Alias(_) => {
                self.problem(mark, "an alias (`*name`)", "write the value out");
                self.value(Node { mark, value: Value::Bad });
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        true
    }

    fn deeper(&mut self, open: Open, mark: Mark) -> bool {
        if self.open.len() == MOST_DEPTH {
            let what = format!("nested deeper than {MOST_DEPTH} levels");
            self.problem(mark, &what, "nothing after this place was read");
            return false;
        }
        self.open.push(open);
        true
    }

    /// Puts a finished value where it belongs.
    fn value(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Mapping(_, mapping)) => mapping.take(node, &mut self.mistakes),
        }
    }

    fn anchored(&mut self, mark: Mark, anchor: usize) {
        if anchor > 0 {
            self.problem(mark, "an anchor (`&name`)", "write the value out at each place");
        }
    }

    fn tagged(&mut self, mark: Mark, tagged: bool) {
        if tagged {
            self.problem(mark, "a tag (`!name`)", "leave it out");
        }
    }

    fn problem(&mut self, mark: Mark, what: &str, remedy: &str) {
        self.mistakes.add(mark, || (String::new(), refused(what, remedy)));
    }
}
