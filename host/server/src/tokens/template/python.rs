//! Filters, tests and methods that do here as they do in Python, where minijinja has them otherwise
//! or not at all.

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::{json, sizes};

/// Puts them in place of the engine's own; none makes a longer text than `most` bytes.
pub(super) fn add_to(environment: &mut Environment<'_>, most: usize) {
    environment.set_unknown_method_callback(move |state, value, name, args| {
        method(state, value, name, args, most)
    });
    environment.add_filter(
        "tojson",
        move |value: &Value,
              ensure_ascii: Option<bool>,
              indent: Option<Value>,
              separators: Option<Value>,
              named: Kwargs| {
            to_json(value, ensure_ascii, indent, separators, named, most)
        },
    );
    environment.add_filter(
        "indent",
        move |state: &State<'_, '_>,
              text: &str,
              width: Option<Value>,
              first: Option<bool>,
              named: Kwargs| indent(state, text, width, first, named, most),
    );
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
}

fn to_json(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    separators: Option<Value>,
    named: Kwargs,
    most: usize,
) -> Result<String, Error> {
    let style = json::Style::new(
        ensure_ascii.or(named.get("ensure_ascii")?),
        indent.or(named.get("indent")?),
        separators.or(named.get("separators")?),
        named.get("sort_keys")?,
    )?;
    named.assert_all_used()?;
    json::write(value, &style, most)
}

/// Jinja2's `indent`, with all its turns: a line break at the end stays one.
fn indent(
    state: &State<'_, '_>,
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    named: Kwargs,
    most: usize,
) -> Result<String, Error> {
    let width = width.or(named.get("width")?);
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank: bool = named.get::<Option<bool>>("blank")?.unwrap_or(false);
    named.assert_all_used()?;
    let margin = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(margin) => margin.to_owned(),
            None => {
                let width = usize::try_from(width);
                // Wider than any page; what is asked for comes from the template.
                " ".repeat(width.map_err(|_| bad_width())?.min(1_000))
            }
        },
    };
    let lines = text.split('\n').count();
    sizes::check(text.len().saturating_add(lines.saturating_mul(margin.len())), most)?;
    state.consume_fuel((lines.saturating_mul(margin.len()) / 64) as u64)?;
    let mut indented = String::with_capacity(text.len() + lines * margin.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            indented.push('\n');
        }
        if (at > 0 || first) && (blank || !line.is_empty()) {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

fn bad_width() -> Error {
    Error::new(ErrorKind::InvalidOperation, "indent needs a width of at least 0, or a text")
}

/// Whether Python can take its length and look into it by number or key.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
        || value.is_undefined()
}

/// Whether Python can go through it.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
    most: usize,
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return pycompat::unknown_method_callback(state, value, name, args);
    };
    sizes::check_method(text, name, args, most)?;
    Ok(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            match text.split_once(separator) {
                Some((before, after)) => three(before, separator, after),
                None => three(text, "", ""),
            }
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            match text.rsplit_once(separator) {
                Some((before, after)) => three(before, separator, after),
                None => three("", "", text),
            }
        }
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            // As many as there are, if less than none are asked for.
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX - 1);
            let mut pieces: Vec<&str> = match separator {
                Some("") => {
                    let problem = "rsplit needs a separator that isn't empty";
                    return Err(Error::new(ErrorKind::InvalidOperation, problem));
                }
                Some(separator) => text.rsplitn(most + 1, separator).collect(),
                None => rsplit_at_spaces(text, most),
            };
            pieces.reverse();
            Value::from(pieces.into_iter().map(Value::from).collect::<Vec<_>>())
        }
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            let lines = lines(text, keep.unwrap_or(false));
            Value::from(lines.into_iter().map(Value::from).collect::<Vec<_>>())
        }
        _ => return pycompat::unknown_method_callback(state, value, name, args),
    })
}

fn three(one: &str, two: &str, three: &str) -> Value {
    Value::from(Tuple::from([one, two, three].map(Value::from)))
}

/// Words from the end; what is left of the text is the last one.
fn rsplit_at_spaces(text: &str, most: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text.trim_end());
    while !rest.is_empty() {
        let border = rest.char_indices().rev().find(|(_, letter)| letter.is_whitespace());
        match border.filter(|_| pieces.len() < most) {
            Some((at, letter)) => {
                pieces.push(&rest[at + letter.len_utf8()..]);
                rest = rest[..at].trim_end();
            }
            None => {
                pieces.push(rest);
                break;
            }
        }
    }
    pieces
}

/// Lines, with all the breaks that Python knows.
fn lines(text: &str, keep: bool) -> Vec<&str> {
    let is_break = |letter: char| {
        matches!(
            letter,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(is_break) {
        let width = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        lines.push(&rest[..if keep { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}
