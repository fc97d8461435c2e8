//! The fields of a JSON object, read one by one, with all problems gathered.

use serde::Serialize;
use serde_json::{Map, Value};

use super::values::{Read, kind};

/// The longest name of an unknown field that is shown.
const MOST_NAME: usize = 256;

/// The most unknown fields of an object that are named one by one: a body of some megabytes must not
/// have an answer of hundreds.
const MOST_UNKNOWN: usize = 16;

/// What is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The field's name; empty for the object as a whole.
    pub field: String,
    /// What is wrong, and what was expected.
    pub problem: String,
}

/// All that is wrong with an object; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
#[error("{} problem(s), the first: {}", .0.len(), .0.first().map(Problem::sentence).unwrap_or_default())]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    fn within(self, outer: &str) -> Self {
        let Self { field, problem } = self;
        let field = if field.is_empty() { outer.to_owned() } else { format!("{outer}.{field}") };
        Self { field, problem }
    }

    fn sentence(&self) -> String {
        let Self { field, problem } = self;
        if field.is_empty() { format!("it {problem}") } else { format!("{field} {problem}") }
    }
}

/// The fields that have not been read yet, and the problems up to here.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(description: &'a Value) -> Result<Self, Problems> {
        match description {
            Value::Object(object) => Ok(Self { object, known: Vec::new(), problems: Vec::new() }),
            other => Err(Problems(vec![Problem {
                field: String::new(),
                problem: format!("is {}; expected a JSON object", kind(other)),
            }])),
        }
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.object.contains_key(field)
    }

    /// A field that must be there.
    pub(crate) fn required<T>(
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
    pub(crate) fn optional<T>(
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
    pub(crate) fn optional_of<T>(
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

    /// A field that is an object with fields of its own, whose problems are gathered here. Left out
    /// and null are none.
    pub(crate) fn nested<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Fields<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(field);
        let value = self.object.get(field).filter(|value| !value.is_null())?;
        let inner = Fields::of(value).and_then(|mut fields| {
            let read = read(&mut fields);
            fields.finish().map(|()| read)
        });
        inner.unwrap_or_else(|Problems(problems)| {
            self.problems.extend(problems.into_iter().map(|one| one.within(field)));
            None
        })
    }

    /// A field that has a meaning, but not here.
    pub(crate) fn forbidden(&mut self, field: &'static str, why: &str) {
        if self.object.contains_key(field) {
            self.known.push(field);
            self.problem(field, why);
        }
    }

    /// How many problems there are up to here.
    pub(crate) fn problems(&self) -> usize {
        self.problems.len()
    }

    pub(crate) fn problem(&mut self, field: &str, problem: impl Into<String>) {
        self.problems.push(Problem { field: field.to_owned(), problem: problem.into() });
    }

    /// Refuses what nobody asked for, and reports all problems.
    pub(crate) fn finish(mut self) -> Result<(), Problems> {
        let known = match self.known.join(", ") {
            none if none.is_empty() => "no field is known here: leave it out".to_owned(),
            known => format!("known: {known}"),
        };
        let is_unknown = |field: &&String| !self.known.contains(&field.as_str());
        let mut unknown = self.object.keys().filter(is_unknown);
        for field in unknown.by_ref().take(MOST_UNKNOWN) {
            self.problems.push(Problem {
                field: field.chars().take(MOST_NAME).collect(),
                problem: format!("is unknown; {known}"),
            });
        }
        let more = unknown.count();
        if more > 0 {
            let problem = format!("has {more} more fields that are unknown; send known ones only");
            self.problems.push(Problem { field: String::new(), problem });
        }
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_up_to_a_number_and_counted_beyond() {
        let all: Map<String, Value> = (0..1_000).map(|i| (format!("k{i:04}"), json!(i))).collect();
        let all = Value::Object(all);
        let mut fields = Fields::of(&all).unwrap();
        let _ = fields.optional("a", |_| Ok(()));
        let Problems(problems) = fields.finish().unwrap_err();
        assert_eq!(problems.len(), MOST_UNKNOWN + 1);
        assert_eq!(
            problems[0],
            Problem { field: "k0000".into(), problem: "is unknown; known: a".into() }
        );
        let last = problems.last().unwrap().sentence();
        assert!(last.contains("984 more fields"), "{last}");
    }

    #[test]
    fn where_no_field_is_known_it_is_said_what_to_do() {
        let one = json!({ "x": 1 });
        let Problems(problems) = Fields::of(&one).unwrap().finish().unwrap_err();
        assert_eq!(problems[0].problem, "is unknown; no field is known here: leave it out");
    }
}
