//! Meeting cases of admissions: one instance, asked and told in order, and checked as a host checks it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::classifier::{
    Arrival, Capacity, ClassifierEnvironment, ClassifierProvider, ClassifyRequest, LifecycleEvent,
    LiveRequest, RequestClassifier, Verdict,
};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::policy::Limits;
use serde_json::{Map, Value};

use super::admission::{
    AdmissionCase, AdmissionStep, Arrives, ExpectedVerdict, Inherited, KvCapacity, Told,
};
use super::place::settings;
use super::says;

/// The one class that there is.
const CLASS: &str = "default";

/// What failed, with the step.
pub(super) fn run(
    classifier: &Arc<dyn ClassifierProvider>,
    case: &AdmissionCase,
    parameters: &Map<String, Value>,
) -> Result<(), String> {
    let parameters = case.parameters.as_ref().unwrap_or(parameters);
    let environment = ClassifierEnvironment {
        partition: case.partition.partition(),
        block_size: case.partition.block_size.get(),
        parameters: Arc::new(parameters.clone()),
        settings: Arc::new(settings(&case.router)?),
        policy_classes: [CLASS.into()].into(),
        workers: capacities(&case.workers).into(),
        // A machine under load may stop a thread for long; cases are about what is decided.
        limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
        seed: 0,
        trial: false,
    };
    let made = classifier.instantiate(&environment).map_err(|error| error.to_string());
    let instance = match (&case.refused, made) {
        (None, made) => made?,
        (Some(wanted), Err(words)) if says(&words, wanted) => return Ok(()),
        (Some(wanted), Err(words)) => {
            return Err(format!("it was refused as {words:?}, expected words with {wanted:?}"));
        }
        (Some(wanted), Ok(_)) => {
            return Err(format!("it was configured, expected a refusal with {wanted:?}"));
        }
    };
    let mut door = Door { instance, held: BTreeSet::new(), now_ms: 0 };
    for (number, step) in (1..).zip(&case.steps) {
        door.now_ms = step.at_ms.unwrap_or(door.now_ms);
        door.step(step).map_err(|what| format!("step {number}: {what}"))?;
    }
    Ok(())
}

fn capacities(workers: &[KvCapacity]) -> Vec<Capacity> {
    let rank =
        |of: &KvCapacity| WorkerRank { worker_id: WorkerId(of.worker), dp_rank: DpRank(of.rank) };
    let capacity =
        |of: &KvCapacity| Capacity { worker: rank(of), total_kv_blocks: of.total_kv_blocks };
    let mut all: Vec<Capacity> = workers.iter().map(capacity).collect();
    all.sort_by_key(|of| of.worker);
    all
}

/// An instance, and what it holds.
struct Door {
    instance: Box<dyn RequestClassifier>,
    held: BTreeSet<Arc<str>>,
    now_ms: u64,
}

impl Door {
    fn step(&mut self, step: &AdmissionStep) -> Result<(), String> {
        if let Some(arrives) = &step.arrives {
            return self.arrives(arrives);
        }
        if let Some(inherited) = &step.inherited {
            return self.inherited(inherited);
        }
        if let Some(fleet) = &step.fleet {
            let workers = capacities(&fleet.workers);
            return self.tell(&LifecycleEvent::FleetChanged(&workers), &fleet.admits);
        }
        if let Some(tick) = &step.tick {
            return self.tell(&LifecycleEvent::Tick, &tick.admits);
        }
        let worker = |told: &Told| told.worker.map(|row| row.0);
        let AdmissionStep { admitted, sent, responding, completed, aborted, .. } = step;
        if let Some(told) = admitted {
            self.held.remove(&*told.request);
            return self.tell(&LifecycleEvent::Admitted(&told.request), &told.admits);
        }
        if let Some(told) = sent {
            let to = worker(told).ok_or("what is sent has a worker; give \"worker\"")?;
            return self.tell(&LifecycleEvent::Sent(&told.request, to), &told.admits);
        }
        if let Some(told) = responding {
            return self.tell(&LifecycleEvent::Responding(&told.request), &told.admits);
        }
        if let Some(told) = completed {
            let event = LifecycleEvent::Completed(&told.request, told.context_tokens);
            return self.tell(&event, &told.admits);
        }
        let Some(told) = aborted else { return Ok(()) };
        self.held.remove(&*told.request);
        self.tell(&LifecycleEvent::Aborted(&told.request, worker(told)), &told.admits)
    }

