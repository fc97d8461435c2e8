//! JSON as Python's `json.dumps` writes it.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::sizes;

/// Values deeper than this are refused, as Python refuses them at some depth.
const DEEPEST: usize = 200;

/// How it is written.
#[derive(Debug)]
pub(super) struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    between: String,
    after_key: String,
    sort_keys: bool,
}

impl Style {
    pub(super) fn new(
        ensure_ascii: Option<bool>,
        indent: Option<Value>,
        separators: Option<Value>,
        sort_keys: Option<bool>,
    ) -> Result<Self, Error> {
        let indent = match indent.filter(|indent| !indent.is_none()) {
            None => None,
            Some(indent) => match indent.as_str() {
                Some(text) => Some(text.to_owned()),
                None => {
                    let width = usize::try_from(indent).map_err(|_| bad("an indent"))?;
                    // Wider than any page; what is asked for comes from the template.
                    Some(" ".repeat(width.min(1_000)))
                }
            },
        };
        let between = if indent.is_some() { "," } else { ", " };
        let mut style = Self {
            ensure_ascii: ensure_ascii.unwrap_or(false),
            indent,
            between: between.to_owned(),
            after_key: ": ".to_owned(),
            sort_keys: sort_keys.unwrap_or(false),
        };
        if let Some(separators) = separators.filter(|separators| !separators.is_none()) {
            let pair: Vec<Value> = separators.try_iter()?.collect();
            let [between, after_key] = &pair[..] else { return Err(bad("separators")) };
            style.between = between.as_str().ok_or_else(|| bad("separators"))?.to_owned();
            style.after_key = after_key.as_str().ok_or_else(|| bad("separators"))?.to_owned();
        }
        Ok(style)
    }
}

/// Writes a value, if that takes no more than `most` bytes.
pub(super) fn write(value: &Value, style: &Style, most: usize) -> Result<String, Error> {
    let mut writer = Writer { text: String::new(), style, depth: 0, most };
    writer.value(value)?;
    sizes::check(writer.text.len(), most)?;
    Ok(writer.text)
}

struct Writer<'a> {
    text: String,
    style: &'a Style,
    depth: usize,
    most: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.group('[', ']', items, Self::value)?;
            }
            ValueKind::Map => {
                let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
                let mut pairs: Vec<(Value, Value)> = pairs.into_iter().flatten().collect();
                if self.style.sort_keys {
                    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
                }
                self.group('{', '}', pairs, Self::pair)?;
            }
            kind => {
                let problem = format!("{kind} can't be written as JSON");
                return Err(Error::new(ErrorKind::BadSerialization, problem));
            }
        }
        Ok(())
    }

    fn pair(&mut self, (key, value): &(Value, Value)) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.text.push('"');
                self.value(key)?;
                self.text.push('"');
            }
            _ => return Err(bad("a key")),
        }
        self.text.push_str(&self.style.after_key);
        self.value(value)
    }

    fn group<T>(
        &mut self,
        open: char,
        close: char,
        items: Vec<T>,
        each: impl Fn(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.text.push(open);
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(bad("a depth"));
        }
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push_str(&self.style.between);
            }
            self.line()?;
            each(self, item)?;
            sizes::check(self.text.len(), self.most)?;
        }
        self.depth -= 1;
        if !items.is_empty() {
            self.line()?;
        }
        self.text.push(close);
        Ok(())
    }

    fn line(&mut self) -> Result<(), Error> {
        if let Some(indent) = &self.style.indent {
            let margin = indent.len().saturating_mul(self.depth);
            sizes::check(self.text.len().saturating_add(margin), self.most)?;
            self.text.push('\n');
            for _ in 0..self.depth {
                self.text.push_str(indent);
            }
        }
        Ok(())
    }

    fn string(&mut self, string: &str) {
        self.text.push('"');
        for letter in string.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\0'..='\u{1f}' => self.escape(letter),
                '\u{7f}'.. if self.style.ensure_ascii && letter > '\u{7f}' => self.escape(letter),
                _ => self.text.push(letter),
            }
        }
        self.text.push('"');
    }

    fn escape(&mut self, letter: char) {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string can't fail.
            let _ = write!(self.text, "\\u{unit:04x}");
        }
    }
}

/// A number as Python's `repr` writes it.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) => float(number),
        Err(_) => value.to_string(),
    }
}

fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = number.abs().to_string();
        let point = if plain.contains('.') { "" } else { ".0" };
        return format!("{sign}{plain}{point}");
    }
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{digits}e{mark}{:02}", exponent.abs())
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson can't use {what} like this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
            (123_456.789, "123456.789"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
