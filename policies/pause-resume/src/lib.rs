//! Admission by programs: an agent's session is a program, whose context stays in a worker's cache between its
//! requests. Programs are paused before contexts overfill the caches, and resumed when there is room.

mod arrival;
mod program;
mod programs;
mod reconcile;

use pointsman_sdk::classifier::prelude::*;
use pointsman_sdk::parameters;

use program::Waiting;
use programs::{Admitted, Programs};

export_classifier! {
    /// Pauses programs before contexts overfill the caches, and resumes them when there is room.
    pub classifier PauseResume(settings: Settings, environment) {
        Programs::new(settings, environment.partition.block_size, environment.seed).with_capacities(&environment.workers)
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The share of a worker's blocks in use above which programs are paused.
    pub pause_threshold: f64,
    /// The share down to which they are.
    pub pause_target: f64,
    /// How far below the threshold a worker must stay when programs are resumed.
    pub resume_hysteresis: f64,
    /// Seconds after which a paused program is resumed in any case.
    pub resume_timeout_seconds: u32,
    /// Seconds without a request after which a program is forgotten.
    pub session_retention_seconds: u32,
    /// Seconds between two looks at all programs.
    pub scheduler_interval_seconds: u32,
    /// What a token of a program counts between two requests.
    pub acting_token_weight: f64,
    /// Seconds in which what a program counts between two requests halves, where room is sought in any
    /// case.
    pub acting_decay_tau_seconds: f64,
    /// Tokens that each program counts beside its own.
    pub buffer_per_program: u32,
    /// Requests, and programs, that are known at once; further ones are refused.
    pub max_tracked_requests: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pause_threshold: 0.95,
            pause_target: 0.80,
            resume_hysteresis: 0.10,
            resume_timeout_seconds: 1_800,
            session_retention_seconds: 1_800,
            scheduler_interval_seconds: 5,
            acting_token_weight: 1.0,
            acting_decay_tau_seconds: 1.0,
            buffer_per_program: 100,
            max_tracked_requests: 10_000,
        }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        let (threshold, year) = (self.pause_threshold, 31_536_000.0);
        let of_threshold =
            |key, value| parameters::within(key, value, 0.0, threshold.clamp(0.0, 1.0));
        parameters::all([
            parameters::above("pause_threshold", threshold, 0.0),
            parameters::within("pause_threshold", threshold, 0.0, 1.0),
            of_threshold("pause_target", self.pause_target),
            of_threshold("resume_hysteresis", self.resume_hysteresis),
            parameters::within(
                "resume_timeout_seconds",
                self.resume_timeout_seconds.into(),
                1.0,
                year,
            ),
            parameters::within(
                "session_retention_seconds",
                self.session_retention_seconds.into(),
                1.0,
                year,
            ),
            parameters::within(
                "scheduler_interval_seconds",
                self.scheduler_interval_seconds.into(),
                1.0,
                86_400.0,
            ),
            parameters::within("acting_token_weight", self.acting_token_weight, 0.0, 1.0),
            parameters::above("acting_decay_tau_seconds", self.acting_decay_tau_seconds, 0.0),
            parameters::within(
                "max_tracked_requests",
                self.max_tracked_requests.into(),
                1.0,
                100_000.0,
            ),
        ])
    }
}

fn admission(worker: Option<Worker>) -> Admission {
    let target = worker.map(|worker| WorkerTarget { id: worker.id, dp_rank: Some(worker.dp_rank) });
    Admission { selection_target: target, ..Admission::default() }
}

impl RequestClassifier for Programs {
    fn most_held(&self) -> u32 {
        self.settings().max_tracked_requests
    }

    fn tick_ms(&self) -> u32 {
        self.settings().scheduler_interval_seconds * 1_000
    }

    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        let Some(session) = &request.session else { return Ok(Verdict::admit()) };
        let id = &request.request_id;
        if self.knows(id) {
            return Err(format!("request {id:?} is there already").into());
        }
        if let Err(full) = self.make_room(&session.id) {
            return Ok(Verdict::Reject(full));
        }
        let number = self.wait(&session.id, Waiting::of(request, session), request.now_ms);
        Ok(match self.admit_head(number, request.now_ms) {
            // One that waits before it isn't admitted by its coming.
            Some(Admitted { request, worker }) if request == *id => {
                Verdict::Admit(admission(worker))
            }
            _ => Verdict::Hold,
        })
    }

    fn on_event(&mut self, event: &LifecycleEvent, now_ms: u64, releases: &mut Releases) -> Result {
        let admitted = match event {
            LifecycleEvent::Inherited(live) => {
                if let Some(session) = &live.request.session {
                    self.inherit(
                        &session.id,
                        Waiting::of(&live.request, session),
                        live.worker,
                        now_ms,
                    );
                }
                Vec::new()
            }
            LifecycleEvent::Admitted(id) => {
                self.admitted_elsewhere(id);
                Vec::new()
            }
            LifecycleEvent::Sent(id, worker) => {
                self.sent(id, *worker);
                Vec::new()
            }
            LifecycleEvent::Responding(_) => Vec::new(),
            LifecycleEvent::Completed(id, tokens) => {
                self.ended(id, *tokens, now_ms).into_iter().collect()
            }
            LifecycleEvent::Aborted(id, _) => self.ended(id, None, now_ms).into_iter().collect(),
            LifecycleEvent::FleetChanged(workers) => {
                self.set_capacities(workers);
                Vec::new()
            }
            LifecycleEvent::Tick => self.reconcile(now_ms),
        };
        for Admitted { request, worker } in admitted {
            releases.admit_with(request, admission(worker));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
