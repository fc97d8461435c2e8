//! Which schemas are taken: those whose work is bounded before it begins.
//!
//! A few hundred bytes of references can stand for 2^100 schemas, or for one without an end. So
//! references are followed here once, counting what they stand for: a schema that comes back to
//! itself is refused, and so is one that stands for too much. Then no value is looked at by more than
//! as many schemas as were counted. It knows no keyword but those that refer.

use std::collections::HashMap;

use serde_json::Value;

use super::words;

/// The deepest nesting of the text.
const MOST_NESTED: usize = 48;

/// The deepest nesting once all references are followed.
const MOST_DEEP: usize = 96;

/// Nodes once all references are followed. A schema of parameters has some hundreds.
const MOST_NODES: u64 = 20_000;

/// Ways to refer that depend on where the checker comes from, or that rename places.
const DYNAMIC: [&str; 5] =
    ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor"];

/// What a node stands for.
#[derive(Clone, Copy)]
struct Extent {
    nodes: u64,
    depth: usize,
}

/// Refuses what isn't bounded, in words that go on after "its schema".
pub(super) fn check(schema: &Value) -> Result<(), String> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return Err(format!("is {}, no mapping", words::kind(schema)));
    }
    nested(schema, 0)?;
    let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    // Elsewhere it is a key as any other.
    let id = if draft.contains("draft-04") { "id" } else { "$id" };
    let mut walk = Walk { root: schema, id, known: HashMap::new() };
    walk.of(schema, true, 0).map(|_| ())
}

fn nested(node: &Value, depth: usize) -> Result<(), String> {
    if depth > MOST_NESTED {
        return Err(format!("is nested deeper than {MOST_NESTED} levels"));
    }
    match node {
        Value::Array(items) => items.iter().try_for_each(|item| nested(item, depth + 1)),
        Value::Object(fields) => fields.values().try_for_each(|value| nested(value, depth + 1)),
        _ => Ok(()),
    }
}

struct Walk<'v> {
    root: &'v Value,
    /// What gives a schema a name of its own, which references in it are then relative to.
    id: &'static str,
    /// What the targets of references stand for; none while that is being found out.
    known: HashMap<&'v str, Option<Extent>>,
}

impl<'v> Walk<'v> {
    fn of(&mut self, node: &'v Value, is_root: bool, depth: usize) -> Result<Extent, String> {
        if depth > MOST_DEEP {
            return Err(too_deep());
        }
        let mut extent = Extent { nodes: 1, depth: 0 };
        match node {
            Value::Array(items) => {
                for item in items {
                    extent.add(self.of(item, false, depth + 1)?)?;
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    extent.add(self.of(value, false, depth + 1)?)?;
                    let Value::String(text) = value else { continue };
                    if DYNAMIC.contains(&key.as_str()) || (!is_root && key == self.id) {
                        return Err(format!("has {key:?}, which is not followed here"));
                    }
                    if key == "$ref" {
                        extent.add(self.target(text, depth + 1)?)?;
                    }
                }
            }
            _ => {}
        }
        Ok(extent)
    }

    fn target(&mut self, reference: &'v str, depth: usize) -> Result<Extent, String> {
        let shown = words::shorten(reference);
        match self.known.get(reference) {
            Some(Some(extent)) => return Ok(*extent),
            Some(None) => return Err(format!("comes back to itself at {shown:?}")),
            None => {}
        }
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("refers to {shown:?}, and nothing outside of it is read"));
        };
        // The whole of it is what the reference is in.
        if pointer.is_empty() || pointer == "/" {
            return Err(format!("comes back to itself at {shown:?}"));
        }
        let Some(target) = self.root.pointer(pointer) else {
            return Err(format!("refers to {shown:?}, where it has nothing"));
        };
        self.known.insert(reference, None);
        let extent = self.of(target, false, depth)?;
        self.known.insert(reference, Some(extent));
        Ok(extent)
    }
}

impl Extent {
    /// Takes in what is one level below.
    fn add(&mut self, below: Self) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.depth = self.depth.max(below.depth + 1);
        if self.nodes > MOST_NODES {
            return Err(format!(
                "stands for more than {MOST_NODES} values, its references followed"
            ));
        }
        if self.depth > MOST_DEEP { Err(too_deep()) } else { Ok(()) }
    }
}

fn too_deep() -> String {
    format!("is deeper than {MOST_DEEP} levels, its references followed")
}
