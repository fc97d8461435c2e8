//! The fields of a JSON object, read one by one, with all problems gathered.

use super::*;
use crate::config::worker_endpoint;

/// The most entries of a list or a map, and the longest text, that a worker may be marked with.
/// They are copied with every snapshot of the fleet.
const MOST_MARKS: usize = 64;
const MOST_BYTES: usize = 256;

/// What a reader says of a value: the value, or what was expected.
pub(super) type Read<T> = Result<T, String>;

/// The fields that have not been read yet, and the problems up to here.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(description: &'a Value) -> Result<Self, Problems> {
        match description {
            Value::Object(object) => Ok(Self { object, known: Vec::new(), problems: Vec::new() }),
            other => Err(Problems(vec![Problem {
                field: String::new(),
                problem: format!("is {}; expected a JSON object", kind(other)),
            }])),
        }
    }

    /// A field that must be there.
    pub(super) fn required<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&Value) -> Read<T>,
    ) -> Option<T> {
        match self.optional(field, read) {
            Some(Some(value)) => Some(value),
            Some(None) => {
                self.problem(field, "is null; expected a value");
                None
            }
            None => {
                // A value that is there, but wrong, has its problem already.
                if !self.object.contains_key(field) {
                    self.problem(field, "is missing");
                }
                None
            }
        }
    }

    /// A field that may be left out (none), or be null (some none).
    pub(super) fn optional<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&Value) -> Read<T>,
    ) -> Option<Option<T>> {
        self.known.push(field);
        match self.object.get(field)? {
            Value::Null => Some(None),
            value => match read(value) {
                Ok(value) => Some(Some(value)),
                Err(problem) => {
                    self.problem(field, problem);
                    None
                }
            },
        }
    }

    /// A field with two names, of which one may be there.
    pub(super) fn optional_of<T>(
        &mut self,
        [first, second]: [&'static str; 2],
        read: impl Fn(&Value) -> Read<T>,
    ) -> Option<Option<T>> {
        let one = self.optional(first, &read);
        let other = self.optional(second, &read);
        if self.object.contains_key(first) && self.object.contains_key(second) {
            self.problem(second, format!("is the same as {first}; give one of them"));
        }
        one.or(other)
    }

    /// A field that has a meaning, but not here.
    pub(super) fn forbidden(&mut self, field: &'static str, why: &str) {
        if self.object.contains_key(field) {
            self.known.push(field);
            self.problem(field, why);
        }
    }

    pub(super) fn problem(&mut self, field: &str, problem: impl Into<String>) {
        self.problems.push(Problem { field: field.to_owned(), problem: problem.into() });
    }

    /// Refuses what nobody asked for, and reports all problems.
    pub(super) fn finish(mut self) -> Result<(), Problems> {
        let known = self.known.join(", ");
        for field in self.object.keys().filter(|field| !self.known.contains(&field.as_str())) {
            self.problems.push(Problem {
                field: field.chars().take(MOST_BYTES).collect(),
                problem: format!("is unknown; known: {known}"),
            });
        }
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn whole(value: &Value) -> Read<u64> {
    value
        .as_u64()
        .ok_or_else(|| format!("is {}; expected a whole number of at least 0", show(value)))
}

pub(super) fn count(value: &Value) -> Read<u32> {
    let number = whole(value)?;
    u32::try_from(number).map_err(|_| format!("is {number}; expected less than 2^32"))
}

pub(super) fn positive(value: &Value) -> Read<NonZeroU32> {
    NonZeroU32::new(count(value)?).ok_or_else(|| "is 0; expected at least 1".to_owned())
}

pub(super) fn ranks(value: &Value) -> Read<NonZeroU32> {
    let size = positive(value)?;
    if size.get() <= MAX_RANKS_PER_WORKER {
        Ok(size)
    } else {
        Err(format!("is {size}; expected at most {MAX_RANKS_PER_WORKER}"))
    }
}

pub(super) fn name(value: &Value) -> Read<String> {
    let text = value.as_str().ok_or_else(|| format!("is {}; expected a string", kind(value)))?;
    if text.is_empty() || text.len() > MOST_BYTES || text.chars().any(char::is_control) {
        return Err(format!("must have 1 to {MOST_BYTES} bytes without control characters"));
    }
    Ok(text.to_owned())
}

pub(super) fn role(value: &Value) -> Read<Role> {
    let found = value.as_str().and_then(|word| Role::ALL.into_iter().find(|r| r.as_str() == word));
    found.ok_or_else(|| {
        let known = Role::ALL.map(Role::as_str).join(", ");
        format!("is {}; known: {known}", show(value))
    })
}

pub(super) fn names(value: &Value) -> Read<BTreeSet<String>> {
    let list = value.as_array().ok_or_else(|| format!("is {}; expected a list", kind(value)))?;
    if list.len() > MOST_MARKS {
        return Err(format!("has {} entries; expected at most {MOST_MARKS}", list.len()));
    }
    let names = list.iter().enumerate();
    names.map(|(i, one)| name(one).map_err(|problem| format!("entry {i} {problem}"))).collect()
}

pub(super) fn labels(value: &Value) -> Read<BTreeMap<String, String>> {
    let map = value.as_object().ok_or_else(|| format!("is {}; expected an object", kind(value)))?;
    if map.len() > MOST_MARKS {
        return Err(format!("has {} entries; expected at most {MOST_MARKS}", map.len()));
    }
    let labels = map.iter().map(|(key, value)| {
        name(&Value::String(key.clone())).map_err(|problem| format!("a key {problem}"))?;
        let value = value
            .as_str()
            .filter(|text| text.len() <= MOST_BYTES)
            .ok_or_else(|| format!("{key:?} must be a string of at most {MOST_BYTES} bytes"))?;
        Ok((key.clone(), value.to_owned()))
    });
    labels.collect()
}

/// `http://host:port`, without a path: paths come from requests.
pub(super) fn endpoint(value: &Value) -> Read<String> {
    let expected = || format!("is {}; expected http://host:port", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    worker_endpoint(text).map_err(|wrong| format!("is {}; {wrong}", show(value)))
}

pub(super) fn lease(value: &Value) -> Read<Duration> {
    let expected = || format!("is {}; expected a time with its unit, as in \"30s\"", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    let length = Duration::from_millis(millis.ok_or_else(expected)?);
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&length) {
        Ok(length)
    } else {
        Err(format!("is {text:?}; expected 100ms to 24h"))
    }
}

/// A value as it was given, bounded.
fn show(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
