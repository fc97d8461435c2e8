//! A policy and a request classifier in one component, which share their settings' type: the one
//! sends all requests to one worker, the other lets so many through at a time.
//!
//! Promise: each serves in its own section of the YAML, with parameters of its own, and a new version
//! of the component takes both places.

use std::collections::{BTreeSet, VecDeque};

use pointsman_sdk::classifier::prelude::*;
use pointsman_sdk::prelude::*;

/// The YAML's `parameters`, in either section.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lane {
    /// The worker that the policy sends requests to.
    pub worker: u64,
    /// Requests that the classifier lets through at a time.
    pub most_in_flight: usize,
}

impl Default for Lane {
    fn default() -> Self {
        Self { worker: 1, most_in_flight: 1 }
    }
}

impl Parameters for Lane {}

export_policy! {
    /// Sends all requests to one worker.
    pub policy OneLane(lane: Lane) {
        scorers: [Leads { worker: lane.worker }],
        properties: [stateless],
    }
}

struct Leads {
    worker: u64,
}

impl WorkerScorer for Leads {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| f64::from(row.worker().id != self.worker));
        Ok(())
    }
}

/// Lets so many requests through at a time.
#[derive(Debug, Clone, Copy)]
pub struct Gate;

impl Classifier for Gate {
    type Parameters = Lane;

    fn about() -> About {
        about!()
    }

    fn build(lane: Lane, _: &ClassifierEnvironment) -> Result<Box<dyn RequestClassifier>> {
        Ok(Box::new(Queue { lane, ..Queue::default() }))
    }
}

export_classifier!(Gate, beside a policy);

/// Requests that wait at once.
const MOST_HELD: u32 = 1_000;

#[derive(Debug, Default)]
struct Queue {
    lane: Lane,
    going: BTreeSet<String>,
    waiting: VecDeque<String>,
}

impl RequestClassifier for Queue {
    fn most_held(&self) -> u32 {
        MOST_HELD
    }

    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        let id = request.request_id.clone();
        if self.going.len() < self.lane.most_in_flight {
            self.going.insert(id);
            return Ok(Verdict::admit());
        }
        if self.waiting.len() >= MOST_HELD as usize {
            return Ok(Verdict::Reject(format!("{MOST_HELD} requests are held already")));
        }
        self.waiting.push_back(id);
        Ok(Verdict::Hold)
    }

    fn on_event(&mut self, event: &LifecycleEvent, _: u64, releases: &mut Releases) -> Result {
        match event {
            LifecycleEvent::Inherited(live) => {
                self.going.insert(live.request.request_id.clone());
            }
            LifecycleEvent::Admitted(id) => {
                self.waiting.retain(|other| other != id);
                self.going.insert(id.clone());
            }
            LifecycleEvent::Completed(id, _) | LifecycleEvent::Aborted(id, _) => {
                self.waiting.retain(|other| other != id);
                self.going.remove(id);
            }
            _ => return Ok(()),
        }
        while self.going.len() < self.lane.most_in_flight {
            let Some(id) = self.waiting.pop_front() else { break };
            self.going.insert(id.clone());
            releases.admit(id);
        }
        Ok(())
    }
}
