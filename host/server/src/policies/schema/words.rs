//! What is wrong with a value, in the words that the configuration's own mistakes have.

use boon::{ErrorKind, InstanceToken, Type, ValidationError};
use serde_json::Value;

use super::Violation;
use crate::config::{as_plain_time, child_pointer, listed, nearest};

/// The most alternatives that are told of a value that fits none.
const MOST_ALTERNATIVES: usize = 3;

/// Bytes of what a library says.
const MOST_WORDS: usize = 200;

/// The first violations in an error.
pub(super) fn violations(
    error: &ValidationError<'_, '_>,
    schema: &Value,
    parameters: &Value,
    most: usize,
) -> Vec<Violation> {
    let mut found = Vec::new();
    Gathering { schema, parameters, most }.gather(error, &mut found);
    found.sort_by(|one, other| one.pointer.cmp(&other.pointer));
    found
}

struct Gathering<'a> {
    schema: &'a Value,
    parameters: &'a Value,
    most: usize,
}

impl Gathering<'_> {
    fn gather(&self, error: &ValidationError<'_, '_>, found: &mut Vec<Violation>) {
        if found.len() >= self.most {
            return;
        }
        let pointer = pointer(error);
        let mut add = |pointer: String, what: String| {
            let violation = Violation { pointer, what };
            if found.len() < self.most && !found.contains(&violation) {
                found.push(violation);
            }
        };
        match &error.kind {
            ErrorKind::AnyOf | ErrorKind::OneOf(None) => {
                let what = self.alternatives(error, &pointer);
                add(pointer, what);
            }
            ErrorKind::AdditionalProperties { got } => {
                let known: Vec<&str> = self.keys(error.schema_url);
                for key in got {
                    let meant = nearest(key, known.iter().copied());
                    let meant = meant.map(|one| format!("did you mean {one:?}? "));
                    let known = listed(known.iter().copied());
                    let what =
                        format!("unknown key; {}known here: {known}", meant.unwrap_or_default());
                    add(child_pointer(&pointer, key), what);
                }
            }
            ErrorKind::Required { want } => {
                for key in want {
                    let meaning = self.meaning(error.schema_url, key);
                    let meaning = meaning.map(|text| format!(": {text}")).unwrap_or_default();
                    add(pointer.clone(), format!("`{}` is missing; add it{meaning}", shorten(key)));
                }
            }
            _ if !error.causes.is_empty() => {
                error.causes.iter().for_each(|cause| self.gather(cause, found));
            }
            kind => {
                let what = self.plain(kind, &pointer);
                add(pointer, what);
            }
        }
    }

    /// A mistake of one value.
    fn plain(&self, kind: &ErrorKind<'_, '_>, pointer: &str) -> String {
        let expected = match kind {
            ErrorKind::Type { want, .. } => want.iter().map(name).collect::<Vec<_>>().join(" or "),
            ErrorKind::Enum { want } => one_of(want),
            ErrorKind::Const { want } => show(want),
            ErrorKind::Minimum { want, .. } => format!("at least {want}"),
            ErrorKind::Maximum { want, .. } => format!("at most {want}"),
            ErrorKind::ExclusiveMinimum { want, .. } => format!("more than {want}"),
            ErrorKind::ExclusiveMaximum { want, .. } => format!("less than {want}"),
            ErrorKind::MultipleOf { want, .. } => format!("a multiple of {want}"),
            ErrorKind::Pattern { want, .. } => format!("a text that fits {:?}", shorten(want)),
            ErrorKind::MinLength { got, want } => {
                return format!("expected at least {}, found {got}", counted(*want, "character"));
            }
            ErrorKind::MaxLength { got, want } => {
                return format!("expected at most {}, found {got}", counted(*want, "character"));
            }
            ErrorKind::MinItems { got, want } => {
                return format!("expected at least {}, found {got}", counted(*want, "item"));
            }
            ErrorKind::MaxItems { got, want } => {
                return format!("expected at most {}, found {got}", counted(*want, "item"));
            }
            ErrorKind::MinProperties { got, want } => {
                return format!("expected at least {}, found {got}", counted(*want, "key"));
            }
            ErrorKind::MaxProperties { got, want } => {
                return format!("expected at most {}, found {got}", counted(*want, "key"));
            }
            ErrorKind::UniqueItems { got: [one, other] } => {
                return format!("items {one} and {other} are the same; keep one of them");
            }
            ErrorKind::FalseSchema => return "nothing may stand here; leave it out".to_owned(),
            other => return bounded(&other.to_string(), MOST_WORDS),
        };
        let value = self.parameters.pointer(pointer);
        let found = value.map_or_else(|| "nothing".to_owned(), show);
        let plain = value.and_then(Value::as_str).and_then(|text| as_plain_time(pointer, text));
        let plain = plain.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        format!("expected {expected}, found {found}{plain}")
    }

    /// A value that fits none of several schemas.
    fn alternatives(&self, error: &ValidationError<'_, '_>, pointer: &str) -> String {
        let mut inner = Vec::new();
        error.causes.iter().for_each(|cause| self.gather(cause, &mut inner));
        let told = inner.iter().take(MOST_ALTERNATIVES).map(|violation| {
            match violation.pointer.strip_prefix(pointer).unwrap_or_default() {
                "" => violation.what.clone(),
                below => format!("at {:?} {}", shorten(below), violation.what),
            }
        });
        format!("fits none of the alternatives: {}", told.collect::<Vec<_>>().join("; or "))
    }

    /// The mapping of the schema that an error is of.
    fn schema(&self, url: &str) -> Option<&Value> {
        let (_, pointer) = url.split_once('#')?;
        self.schema.pointer(pointer)
    }

    fn keys(&self, url: &str) -> Vec<&str> {
        let properties = self.schema(url).and_then(|schema| schema.get("properties")?.as_object());
        properties.into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect()
    }

    /// What a key is for, as the schema describes it.
    fn meaning(&self, url: &str, key: &str) -> Option<String> {
        let described = self.schema(url)?.get("properties")?.get(key)?.get("description")?;
        Some(bounded(described.as_str()?, MOST_WORDS)).filter(|text| !text.is_empty())
    }
}

fn pointer(error: &ValidationError<'_, '_>) -> String {
    let tokens = error.instance_location.tokens.iter();
    tokens.fold(String::new(), |above, token| match token {
        InstanceToken::Prop(key) => child_pointer(&above, key),
        InstanceToken::Item(item) => format!("{above}/{item}"),
    })
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn name(of: Type) -> &'static str {
    match of {
        Type::Null => "nothing",
        Type::Boolean => "true or false",
        Type::Number => "a number",
        Type::Integer => "a whole number",
        Type::String => "a text",
        Type::Array => "a list",
        Type::Object => "a mapping",
    }
}

fn one_of(values: &[Value]) -> String {
    match values {
        [only] => show(only),
        values => {
            let shown: Vec<String> = values.iter().map(show).collect();
            format!("one of {}", listed(shown.iter().map(String::as_str)))
        }
    }
}

/// A value in a message.
fn show(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", shorten(text)),
        other => kind(other).to_owned(),
    }
}

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// A text for a message, which puts it in quotes.
pub(super) fn shorten(text: &str) -> String {
    crate::config::shorten(text)
}

/// What a guest or a library says, on one line and bounded.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
