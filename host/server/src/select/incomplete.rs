//! Workers of which it isn't known yet where they listen.
//!
//! Owns their descriptions until somebody says it: a catalogue may be told of a worker before its engine is
//! up. They get nothing, and no other part of the router knows them. There are so many at most, of which the
//! oldest gives way. Here too is which fields of a description are taken although nothing is made of them.

use std::collections::VecDeque;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use serde_json::{Map, Value, json};

use crate::discovery::{Description, Problem, Problems, Registration};
use crate::json::Fields;
use crate::json::values::show;
use crate::rest::RestError;

/// The names of the one field that has two.
const NAMES_OF_MODEL: [&str; 2] = ["model_name", "model"];

/// The most that wait.
const MOST: usize = 1_024;

/// Fields that other routers take, what they must be, and whether they are.
pub(super) type Foreign = (&'static str, &'static str, fn(&Value) -> bool);

pub(super) const FOREIGN: [Foreign; 8] = [
    ("stable_routing_id", "a text", Value::is_string),
    ("is_eagle", "false; EAGLE workers aren't supported by this version", |it| it == &json!(false)),
    ("topology_domains", "an object", Value::is_object),
    ("kv_transfer_domain", "a text", Value::is_string),
    ("kv_transfer_enforcement", "a text", Value::is_string),
    ("kv_transfer_preferred_weight", "a number", Value::is_number),
    ("router_hint_worker_type", "a text", Value::is_string),
    ("router_hint_source_control_endpoints", "an object", Value::is_object),
];

/// A description without what is taken and not heeded.
pub(super) fn known(body: Value) -> Result<Value, RestError> {
    Fields::of(&body)?;
    // It was found to be one.
    let Value::Object(mut fields) = body else { return Ok(body) };
    let mut problems = Vec::new();
    for (name, expected, is) in FOREIGN {
        let Some(value) = fields.remove(name) else { continue };
        if !value.is_null() && !is(&value) {
            let problem = format!("is {}; expected {expected}", show(&value));
            problems.push(Problem { field: name.to_owned(), problem });
        }
    }
    if problems.is_empty() { Ok(Value::Object(fields)) } else { Err(Problems(problems).into()) }
}

/// A description that lacks its endpoint.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// As it would be, somewhere.
    spec: WorkerSpec,
    /// As it was said.
    fields: Map<String, Value>,
}

impl Described {
    /// None if it has one, or is no description at all.
    ///
    /// # Errors
    ///
    /// All that is wrong with it besides.
    pub(super) fn without_endpoint(body: &Value) -> Result<Option<Self>, RestError> {
        let Some(fields) = body.as_object() else { return Ok(None) };
        if fields.get("endpoint").is_some_and(|endpoint| !endpoint.is_null()) {
            return Ok(None);
        }
        let mut whole = fields.clone();
        // Only to look at the rest of it.
        whole.insert("endpoint".to_owned(), json!("http://127.0.0.1:1"));
        let spec = Registration::read(&Value::Object(whole))?.spec;
        let mut fields = fields.clone();
        fields.remove("endpoint");
        Ok(Some(Self { spec, fields }))
    }

    pub(super) fn worker_id(&self) -> WorkerId {
        self.spec.worker_id
    }

