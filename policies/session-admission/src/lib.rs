//! Admits one request of each session at a time, in order, and no more than so many in all.

use std::collections::BTreeMap;

use pointsman_sdk::classifier::prelude::*;

export_classifier! {
    /// One request in flight per session, first come first served, and a limit for all.
    pub classifier SessionAdmission(settings: Settings) {
        Sessions { settings, ..Sessions::default() }
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Requests that are under way at once, all sessions together.
    pub most_in_flight: u32,
    /// Requests that wait at once; further ones are refused.
    #[serde(default = "most_held")]
    pub most_held: u32,
}

fn most_held() -> u32 {
    10_000
}

impl Default for Settings {
    fn default() -> Self {
        Self { most_in_flight: 1, most_held: most_held() }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        if self.most_in_flight == 0 {
            return Err("parameter \"most_in_flight\" is 0; give 1 or more".into());
        }
        Ok(())
    }
}

/// What requests wait behind each other in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Session(String),
    /// A request without a session, by its own id: nobody stands before it.
    Alone(String),
}

impl Key {
    fn of(request: &ClassifyRequest) -> Self {
        match &request.session {
            Some(session) => Self::Session(session.id.clone()),
            None => Self::Alone(request.request_id.clone()),
        }
    }
}

/// The requests of one session.
#[derive(Debug, Default)]
struct Lane {
    in_flight: u32,
    /// By the order of arrival.
    waiting: BTreeMap<u64, String>,
}

/// All sessions.
#[derive(Debug, Default)]
struct Sessions {
    settings: Settings,
    lanes: BTreeMap<Key, Lane>,
    in_flight: BTreeMap<String, Key>,
    held: BTreeMap<String, (u64, Key)>,
    /// The first of each lane that has none in flight.
    ready: BTreeMap<u64, Key>,
    arrivals: u64,
}

impl Sessions {
    fn has_room(&self) -> bool {
        self.in_flight.len() < self.settings.most_in_flight as usize
    }

    fn begin(&mut self, id: &str, key: Key) {
        if self.in_flight.insert(id.to_owned(), key.clone()).is_none() {
            self.lanes.entry(key.clone()).or_default().in_flight += 1;
        }
        self.look_at(key);
    }

    /// A lane has changed: its first request is ready, or isn't.
    fn look_at(&mut self, key: Key) {
        let Some(lane) = self.lanes.get(&key) else { return };
        match lane.waiting.keys().next() {
            Some(first) if lane.in_flight == 0 => {
                self.ready.insert(*first, key);
            }
            Some(first) => {
                self.ready.remove(first);
            }
            None if lane.in_flight == 0 => {
                self.lanes.remove(&key);
            }
            None => {}
        }
    }

    /// Takes a request out of those that wait.
    fn take_out(&mut self, id: &str) -> Option<Key> {
        let (order, key) = self.held.remove(id)?;
        self.ready.remove(&order);
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.waiting.remove(&order);
        }
        Some(key)
    }

    fn ended(&mut self, id: &str) {
        if let Some(key) = self.take_out(id) {
            self.look_at(key);
        } else if let Some(key) = self.in_flight.remove(id) {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.in_flight -= 1;
            }
            self.look_at(key);
        }
    }

    /// Gives free slots to those that have waited longest.
    fn fill(&mut self, releases: &mut Releases) {
        while self.has_room() {
            let Some((order, key)) = self.ready.pop_first() else { return };
            let lane = self.lanes.get(&key);
            let Some(id) = lane.and_then(|lane| lane.waiting.get(&order)).cloned() else {
                continue;
            };
            self.take_out(&id);
            self.begin(&id, key);
            releases.admit(id);
        }
    }
}

impl RequestClassifier for Sessions {
    fn most_held(&self) -> u32 {
        self.settings.most_held
    }

    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        let key = Key::of(request);
        let is_first = !self.lanes.contains_key(&key);
        if is_first && self.has_room() {
            self.begin(&request.request_id, key);
            return Ok(Verdict::admit());
        }
        if self.held.len() >= self.settings.most_held as usize {
            let most = self.settings.most_held;
            return Ok(Verdict::Reject(format!("{most} requests are held already")));
        }
        self.arrivals += 1;
        let id = request.request_id.clone();
        self.lanes.entry(key.clone()).or_default().waiting.insert(self.arrivals, id.clone());
        self.held.insert(id, (self.arrivals, key.clone()));
        self.look_at(key);
        Ok(Verdict::Hold)
    }

    fn on_event(&mut self, event: &LifecycleEvent, _: u64, releases: &mut Releases) -> Result {
        match event {
            LifecycleEvent::Inherited(live) => {
                self.begin(&live.request.request_id, Key::of(&live.request));
            }
            LifecycleEvent::Admitted(id) => {
                let key = self.take_out(id).unwrap_or_else(|| Key::Alone(id.clone()));
                self.begin(id, key);
            }
            LifecycleEvent::Completed(id, _) | LifecycleEvent::Aborted(id, _) => self.ended(id),
            _ => return Ok(()),
        }
        self.fill(releases);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
