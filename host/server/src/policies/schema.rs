//! What a component says its parameters are: the JSON Schema that its `about` gives, held against
//! what the YAML says.
//!
//! A schema is a guest's text. It is taken up only within bounds (see `bounds`), follows no reference
//! out of itself, and reads no file; one that can't be used is told in a sentence, and what it is of
//! goes on unchecked, for the component checks its parameters itself. A [`Violation`] names the value
//! by its JSON pointer. It doesn't know where in a file that value stands.

mod bounds;
pub(super) mod builtins;
mod words;

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::{Map, Value};

/// What the schema is called among schemas. Nothing is there.
const LOCATION: &str = "about:///parameters";

/// The most violations that are told of one mapping.
const MOST: usize = 20;

/// Bytes of a library's reason.
const MOST_REASON: usize = 200;

/// The schema of a component's parameters, or why it is of no use.
pub struct ParametersSchema(Result<Compiled, String>);

struct Compiled {
    text: Value,
    schemas: Schemas,
    index: SchemaIndex,
}

/// A value that isn't as a schema has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The JSON pointer of the value; of a key that is missing, that of the mapping which lacks it.
    pub pointer: String,
    /// What is wrong, and what to do about it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "parameters: {}", self.what),
            pointer => write!(f, "parameters at {:?}: {}", words::shorten(pointer), self.what),
        }
    }
}

/// Refuses to load what a schema refers to.
struct NothingElse;

impl UrlLoader for NothingElse {
    fn load(&self, _: &str) -> Result<Value, Box<dyn Error>> {
        Err("nothing outside of the schema is read".into())
    }
}

impl ParametersSchema {
    /// Reads a schema. It takes its time and its memory within bounds, and never fails: what can't
    /// be used says so when it is asked.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self(read(text))
    }

    /// What is wrong with parameters, the first of it.
    ///
    /// # Errors
    ///
    /// Why the schema can't be used, in words that go on after "its schema".
    pub fn check(&self, parameters: &Map<String, Value>) -> Result<Vec<Violation>, String> {
        let compiled = self.0.as_ref().map_err(Clone::clone)?;
        let parameters = Value::Object(parameters.clone());
        let checked = catch_unwind(AssertUnwindSafe(|| compiled.check(&parameters)));
        checked.map_err(|_| "made the checker panic; look at its keywords".to_owned())
    }
}

impl Compiled {
    fn check(&self, parameters: &Value) -> Vec<Violation> {
        match self.schemas.validate(parameters, self.index) {
            Ok(()) => Vec::new(),
            Err(error) => words::violations(&error, &self.text, parameters, MOST),
        }
    }
}

fn read(text: &str) -> Result<Compiled, String> {
    let json: Value = serde_json::from_str(text)
        .map_err(|error| format!("is no JSON document of at most 64 KiB: {error}"))?;
    bounds::check(&json)?;
    let compile = || {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NothingElse));
        let mut schemas = Schemas::new();
        compiler.add_resource(LOCATION, json.clone()).map_err(|error| told(&error))?;
        let index = compiler.compile(LOCATION, &mut schemas).map_err(|error| told(&error))?;
        Ok((schemas, index))
    };
    let compiled = catch_unwind(AssertUnwindSafe(compile))
        .unwrap_or_else(|_| Err("made its reader panic; look at its keywords".to_owned()));
    compiled.map(|(schemas, index)| Compiled { text: json, schemas, index })
}

/// Why a text isn't taken as a schema.
fn told(error: &CompileError) -> String {
    let text = words::bounded(&format!("{error:#}"), usize::MAX);
    // Behind the names of the schemas.
    let reason = text.split_once("# - ").map_or(text.as_str(), |(_, reason)| reason);
    format!("is no JSON Schema: {}", words::bounded(reason, MOST_REASON))
}

impl fmt::Debug for ParametersSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.as_ref().map(|_| "usable");
        f.debug_tuple("ParametersSchema").field(&state).finish()
    }
}

#[cfg(test)]
mod tests;
