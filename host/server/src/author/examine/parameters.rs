//! The schema of a component's parameters: whether it can be used, and whether what it says of defaults
//! is so.

use pointsman_wasm::Description;
use serde_json::{Map, Value};

use super::Findings;
use super::policy::{Tried, unlike, with_parameters};
use crate::author::Given;
use crate::author::scene::Way;
use crate::policies::ParametersSchema;

/// The text of a schema, if there is one.
fn text(about: Option<&Description>) -> Option<&str> {
    about.map(|about| about.parameters_schema.trim()).filter(|text| !text.is_empty())
}

/// What a schema says is left out, by key.
fn default_values(text: &str) -> Vec<(String, Value)> {
    let schema: Value = serde_json::from_str(text).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let defaults = properties.into_iter().flatten();
    defaults.filter_map(|(key, of)| Some((key.clone(), of.get("default")?.clone()))).collect()
}

/// The given parameters with one more.
fn with(given: &Map<String, Value>, key: &str, value: &Value) -> Map<String, Value> {
    let mut all = given.clone();
    all.insert(key.to_owned(), value.clone());
    all
}

/// Whether the schema is one, and takes the parameters and its own defaults.
pub(super) fn schema(about: Option<&Description>, given: &Given, found: &mut Findings) {
    let Some(text) = text(about) else {
        let what = "none: the YAML is held to nothing before the policy itself looks at it; give one in `about`";
        return found.note("schema", what);
    };
    let schema = ParametersSchema::read(text);
    let mut mistakes = Vec::new();
    match schema.check(&given.parameters) {
        Err(why) => return found.wrong("schema", format!("its schema {why}")),
        Ok(violations) => {
            let told = violations.iter().map(|it| format!("it refuses {} ({it})", given.from));
            mistakes.extend(told);
        }
    }
    for (key, value) in default_values(text) {
        let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let violations = schema.check(&with(&given.parameters, &key, &value)).unwrap_or_default();
        let of_key = violations.iter().filter(|it| it.pointer.starts_with(&pointer));
        mistakes.extend(of_key.map(|it| format!("it refuses its own default: {it}")));
    }
    if mistakes.is_empty() {
        found.good("schema", "valid, and takes the parameters and its own defaults");
    } else {
        found.wrong("schema", mistakes.join("; "));
    }
}

/// Whether leaving a key out is the same as giving its default.
pub(super) fn defaults(tried: &Tried<'_>, about: Option<&Description>, found: &mut Findings) {
    let given = &tried.stage.environment.parameters;
    let defaults = default_values(text(about).unwrap_or_default());
    let left_out = defaults.iter().filter(|(key, _)| !given.contains_key(key));
    let (mut mistakes, mut same) = (Vec::new(), 0);
    for (key, value) in left_out {
        let stage = with_parameters(tried.stage, with(given, key, value));
        match tried.scene.play(&stage, Way::Parts) {
            Err(words) => mistakes.push(format!(
                "{key:?} defaults to {value} by the schema, and the policy refuses that: {words}"
            )),
            Ok(answers) => match unlike(&tried.answers, &answers) {
                0 => same += 1,
                others => mistakes.push(format!(
                    "{key:?} defaults to {value} by the schema, and giving that changes {others} of {} answers",
                    answers.len()
                )),
            },
        }
    }
    if !mistakes.is_empty() {
        let mistakes = mistakes.join("; ");
        found.wrong("defaults", format!("{mistakes}; give schema and policy the same default"));
    } else if same > 0 {
        found.good("defaults", format!("{same} given as the schema has them change nothing"));
    }
}