    fn arrives(&mut self, of: &Arrives) -> Result<(), String> {
        let mut arrival = Arrival::new(of.request.as_str().into(), CLASS.into(), of.input_tokens);
        arrival.session.clone_from(&of.session);
        arrival.trigger = of.trigger;
        arrival.pinned_worker = of.pinned_worker.map(|target| target.0);
        let request = self.request(&arrival);
        let verdict = self.instance.classify(&request).map_err(|error| error.to_string())?;
        let target = of.to.map(|target| target.0);
        match (&verdict, of.expect) {
            (Verdict::Hold, ExpectedVerdict::Hold) => {
                self.held.insert(arrival.request_id.clone());
                let most = self.instance.declaration().most_held as usize;
                (self.held.len() <= most)
                    .then_some(())
                    .ok_or_else(|| format!("it holds {}, and declared {most}", self.held.len()))
            }
            (Verdict::Admit(with), ExpectedVerdict::Admit) if with.selection_target == target => {
                Ok(())
            }
            (Verdict::Reject(words), ExpectedVerdict::Reject) => match &of.reason {
                Some(wanted) if !says(words, wanted) => {
                    Err(format!("it was refused as {words:?}, expected words with {wanted:?}"))
                }
                _ => Ok(()),
            },
            (verdict, expected) => {
                let to = target.map_or(String::new(), |target| format!(" to {target}"));
                Err(format!("{:?}: {verdict:?}, expected {expected:?}{to}", of.request))
            }
        }
    }

    fn inherited(&mut self, of: &Inherited) -> Result<(), String> {
        let mut arrival = Arrival::new(of.request.as_str().into(), CLASS.into(), of.input_tokens);
        arrival.session.clone_from(&of.session);
        let live = LiveRequest {
            request: self.request(&arrival),
            admitted: &arrival.unchanged(),
            worker: of.worker.map(|row| row.0),
            responding: of.worker.is_some(),
        };
        self.tell(&LifecycleEvent::Inherited(live), &of.admits)
    }

    fn request<'a>(&self, arrival: &'a Arrival) -> ClassifyRequest<'a> {
        let now_ms = self.now_ms;
        ClassifyRequest { arrival, progress_tokens: 0, arrived_at_ms: now_ms, now_ms }
    }

    fn tell(&mut self, event: &LifecycleEvent<'_>, admits: &[String]) -> Result<(), String> {
        let releases =
            self.instance.on_event(event, self.now_ms).map_err(|error| error.to_string())?;
        let mut admitted = Vec::new();
        for release in releases {
            match release.verdict {
                Verdict::Hold => continue,
                Verdict::Admit(with) => {
                    admitted.push(shown(&release.request_id, with.selection_target))
                }
                Verdict::Reject(words) => {
                    admitted.push(format!("{} refused: {words}", release.request_id))
                }
            }
            if !self.held.remove(&release.request_id) {
                return Err(format!("{:?} was released, and isn't held", release.request_id));
            }
        }
        if admitted == admits {
            return Ok(());
        }
        Err(format!("{event:?} admitted {admitted:?}, expected {admits:?}"))
    }
}

/// `id`, or `id@worker`.
fn shown(id: &str, target: Option<WorkerTarget>) -> String {
    target.map_or_else(|| id.to_owned(), |target| format!("{id}@{target}"))
}
