//! A crowd of made-up requests, in sessions, that goes through a classifier's door as a host would have it: each
//! comes once and ends once, and what is held waits until it is released.
//!
//! Finds answers that are none. What follows from the others is not known here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pointsman_core::classifier::{
    Admission, Arrival, Capacity, ClassifierEnvironment, ClassifierProvider, ClassifyRequest,
    LifecycleEvent, Release, RequestClassifier, Verdict,
};
use pointsman_core::clock::Chance;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::policy::{Cause, PolicyEnvironment, StageError, Usage};
use pointsman_core::queue::{Profile, QueuePolicy};
use pointsman_core::request::Session;

use crate::author::scene::patient;

/// What ranks can hold.
const BLOCKS: u64 = 4_096;
/// Milliseconds between two things that happen.
const APART_MS: u64 = 20;
/// For so long those that are still held are waited for at the end, in milliseconds.
const PATIENCE_MS: u64 = 60_000;
/// The seed of what comes; any will do.
const SEED: u64 = 7;

/// How many there are.
#[derive(Clone, Copy, Debug)]
pub(in crate::author) struct Crowd {
    pub(in crate::author) requests: usize,
    /// So many are there at once before the first one ends.
    pub(in crate::author) at_once: usize,
}

/// How it went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::author) struct Course {
    pub(in crate::author) admitted: usize,
    /// Of these, after they were held.
    pub(in crate::author) held: usize,
    pub(in crate::author) refused: usize,
    /// The reason of the first that was refused.
    pub(in crate::author) said: String,
    /// Held to the very end.
    pub(in crate::author) left: usize,
    pub(in crate::author) calls: u64,
    pub(in crate::author) fuel: u64,
    pub(in crate::author) most_fuel: u64,
    /// Who was admitted, in order, and with what.
    order: Vec<(Arc<str>, Admission)>,
}

/// What a classifier of these parameters is told in the place of a policy that is told this.
pub(in crate::author) fn environment(
    told: &PolicyEnvironment,
    ranks: usize,
) -> ClassifierEnvironment {
    let told = told.clone();
    // Those of a router that says nothing of queueing.
    let classes = Profile::of_threshold(None, QueuePolicy::default());
    ClassifierEnvironment {
        partition: told.partition,
        block_size: told.block_size,
        parameters: told.parameters,
        settings: told.settings,
        policy_classes: classes.choices().cloned().collect(),
        workers: workers(ranks),
        limits: told.limits,
        seed: told.seed,
        trial: true,
    }
}

/// So many ranks.
fn workers(count: usize) -> Arc<[Capacity]> {
    let of = |id: u64| Capacity {
        worker: WorkerRank { worker_id: WorkerId(1 + id), dp_rank: DpRank(0) },
        total_kv_blocks: Some(BLOCKS),
    };
    (0..count as u64).map(of).collect()
}

impl Crowd {
    /// Goes through a new instance's door. An error says which answer is none.
    pub(in crate::author) fn pass(
        self,
        provider: &Arc<dyn ClassifierProvider>,
        environment: &ClassifierEnvironment,
    ) -> Result<Course, String> {
        self.pass_through(&mut Door::new(provider, environment)?)
    }

    /// Goes through a door that nobody has gone through before.
    pub(in crate::author) fn pass_through(self, door: &mut Door) -> Result<Course, String> {
        let mut chance = Chance::new(SEED);
        for number in 0..self.requests {
            door.now_ms += APART_MS;
            let class = door.classes.first().cloned().unwrap_or_default();
            door.arrive(arrival(&mut chance, number, class))?;
            if door.going.len() + door.held.len() >= self.at_once {
                door.end_first()?;
            }
            if number % 16 == 15 {
                door.tell(&LifecycleEvent::Tick)?;
            }
        }
        while !door.going.is_empty() {
            door.now_ms += APART_MS;
            door.end_first()?;
        }
        door.wait(u64::from(door.instance.declaration().tick_ms))?;
        door.course.left = door.held.len();
        let left: Vec<Arc<str>> = door.held.keys().cloned().collect();
        for id in left {
            door.held.remove(&id);
            door.tell(&LifecycleEvent::Aborted(&id, None))?;
        }
        let none: [Capacity; 0] = [];
        door.tell(&LifecycleEvent::FleetChanged(&none))?;
        Ok(std::mem::take(&mut door.course))
    }
}
/// Who comes: most in sessions, of many lengths.
fn arrival(chance: &mut Chance, number: usize, class: Arc<str>) -> Arrival {
    let tokens = [60, 400, 1_500, 6_000].get(chance.below(4)).copied().unwrap_or(400);
    let mut arrival = Arrival::new(format!("request-{number}").into(), class, tokens);
    if chance.below(5) > 0 {
        let id = format!("session-{}", chance.below(1 + number / 4)).into();
        let is_final = (chance.below(6) == 0).then_some(true);
        arrival.session = Some(Session { id, parent_id: None, is_final, evict: None });
    }
    arrival
}

