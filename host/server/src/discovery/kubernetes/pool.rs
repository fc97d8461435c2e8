//! A pool: which pods it selects, and at which ports they listen.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::Value;

/// A pool that selects something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    labels: BTreeMap<String, String>,
    pub(super) ports: BTreeSet<u16>,
}

impl Pool {
    /// None if it selects nothing. Of both shapes that pools have had.
    fn of(object: &DynamicObject) -> Option<Self> {
        let spec = object.data.get("spec")?;
        let selector = spec.get("selector")?;
        let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
        let labels: BTreeMap<String, String> = labels
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
        let many = spec.get("targetPorts").and_then(Value::as_array);
        let many = many.into_iter().flatten().filter_map(|one| port(one.get("number")?));
        let one = spec.get("targetPortNumber").and_then(port);
        let ports: BTreeSet<u16> = many.chain(one).collect();
        // No label would select every pod.
        (!labels.is_empty() && !ports.is_empty()).then_some(Self { labels, ports })
    }

    /// As the API server takes it.
    pub(super) fn selector(&self) -> String {
        let pairs = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// What has been seen of the one pool.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What a list has shown that hasn't ended.
    begun: Option<Pool>,
    /// None before the first list.
    last: Option<Option<Pool>>,
}

impl Seen {
    /// Takes an event in. Some if the pool is another one now, or the first list has ended; none in that if
    /// there is no pool.
    pub(super) fn take(&mut self, event: Event<DynamicObject>) -> Option<Option<Pool>> {
        let now = match event {
            Event::Init => {
                self.begun = None;
                return None;
            }
            Event::InitApply(object) => {
                self.begun = Pool::of(&object);
                return None;
            }
            Event::InitDone => self.begun.take(),
            Event::Apply(object) => Pool::of(&object),
            Event::Delete(_) => None,
        };
        if self.last.as_ref() == Some(&now) {
            return None;
        }
        self.last = Some(now.clone());
        Some(now)
    }
}
