//! The pods that a pool selects, and which of them are workers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::Value;

use super::pool::Pool;

/// The pods of a pool.
#[derive(Debug)]
pub(super) struct Pods {
    pool: Pool,
    /// Addresses of those that are ready, by name and life.
    ready: BTreeMap<String, IpAddr>,
    /// What a list has shown that hasn't ended.
    begun: BTreeMap<String, IpAddr>,
    /// Whether a list has ended.
    known: bool,
}

impl Pods {
    /// Of a pool, of which none has been seen.
    pub(super) fn of(pool: Pool) -> Self {
        Self { pool, ready: BTreeMap::new(), begun: BTreeMap::new(), known: false }
    }

    /// Takes an event in. Returns the endpoints, by the worker's name, if they are known.
    pub(super) fn take(&mut self, event: Event<DynamicObject>) -> Option<BTreeMap<String, String>> {
        match event {
            Event::Init => {
                self.begun.clear();
                return None;
            }
            Event::InitApply(pod) => {
                self.begun.extend(ready(&pod));
                return None;
            }
            Event::InitDone => {
                self.ready = std::mem::take(&mut self.begun);
                self.known = true;
            }
            Event::Apply(pod) => {
                self.ready.remove(&name(&pod));
                self.ready.extend(ready(&pod));
            }
            Event::Delete(pod) => drop(self.ready.remove(&name(&pod))),
        }
        self.known.then(|| self.endpoints())
    }

    fn endpoints(&self) -> BTreeMap<String, String> {
        let each = |(name, ip): (&String, &IpAddr)| {
            let (name, ip) = (name.clone(), *ip);
            self.pool.ports.iter().map(move |port| {
                (format!("{name}:{port}"), format!("http://{}", SocketAddr::new(ip, *port)))
            })
        };
        self.ready.iter().flat_map(each).collect()
    }
}

/// A pod's name and life.
fn name(pod: &DynamicObject) -> String {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", of(&pod.metadata.name), of(&pod.metadata.uid))
}

/// The pod, if it is ready and stays.
fn ready(pod: &DynamicObject) -> Option<(String, IpAddr)> {
    let status = pod.data.get("status")?;
    let conditions = status.get("conditions").and_then(Value::as_array)?;
    let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let ip = status.get("podIP").and_then(Value::as_str)?.parse().ok()?;
    (is_ready && pod.metadata.deletion_timestamp.is_none()).then(|| (name(pod), ip))
}