/// An instance, and who is on which side of it.
pub(in crate::author) struct Door {
    instance: Box<dyn RequestClassifier>,
    classes: Arc<[Arc<str>]>,
    workers: Arc<[Capacity]>,
    held: BTreeMap<Arc<str>, Arrival>,
    going: VecDeque<Arc<str>>,
    now_ms: u64,
    course: Course,
}

impl Door {
    /// That of a new instance.
    pub(in crate::author) fn new(
        provider: &Arc<dyn ClassifierProvider>,
        environment: &ClassifierEnvironment,
    ) -> Result<Self, String> {
        let limits = patient(environment.limits);
        let environment = ClassifierEnvironment { limits, ..environment.clone() };
        let instance = provider.instantiate(&environment).map_err(|error| error.to_string())?;
        Ok(Self {
            instance,
            classes: environment.policy_classes,
            workers: environment.workers,
            held: BTreeMap::new(),
            going: VecDeque::new(),
            now_ms: 0,
            course: Course::default(),
        })
    }

    /// What the instance has used; none if nobody keeps count of that.
    pub(in crate::author) fn usage(&self) -> Option<Usage> {
        self.instance.usage()
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), String> {
        let id = arrival.request_id.clone();
        let now_ms = self.now_ms;
        let request = ClassifyRequest {
            arrival: &arrival,
            progress_tokens: 0,
            arrived_at_ms: now_ms,
            now_ms,
        };
        let answer = self.instance.classify(&request);
        self.count();
        match answer {
            Ok(Verdict::Hold) => {
                self.held.insert(id, arrival);
                let (held, most) = (self.held.len(), self.instance.declaration().most_held);
                if held > most as usize {
                    return Err(format!(
                        "it holds {held} requests and declared {most} at most; refuse further ones, or declare more"
                    ));
                }
                Ok(())
            }
            Ok(Verdict::Admit(with)) => self.admit(id, with),
            Ok(Verdict::Reject(words)) => self.refuse(&id, words),
            Err(error) => self.failed("classify", error),
        }
    }

    fn admit(&mut self, id: Arc<str>, with: Admission) -> Result<(), String> {
        with.check(&self.classes).map_err(|error| format!("{id}: {}", error.detail))?;
        self.course.admitted += 1;
        self.course.order.push((id.clone(), with));
        let nth = self.course.admitted % self.workers.len().max(1);
        let worker = self.workers.get(nth).map(|capacity| capacity.worker);
        self.going.push_back(id.clone());
        match worker {
            Some(worker) => self.tell(&LifecycleEvent::Sent(&id, worker)),
            None => Ok(()),
        }
    }

    fn refuse(&mut self, id: &str, words: String) -> Result<(), String> {
        self.course.refused += 1;
        if self.course.said.is_empty() {
            self.course.said = words;
        }
        // One that is refused ends, too.
        self.tell(&LifecycleEvent::Aborted(id, None))
    }

    /// Who has been under way longest ends; without one, a client that waits leaves.
    fn end_first(&mut self) -> Result<(), String> {
        if let Some(id) = self.going.pop_front() {
            self.tell(&LifecycleEvent::Responding(&id))?;
            return self.tell(&LifecycleEvent::Completed(&id, Some(800)));
        }
        match self.held.pop_first() {
            Some((id, _)) => self.tell(&LifecycleEvent::Aborted(&id, None)),
            None => Ok(()),
        }
    }

    /// Ticks, for as long as somebody is held.
    fn wait(&mut self, tick_ms: u64) -> Result<(), String> {
        let end_ms = self.now_ms + PATIENCE_MS;
        while tick_ms > 0 && !self.held.is_empty() && self.now_ms < end_ms {
            self.now_ms += tick_ms.max(APART_MS);
            self.tell(&LifecycleEvent::Tick)?;
            while !self.going.is_empty() {
                self.end_first()?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, event: &LifecycleEvent<'_>) -> Result<(), String> {
        let answer = self.instance.on_event(event, self.now_ms);
        self.count();
        let releases = match answer {
            Ok(releases) => releases,
            Err(error) => return self.failed("on-event", error),
        };
        for Release { request_id, verdict } in releases {
            if verdict == Verdict::Hold {
                continue;
            }
            if self.held.remove(&request_id).is_none() {
                return Err(format!(
                    "it released {request_id:?}, which isn't held; forget a request at its end and when it was admitted"
                ));
            }
            match verdict {
                Verdict::Admit(with) => {
                    self.course.held += 1;
                    self.admit(request_id, with)?;
                }
                Verdict::Reject(words) => self.refuse(&request_id, words)?,
                Verdict::Hold => {}
            }
        }
        Ok(())
    }

    /// A classifier may say no; all else is a failure.
    fn failed(&self, call: &str, error: StageError) -> Result<(), String> {
        if error.cause == Cause::Refused {
            return Ok(());
        }
        Err(format!("it failed in {call} ({}): {}", error.cause, error.detail))
    }

    fn count(&mut self) {
        let fuel = self.instance.last_fuel().unwrap_or(0);
        self.course.calls += 1;
        self.course.fuel += fuel;
        self.course.most_fuel = self.course.most_fuel.max(fuel);
    }
}
