//! The OpenAPI document, to be held to what is taken and answered.

use std::collections::BTreeSet;

use super::*;

/// The document.
pub(super) struct Document(pub(super) Value);

impl Document {
    pub(super) fn read() -> Self {
        Self(serde_json::from_str(openapi::TEXT).unwrap())
    }

    /// What a reference leads to.
    fn at<'a>(&'a self, it: &'a Value) -> &'a Value {
        let leads = |reference: &str| self.0.pointer(reference.trim_start_matches('#')).unwrap();
        it["$ref"].as_str().map_or(it, leads)
    }

    /// Every (method, path, operation).
    pub(super) fn operations(&self) -> Vec<(&str, &str, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let each = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (&**method, &**path, operation))
        });
        each.collect()
    }

    /// The operation of a request; none of a path that there isn't.
    fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap();
        let is = |one: &str| {
            let (ours, theirs) = (one.split('/'), path.split('/'));
            one.split('/').count() == path.split('/').count()
                && ours.zip(theirs).all(|(ours, its)| ours == its || ours.starts_with('{'))
        };
        let method = method.as_str().to_lowercase();
        let mut its = self.operations().into_iter().filter(|(m, one, _)| **m == method && is(one));
        let exact = |(_, one, _): &(&str, &str, &Value)| *one == path;
        let all: Vec<_> = its.by_ref().collect();
        all.iter().find(|it| exact(it)).or(all.first()).map(|(_, _, operation)| *operation)
    }

    fn answer_of<'a>(&'a self, operation: &'a Value, status: u16) -> Option<&'a Value> {
        let answer = operation["responses"].get(status.to_string())?;
        Some(&self.at(answer)["content"]["application/json"]["schema"])
    }

    /// Every field that answers may have, as `Schema/field/field`.
    pub(super) fn fields_of_answers(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (_, _, operation) in self.operations() {
            for status in operation["responses"].as_object().unwrap().keys() {
                let schema = self.answer_of(operation, status.parse().unwrap()).unwrap();
                self.gather(schema, "answer", &mut all);
            }
        }
        all
    }

    fn gather(&self, schema: &Value, place: &str, all: &mut BTreeSet<String>) {
        let place = named(schema, place);
        let schema = self.at(schema);
        for (field, its) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}/{field}");
            self.gather(its, &place, all);
            all.insert(place);
        }
        if schema["items"].is_object() {
            self.gather(&schema["items"], &place, all);
        }
    }

    /// Holds an answer to what is said of it, and gathers the fields that it has.
    pub(super) fn hold(&self, method: &Method, path: &str, answer: &Answer) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let status = answer.status.as_u16();
        if status == 405 {
            return seen;
        }
        let Some(operation) = self.operation(method, path) else {
            assert!(path == "/openapi.json" || status == 404, "{method} {path}: {status}");
            return seen;
        };
        let schema = self.answer_of(operation, status);
        let schema = schema.unwrap_or_else(|| panic!("{method} {path}: {status} isn't named"));
        self.walk(schema, &answer.json(), "answer", &mut seen);
        seen
    }

    fn walk(&self, schema: &Value, value: &Value, place: &str, seen: &mut BTreeSet<String>) {
        let place = named(schema, place);
        let schema = self.at(schema);
        match value {
            Value::Object(fields) => {
                let known = schema["properties"].as_object();
                for (field, its) in fields {
                    let place = format!("{place}/{field}");
                    if let Some(schema) = known.and_then(|known| known.get(field)) {
                        self.walk(schema, its, &place, seen);
                        seen.insert(place);
                    } else {
                        let others = &schema["additionalProperties"];
                        let open = others == &json!(true) || others.is_object();
                        // What is wrong with a request has no shape of its own.
                        let open = open || place.starts_with("Error/details/");
                        assert!(open, "{place} isn't in the document");
                    }
                }
                for needed in schema["required"].as_array().into_iter().flatten() {
                    assert!(fields.contains_key(needed.as_str().unwrap()), "{place}: no {needed}");
                }
            }
            Value::Array(entries) => {
                entries.iter().for_each(|one| self.walk(&schema["items"], one, &place, seen));
            }
            _ => {}
        }
    }

    /// Every object that a body has fields in, with the path to it: the body first. What is in lists isn't
    /// followed.
    pub(super) fn objects_of_body<'a>(
        &'a self,
        operation: &'a Value,
    ) -> Vec<(Vec<String>, &'a Value)> {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut all = Vec::new();
        if body.is_object() {
            self.objects(body, Vec::new(), &mut all);
        }
        all
    }

    fn objects<'a>(
        &'a self,
        schema: &'a Value,
        path: Vec<String>,
        all: &mut Vec<(Vec<String>, &'a Value)>,
    ) {
        let schema = self.at(schema);
        // Of an object or null.
        let branches = schema["anyOf"].as_array().filter(|_| schema["type"].is_null());
        for branch in branches.into_iter().flatten() {
            self.objects(branch, path.clone(), all);
        }
        let closed = schema["additionalProperties"] == json!(false);
        if let Some(fields) = schema["properties"].as_object().filter(|_| closed) {
            all.push((path.clone(), &schema["properties"]));
            for (field, its) in fields {
                self.objects(its, [&path[..], std::slice::from_ref(field)].concat(), all);
            }
        } else if closed {
            all.push((path, &Value::Null));
        }
    }

    /// The parameters of an operation that are in its query.
    pub(super) fn in_query(&self, operation: &Value) -> BTreeSet<String> {
        let all = operation["parameters"].as_array().into_iter().flatten();
        let its = all.map(|one| self.at(one)).filter(|one| one["in"] == "query");
        its.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Fields are of the schema that has a name.
fn named(schema: &Value, place: &str) -> String {
    let name = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    name.unwrap_or(place).to_owned()
}
