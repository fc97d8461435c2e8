//! What a template may look like, and what is made of it before it is compiled.
//!
//! The template language's compiler goes down one level for each operator of an expression, and so
//! does whatever lets go of a value that holds a value that holds a value. A thread's stack ends
//! somewhere, and the process with it. So a template is bounded in its bytes, in the tokens of one
//! tag, in the brackets within brackets and in its `elif`s; it is compiled where the stack is large
//! enough for that; and each `set` of it passes what it sets through a filter, which goes through the
//! value and refuses what is nested too deeply, or a namespace within a namespace.
//!
//! It doesn't know what a template is for.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// The longest template, in bytes: the longest of known models has a fiftieth of it.
const MOST_BYTES: usize = 1 << 20;
/// Tokens between a tag's ends.
const MOST_TOKENS: usize = 4_000;
/// `elif`s of a template.
const MOST_ELIFS: usize = 1_000;
/// Brackets within brackets.
const DEEPEST_BRACKETS: usize = 32;
/// Lists and maps within lists and maps: twice what a request's JSON may have, about.
const DEEPEST_VALUE: usize = 256;
/// What compiling takes for all that, with room to spare. It is reserved, and not used until needed.
const STACK_BYTES: usize = 256 << 20;
/// What values that are set pass through.
const FILTER: &str = "__as_set";

/// Puts the filter for what is set into an environment.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter(FILTER, as_set);
    // Jinja has neither, and they nest without end.
    environment.remove_filter("chain");
    environment.remove_filter("zip");
}

/// Does something where the stack is large.
pub(super) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.name("template".to_owned()).spawn_scoped(scope, work)?;
        thread.join().map_err(|_| std::io::Error::other("it panicked; see the log"))
    })
}

/// The template as it is to be compiled, or what is too much in it.
pub(super) fn bounded(source: &str, syntax: SyntaxConfig) -> Result<String, String> {
    if source.len() > MOST_BYTES {
        return Err(format!("it has {} bytes, more than {MOST_BYTES}", source.len()));
    }
    let mut tag = Tag::default();
    let (mut elifs, mut whole, mut copied) = (0, String::with_capacity(source.len()), 0);
    for token in tokenize(source, false, syntax) {
        // The compiler says it better.
        let Ok((token, span)) = token else { break };
        let line = span.start_line;
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => tag = Tag::default(),
            Token::VariableEnd | Token::BlockEnd => {
                if let Some((from, to)) = tag.set_value() {
                    let value = source.get(from..to).unwrap_or_default();
                    let in_namespace = tag.in_namespace;
                    whole.push_str(source.get(copied..from).unwrap_or_default());
                    whole.push_str(&format!("({value})|{FILTER}({in_namespace})"));
                    copied = to;
                }
                tag = Tag::default();
            }
            token => {
                if tag.count == 0 && matches!(token, Token::Ident("elif")) {
                    elifs += 1;
                }
                tag.take(&token, span.end_offset as usize);
            }
        }
        if tag.count > MOST_TOKENS {
            return Err(format!("a tag has more than {MOST_TOKENS} tokens (line {line})"));
        }
        if tag.depth > DEEPEST_BRACKETS {
            return Err(format!(
                "more than {DEEPEST_BRACKETS} brackets within another (line {line})"
            ));
        }
        if elifs > MOST_ELIFS {
            return Err(format!("it has more than {MOST_ELIFS} elifs (line {line})"));
        }
    }
    whole.push_str(source.get(copied..).unwrap_or_default());
    Ok(whole)
}

/// A tag, as far as it has been read.
#[derive(Debug, Default)]
struct Tag {
    count: usize,
    depth: usize,
    is_set: bool,
    in_namespace: bool,
    /// Where the value that it sets begins, and the last token ends.
    value: Option<usize>,
    end: usize,
}

impl Tag {
    fn take(&mut self, token: &Token<'_>, end: usize) {
        match token {
            Token::Ident("set") if self.count == 0 => self.is_set = true,
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => self.depth += 1,
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.depth = self.depth.saturating_sub(1);
            }
            Token::Dot if self.value.is_none() => self.in_namespace = true,
            Token::Assign if self.is_set && self.depth == 0 && self.value.is_none() => {
                self.value = Some(end);
            }
            _ => {}
        }
        (self.count, self.end) = (self.count + 1, end);
    }

    fn set_value(&self) -> Option<(usize, usize)> {
        self.value.filter(|from| *from < self.end).map(|from| (from, self.end))
    }
}

/// A value that is set, if it isn't nested too deeply. It costs fuel for each that it holds.
fn as_set(state: &State<'_, '_>, value: Value, in_namespace: bool) -> Result<Value, Error> {
    // What is made while one goes through it may hold what it is made of.
    let value = match value.kind() {
        ValueKind::Iterable if in_namespace => value.try_iter()?.collect::<Value>(),
        _ => value,
    };
    let mut left = vec![(value.clone(), 0)];
    while let Some((value, depth)) = left.pop() {
        let is_seq = value.kind() == ValueKind::Seq;
        let Some(object) = value.as_object().filter(|_| is_seq || value.kind() == ValueKind::Map)
        else {
            continue;
        };
        if object.type_name().ends_with("Namespace") {
            if in_namespace {
                return Err(refused("a namespace can't hold a namespace"));
            }
            continue;
        }
        if depth >= DEEPEST_VALUE {
            return Err(refused("a value that is set may hold at most 256 within each other"));
        }
        let items: Vec<Value> = match is_seq {
            true => value.try_iter()?.collect(),
            false => {
                object.try_iter_pairs().into_iter().flatten().map(|(_, value)| value).collect()
            }
        };
        state.consume_fuel(items.len() as u64 / 4 + 1)?;
        left.extend(items.into_iter().map(|item| (item, depth + 1)));
    }
    Ok(value)
}

fn refused(words: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, words)
}
