//! How large a text gets that a filter or a method makes, before it is made.
//!
//! Fuel counts what was made. Some filters make far more than they were given: a text between each
//! two items of a list, a number as wide as the template says. They are measured here first, and
//! what would be longer than a prompt may be is refused.

use std::fmt::{self, Write};
use std::io;

use minijinja::formatting::{self, FormatStyle};
use minijinja::value::{Kwargs, Rest, StringInput};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::Full;

/// Puts filters that look at sizes in place of the engine's own.
pub(super) fn add_to(environment: &mut Environment<'_>, most: usize) {
    environment.add_filter(
        "join",
        move |state: &mut State<'_, '_>,
              value: &Value,
              joiner: Option<&Value>,
              attribute: Option<&str>,
              named: Kwargs| {
            let between = joiner.cloned().or_else(|| named.peek::<Value>("d").ok());
            let has_attribute = attribute.is_some() || named.has("attribute");
            check_join(value, &between.unwrap_or_default(), has_attribute, most)?;
            let joiner = joiner.map(|joiner| StringInput::new(state, joiner)).transpose()?;
            minijinja::filters::join(state, value, joiner, attribute, named)
        },
    );
    environment.add_filter("format", move |text: &str, args: Rest<Value>| {
        check_format(text, &args, most)?;
        formatting::format(FormatStyle::Printf, text, &args)
    });
    environment.add_filter(
        "replace",
        move |value: &Value, from: &Value, to: &Value, count: Option<i64>, named: Kwargs| {
            let [value, from, to] = [value, from, to].map(|text| text_of(text, most));
            let (value, from, to) = (value?, from?, to?);
            let count = count.or(named.get("count")?);
            named.assert_all_used()?;
            let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
            check_replace(&value, &from, &to, count, most)?;
            Ok::<String, Error>(value.replacen(&*from, &to, count))
        },
    );
    environment.add_filter("string", move |value: &Value| match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => text_of(value, most).map(Value::from),
    });
}

/// Looks at what a method of texts is about to make.
pub(super) fn check_method(
    text: &str,
    name: &str,
    args: &[Value],
    most: usize,
) -> Result<(), Error> {
    match (name, args) {
        ("join", [values, ..]) => check_join(values, &Value::from(text), false, most),
        ("format", _) => check_format(text, args, most),
        ("replace", [from, to, rest @ ..]) => {
            let count = rest.first().and_then(|count| usize::try_from(count.clone()).ok());
            let [from, to] = [from, to].map(|text| text.as_str().unwrap_or_default());
            check_replace(text, from, to, count.unwrap_or(usize::MAX), most)
        }
        _ => Ok(()),
    }
}

fn check_join(values: &Value, between: &Value, of_items: bool, most: usize) -> Result<(), Error> {
    let between = between.as_str().map_or(0, str::len);
    let mut bytes = 0_usize;
    for item in values.try_iter()? {
        let own = match item.as_str() {
            Some(text) => text.len(),
            // A field of each is joined: as long as all its fields, at most.
            None if of_items => 1,
            None => text_of(&item, most)?.len(),
        };
        bytes = bytes.saturating_add(own).saturating_add(between);
        check(bytes, most)?;
    }
    Ok(())
}

/// Widths and precisions are numbers in the text, or among the arguments; each argument may be
/// written as often as the text has places for it.
fn check_format(text: &str, args: &[Value], most: usize) -> Result<(), Error> {
    let mut bytes = text.len();
    for number in text.split(|letter: char| !letter.is_ascii_digit()) {
        let width = number.trim_start_matches('0');
        let width = if width.len() > 12 { usize::MAX } else { width.parse().unwrap_or(0) };
        bytes = bytes.saturating_add(width);
    }
    let places = text.bytes().filter(|letter| matches!(letter, b'{' | b'%')).count();
    let mut longest = 0;
    for arg in args {
        longest = longest.max(text_of(arg, most)?.len());
        let width = usize::try_from(arg.clone()).unwrap_or(0);
        let is_asked = text.contains('*') || text.contains(":{") || text.contains(".{");
        if is_asked {
            bytes = bytes.saturating_add(width.saturating_mul(places));
        }
    }
    check(bytes.saturating_add(longest.saturating_mul(places)), most)
}

fn check_replace(text: &str, from: &str, to: &str, count: usize, most: usize) -> Result<(), Error> {
    let found = match from.is_empty() {
        true => text.len().saturating_add(1).min(count),
        false => text.matches(from).take(count).count(),
    };
    check(
        text.len().saturating_add(found.saturating_mul(to.len().saturating_sub(from.len()))),
        most,
    )
}

/// Whether a text of so many bytes may be made.
pub(super) fn check(bytes: usize, most: usize) -> Result<(), Error> {
    if bytes <= most { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> Error {
    let words = "a text gets longer than a prompt may be";
    Error::new(ErrorKind::InvalidOperation, words).with_source(io::Error::other(Full))
}

/// A value as it is written, up to a length.
fn text_of(value: &Value, most: usize) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut text = Text { text: String::new(), most };
    // Nothing but the length makes this fail.
    write!(text, "{value}").map_err(|_| too_long())?;
    Ok(text.text)
}

/// A text up to a length.
struct Text {
    text: String,
    most: usize,
}

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if more.len() > self.most.saturating_sub(self.text.len()) {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}