    fn record(&self) -> Value {
        let id = self.worker_id();
        let reason = format!("its endpoint isn't known; send it with PATCH /workers/{id}");
        let its = [
            ("endpoint", Value::Null),
            ("lifecycle", json!("incomplete")),
            ("not_schedulable_reasons", json!([reason])),
        ];
        let mut record = json!(Description::new(&self.spec));
        if let Some(fields) = record.as_object_mut() {
            fields.extend(its.map(|(name, value)| (name.to_owned(), value)));
        }
        record
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Incomplete(VecDeque<Described>);

impl Incomplete {
    /// Takes one up, in place of an earlier description, and shows it.
    pub(super) fn put(&mut self, described: Described) -> Value {
        self.remove(described.worker_id());
        while self.0.len() >= MOST {
            self.0.pop_front();
        }
        let record = described.record();
        self.0.push_back(described);
        record
    }

    /// The whole of a worker's description with some changes; none if it isn't here.
    pub(super) fn changed(&self, id: WorkerId, changes: &Value) -> Option<Value> {
        let there = self.0.iter().find(|one| one.worker_id() == id)?;
        let mut whole = there.fields.clone();
        if let Some(changes) = changes.as_object() {
            // What is said anew goes before what was said by the field's other name.
            if NAMES_OF_MODEL.iter().any(|name| changes.contains_key(*name)) {
                NAMES_OF_MODEL.iter().for_each(|name| drop(whole.remove(*name)));
            }
            whole.extend(changes.clone());
        }
        // What the path names can't be changed.
        whole.insert("worker_id".to_owned(), json!(id));
        Some(Value::Object(whole))
    }

    /// Lets one go; none if it isn't here.
    pub(super) fn remove(&mut self, id: WorkerId) -> Option<Value> {
        let at = self.0.iter().position(|one| one.worker_id() == id)?;
        self.0.remove(at).map(|one| one.record())
    }

    /// Those of some models and groups.
    pub(super) fn records(&self, takes: impl Fn(&str, &str) -> bool) -> Vec<Value> {
        let its = self
            .0
            .iter()
            .filter(|one| takes(&one.spec.partition.model, &one.spec.partition.routing_group));
        its.map(Described::record).collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use pointsman_core::ids::DEFAULT_GROUP;

    use super::*;

    fn described(id: u64) -> Described {
        let body = json!({ "worker_id": id, "model_name": "m", "taints": ["a"] });
        Described::without_endpoint(&body).unwrap().unwrap()
    }

    #[test]
    fn what_lacks_only_its_endpoint_waits_for_that_and_all_else_is_held_to_the_rules() {
        let whole = json!({ "worker_id": 1, "endpoint": "http://e:1" });
        assert!(Described::without_endpoint(&whole).unwrap().is_none());
        let bad = json!({ "worker_id": 1, "taints": 3 });
        assert!(Described::without_endpoint(&bad).is_err());
        let mut all = Incomplete::default();
        let record = all.put(described(7));
        assert_eq!(
            (&record["lifecycle"], &record["routing_group"]),
            (&json!("incomplete"), &json!(DEFAULT_GROUP))
        );
        let whole = all.changed(WorkerId(7), &json!({ "endpoint": "http://e:1" })).unwrap();
        assert_eq!(
            whole,
            json!({ "worker_id": 7, "model_name": "m", "taints": ["a"], "endpoint": "http://e:1" })
        );
        assert_eq!(all.changed(WorkerId(8), &json!({})), None);
        assert!(all.remove(WorkerId(7)).is_some() && all.remove(WorkerId(7)).is_none());
    }

    #[test]
    fn a_field_with_two_names_is_changed_by_either() {
        for (said, changed) in
            [("model", "model_name"), ("model_name", "model"), ("model", "model")]
        {
            let body = json!({ "worker_id": 7, said: "m" });
            let mut all = Incomplete::default();
            drop(all.put(Described::without_endpoint(&body).unwrap().unwrap()));
            let whole = all.changed(WorkerId(7), &json!({ changed: "n" })).unwrap();
            assert_eq!(whole, json!({ "worker_id": 7, changed: "n" }));
            let described = Described::without_endpoint(&whole).unwrap().unwrap();
            assert_eq!(&*described.spec.partition.model, "n", "{said}, then {changed}");
            let both = all.changed(WorkerId(7), &json!({ "model": "a", "model_name": "b" }));
            assert!(Described::without_endpoint(&both.unwrap()).is_err(), "both at once");
        }
    }

    #[test]
    fn so_many_wait_at_most_and_the_oldest_gives_way() {
        let mut all = Incomplete::default();
        (0..MOST as u64 + 10).for_each(|id| drop(all.put(described(id))));
        drop(all.put(described(MOST as u64)));
        assert_eq!(all.records(|_, _| true).len(), MOST);
        assert!(all.remove(WorkerId(9)).is_none() && all.remove(WorkerId(10)).is_some());
    }

    #[test]
    fn what_other_routers_take_is_taken_if_it_is_what_it_should_be() {
        let body = json!({ "worker_id": 1, "is_eagle": false, "topology_domains": { "a": "b" } });
        assert_eq!(known(body).unwrap(), json!({ "worker_id": 1 }));
        for bad in [json!({ "is_eagle": true }), json!({ "kv_transfer_domain": 1 }), json!([null])]
        {
            assert!(known(bad).is_err());
        }
    }
}
