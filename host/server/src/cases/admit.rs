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
use super::decide::refusal;
use super::difference::{Difference, Edit, Key, quoted};
use super::names::TargetName;
use super::place::settings;
use super::says;

/// The one class that there is.
const CLASS: &str = "default";

/// What isn't as expected, with the step.
pub(super) fn run(
    classifier: &Arc<dyn ClassifierProvider>,
    case: &AdmissionCase,
    parameters: &Map<String, Value>,
) -> Vec<Difference> {
    let settings = match settings(&case.router) {
        Ok(settings) => settings,
        Err(words) => return vec![Difference::plain(words)],
    };
    let parameters = case.parameters.as_ref().unwrap_or(parameters);
    let environment = ClassifierEnvironment {
        partition: case.partition.partition(),
        block_size: case.partition.block_size.get(),
        parameters: Arc::new(parameters.clone()),
        settings: Arc::new(settings),
        policy_classes: [CLASS.into()].into(),
        workers: capacities(&case.workers).into(),
        // A machine under load may stop a thread for long; cases are about what is decided.
        limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
        seed: 0,
        trial: false,
    };
    let made = classifier.instantiate(&environment).map_err(|error| error.to_string());
    let instance = match (&case.refused, made) {
        (None, Ok(made)) => made,
        (wanted, made) => {
            return refusal(wanted.as_deref(), made.err()).into_iter().collect();
        }
    };
    let mut door = Door { instance, held: BTreeSet::new(), now_ms: 0 };
    let mut found = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        door.now_ms = step.at_ms.unwrap_or(door.now_ms);
        match door.step(step) {
            Ok(of_step) => {
                found.extend(of_step.into_iter().map(|difference| difference.of_step(at)));
            }
            Err(words) => {
                // What comes behind a failure says nothing.
                found.push(Difference::plain(words).of_step(at));
                return found;
            }
        }
    }
    found
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
    fn step(&mut self, step: &AdmissionStep) -> Result<Vec<Difference>, String> {
        if let Some(arrives) = &step.arrives {
            return self.arrives(arrives);
        }
        if let Some(inherited) = &step.inherited {
            return self.inherited(inherited);
        }
        if let Some(fleet) = &step.fleet {
            let workers = capacities(&fleet.workers);
            return self.tell("fleet", &LifecycleEvent::FleetChanged(&workers), &fleet.admits);
        }
        if let Some(tick) = &step.tick {
            return self.tell("tick", &LifecycleEvent::Tick, &tick.admits);
        }
        let worker = |told: &Told| told.worker.map(|row| row.0);
        let AdmissionStep { admitted, sent, responding, completed, aborted, .. } = step;
        if let Some(told) = admitted {
            self.held.remove(&*told.request);
            let event = LifecycleEvent::Admitted(&told.request);
            return self.tell("admitted", &event, &told.admits);
        }
        if let Some(told) = sent {
            let to = worker(told).ok_or("what is sent has a worker; give \"worker\"")?;
            return self.tell("sent", &LifecycleEvent::Sent(&told.request, to), &told.admits);
        }
        if let Some(told) = responding {
            let event = LifecycleEvent::Responding(&told.request);
            return self.tell("responding", &event, &told.admits);
        }
        if let Some(told) = completed {
            let event = LifecycleEvent::Completed(&told.request, told.context_tokens);
            return self.tell("completed", &event, &told.admits);
        }
        let Some(told) = aborted else { return Ok(Vec::new()) };
        self.held.remove(&*told.request);
        let event = LifecycleEvent::Aborted(&told.request, worker(told));
        self.tell("aborted", &event, &told.admits)
    }

    fn arrives(&mut self, of: &Arrives) -> Result<Vec<Difference>, String> {
        let mut arrival = Arrival::new(of.request.as_str().into(), CLASS.into(), of.input_tokens);
        arrival.session.clone_from(&of.session);
        arrival.trigger = of.trigger;
        arrival.pinned_worker = of.pinned_worker.map(|target| target.0);
        let request = self.request(&arrival);
        let verdict = self.instance.classify(&request).map_err(|error| error.to_string())?;
        if verdict == Verdict::Hold {
            self.held.insert(arrival.request_id.clone());
            let most = self.instance.declaration().most_held as usize;
            if self.held.len() > most {
                return Err(format!("it holds {}, and declared {most}", self.held.len()));
            }
        }
        let difference = unlike(of, &verdict);
        Ok(difference.into_iter().map(|it| it.under(&[Key::Name("arrives")])).collect())
    }

    fn inherited(&mut self, of: &Inherited) -> Result<Vec<Difference>, String> {
        let mut arrival = Arrival::new(of.request.as_str().into(), CLASS.into(), of.input_tokens);
        arrival.session.clone_from(&of.session);
        let live = LiveRequest {
            request: self.request(&arrival),
            admitted: &arrival.unchanged(),
            worker: of.worker.map(|row| row.0),
            responding: of.worker.is_some(),
        };
        self.tell("inherited", &LifecycleEvent::Inherited(live), &of.admits)
    }

    fn request<'a>(&self, arrival: &'a Arrival) -> ClassifyRequest<'a> {
        let now_ms = self.now_ms;
        ClassifyRequest { arrival, progress_tokens: 0, arrived_at_ms: now_ms, now_ms }
    }

    /// Tells of an event, which has this key in the file.
    fn tell(
        &mut self,
        key: &'static str,
        event: &LifecycleEvent<'_>,
        admits: &[String],
    ) -> Result<Vec<Difference>, String> {
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
            return Ok(Vec::new());
        }
        let what = format!("{event:?} admitted {admitted:?}, expected {admits:?}");
        let difference = Difference::value("admits", names(admits), names(&admitted), what);
        Ok(vec![difference.under(&[Key::Name(key)])])
    }
}

