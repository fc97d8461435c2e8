//! Lets so many requests through at a time, the others behind them in their order.

use std::collections::{BTreeSet, VecDeque};

use pointsman_sdk::classifier::prelude::*;

export_classifier! {
    /// So many requests at a time, the others behind them in their order.
    pub classifier PolicyName(settings: Settings) {
        Line { settings, under_way: BTreeSet::new(), waiting: VecDeque::new() }
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Requests that are under way at once.
    #[serde(default = "at_a_time")]
    pub at_a_time: u32,
    /// Requests that wait at once; further ones are refused.
    #[serde(default = "most_waiting")]
    pub most_waiting: u32,
}

fn at_a_time() -> u32 {
    256
}

fn most_waiting() -> u32 {
    10_000
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        pointsman_sdk::parameters::at_least("at_a_time", f64::from(self.at_a_time), 1.0)
    }
}

struct Line {
    settings: Settings,
    under_way: BTreeSet<String>,
    waiting: VecDeque<String>,
}

impl Line {
    fn has_room(&self) -> bool {
        self.under_way.len() < self.settings.at_a_time as usize
    }
}

impl RequestClassifier for Line {
    fn most_held(&self) -> u32 {
        self.settings.most_waiting
    }

    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        let id = request.request_id.clone();
        if self.has_room() {
            self.under_way.insert(id);
            return Ok(Verdict::admit());
        }
        if self.waiting.len() >= self.settings.most_waiting as usize {
            return Ok(Verdict::Reject("too many requests wait".to_owned()));
        }
        self.waiting.push_back(id);
        Ok(Verdict::Hold)
    }

    fn on_event(&mut self, event: &LifecycleEvent, _: u64, releases: &mut Releases) -> Result {
        match event {
            // Admitted by whoever was here before, or by the host: it is under way all the same.
            LifecycleEvent::Inherited(live) => {
                self.under_way.insert(live.request.request_id.clone());
            }
            LifecycleEvent::Admitted(id) => {
                self.waiting.retain(|waits| waits != id);
                self.under_way.insert(id.clone());
            }
            LifecycleEvent::Completed(id, _) | LifecycleEvent::Aborted(id, _) => {
                self.under_way.remove(id);
                self.waiting.retain(|waits| waits != id);
            }
            _ => {}
        }
        while self.has_room() {
            let Some(next) = self.waiting.pop_front() else { break };
            self.under_way.insert(next.clone());
            releases.admit(next);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pointsman_sdk::classifier::testing::Door;

    use super::*;

    #[test]
    fn the_next_one_goes_when_one_has_ended() -> Result {
        let mut door = Door::of::<PolicyName>(r#"{"at_a_time": 1, "most_waiting": 1}"#)?;
        assert!(door.arrive("a", |_| ())?.is_admitted());
        assert_eq!(door.arrive("b", |_| ())?, Verdict::Hold);
        assert!(matches!(door.arrive("c", |_| ())?, Verdict::Reject(_)));
        assert_eq!(door.complete("a")?, ["b"]);
        Ok(())
    }
}