/// What became of a request that came, if that isn't what was expected.
fn unlike(of: &Arrives, verdict: &Verdict) -> Option<Difference> {
    let target = of.to.map(|target| target.0);
    match (verdict, of.expect) {
        (Verdict::Hold, ExpectedVerdict::Hold) => return None,
        (Verdict::Admit(with), ExpectedVerdict::Admit) if with.selection_target == target => {
            return None;
        }
        (Verdict::Reject(words), ExpectedVerdict::Reject) => {
            let wanted = of.reason.as_ref().filter(|wanted| !says(words, wanted))?;
            let what = format!("it was refused as {words:?}, expected words with {wanted:?}");
            return Some(Difference::value("reason", quoted(wanted), quoted(words), what));
        }
        _ => {}
    }
    let to = target.map_or(String::new(), |target| format!(" to {target}"));
    let what = format!("{:?}: {verdict:?}, expected {:?}{to}", of.request, of.expect);
    let (found, to) = match verdict {
        Verdict::Hold => ("hold", None),
        Verdict::Admit(with) => ("admit", with.selection_target),
        Verdict::Reject(_) => ("reject", None),
    };
    let expected = match of.expect {
        ExpectedVerdict::Hold => "hold",
        ExpectedVerdict::Admit => "admit",
        ExpectedVerdict::Reject => "reject",
    };
    let to = to.map(|target| TargetName(target).yaml());
    let with = |verdict: &str, to: Option<&String>| match to {
        Some(to) => format!("{verdict}, to: {to}"),
        None => verdict.to_owned(),
    };
    let wanted_to = of.to.map(|target| target.yaml());
    let mut difference = Difference::value("expect", expected.into(), found.into(), what);
    difference.values = Some((with(expected, wanted_to.as_ref()), with(found, to.as_ref())));
    let difference = match to {
        Some(to) => difference.and(Edit::Set(vec![Key::Name("to")], to)),
        None => difference.and(Edit::Remove(vec![Key::Name("to")])),
    };
    // A reason of another verdict is none.
    Some(match of.expect {
        ExpectedVerdict::Reject => difference.and(Edit::Remove(vec![Key::Name("reason")])),
        _ => difference,
    })
}

/// Ids as YAML has them: what could be read as something else stands in quotes.
fn names(ids: &[String]) -> String {
    let plain = |id: &str| {
        let mut letters = id.chars();
        letters.next().is_some_and(|first| first.is_ascii_lowercase())
            && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&id)
    };
    let ids: Vec<_> =
        ids.iter().map(|id| if plain(id) { id.clone() } else { quoted(id) }).collect();
    format!("[{}]", ids.join(", "))
}

/// `id`, or `id@worker`.
fn shown(id: &str, target: Option<WorkerTarget>) -> String {
    target.map_or_else(|| id.to_owned(), |target| format!("{id}@{target}"))
}
