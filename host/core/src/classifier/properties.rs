//! Lifecycles under random arrivals, ends, retries, reloads, traps, ticks and time, against the
//! promises that hold whatever happens.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::clock::Chance;
use crate::ids::Role;
use crate::policy::{Limits, OnFailure, RouterSettings, StageError};
use crate::testing::arrival;
use crate::testing::{MadeClassifier, classifying, key, rank};

/// What one classifier instance believes, and every promise that it finds broken.
#[derive(Debug, Default)]
struct Belief {
    /// The requests that it thinks it holds.
    held: BTreeSet<String>,
    /// Those that it thinks go on.
    live: BTreeSet<String>,
    /// Those that it refused, or failed on.
    refused: BTreeSet<String>,
}

/// What all instances of a desk saw together.
#[derive(Debug, Default)]
struct Seen {
    belief: Belief,
    broken: Vec<String>,
}

impl Seen {
    fn check(&mut self, holds: bool, what: impl Fn() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    fn note(&mut self, event: &LifecycleEvent<'_>) {
        let words = super::tests::in_words(event);
        match event {
            LifecycleEvent::Inherited(live) => {
                let id = live.request.arrival.request_id.to_string();
                let new = self.belief.live.insert(id.clone()) && !self.belief.held.contains(&id);
                self.check(new, || words.clone());
            }
            LifecycleEvent::Admitted(id) => {
                self.belief.held.remove(*id);
                self.belief.refused.remove(*id);
                let new = self.belief.live.insert((*id).to_owned());
                self.check(new, || words.clone());
            }
            LifecycleEvent::Sent(id, _) | LifecycleEvent::Responding(id) => {
                let live = self.belief.live.contains(*id);
                self.check(live, || words.clone());
            }
            LifecycleEvent::Completed(id, _) | LifecycleEvent::Aborted(id, _) => {
                let Belief { held, live, refused } = &mut self.belief;
                let known = [held.remove(*id), live.remove(*id), refused.remove(*id)];
                let once = known.into_iter().filter(|known| *known).count() == 1;
                self.check(once, || words.clone());
            }
            LifecycleEvent::FleetChanged(_) | LifecycleEvent::Tick => {}
        }
    }
}

/// A classifier whose mood is chance: it admits, holds, refuses, releases, lies, fails and panics.
fn moody(seen: &Arc<Mutex<Seen>>, seed: u64) -> impl RequestClassifier + use<> {
    seen.lock().belief = Belief::default();
    let chance = Arc::new(Mutex::new(Chance::new(seed)));
    let (dice, asked) = (chance.clone(), seen.clone());
    let classify = move |request: &ClassifyRequest<'_>| {
        let id = request.arrival.request_id.to_string();
        let mut seen = asked.lock();
        let unknown = !seen.belief.live.contains(&id) && !seen.belief.held.contains(&id);
        seen.check(unknown, || format!("classify {id}"));
        Ok(match dice.lock().below(20) {
            0..8 => {
                seen.belief.live.insert(id);
                Verdict::Admit(Admission::default())
            }
            8..16 => {
                seen.belief.held.insert(id);
                Verdict::Hold
            }
            16 => {
                seen.belief.refused.insert(id);
                Verdict::Reject("no".to_owned())
            }
            17 => {
                seen.belief.refused.insert(id);
                let policy_class = Some("nobody".into());
                Verdict::Admit(Admission { policy_class, ..Admission::default() })
            }
            18 => {
                seen.belief.refused.insert(id);
                return Err(StageError::refused("no"));
            }
            _ => {
                drop(seen);
                panic!("a mood")
            }
        })
    };
    let told = seen.clone();
    let on_event = move |event: &LifecycleEvent<'_>, _: u64| {
        let mut seen = told.lock();
        seen.note(event);
        let mut dice = chance.lock();
        match dice.below(40) {
            0 => {
                drop(seen);
                panic!("a mood")
            }
            1 => return Err(StageError::refused("no")),
            _ => {}
        }
        let mut releases = Vec::new();
        for id in seen.belief.held.clone() {
            let verdict = match dice.below(8) {
                0 => Verdict::Hold,
                1 => {
                    seen.belief.held.remove(&id);
                    seen.belief.refused.insert(id.clone());
                    Verdict::Reject("no".to_owned())
                }
                2..4 => {
                    seen.belief.held.remove(&id);
                    seen.belief.live.insert(id.clone());
                    Verdict::Admit(Admission::default())
                }
                _ => continue,
            };
            releases.push(Release { request_id: id.as_str().into(), verdict });
        }
        if dice.below(30) == 0 {
            let verdict = Verdict::Admit(Admission::default());
            releases.push(Release { request_id: "nobody".into(), verdict });
        }
        Ok(releases)
    };
    classifying(6, classify, on_event).ticking(7)
}

fn seat(seen: &Arc<Mutex<Seen>>, seed: u64, on_failure: OnFailure) -> Seat {
    let seen = seen.clone();
    let dice = Mutex::new(Chance::new(seed));
    let make = move || moody(&seen, dice.lock().bits());
    let environment = ClassifierEnvironment {
        partition: key(Role::Aggregated),
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::new(RouterSettings::default()),
        policy_classes: ["default".into()].into(),
        workers: Arc::default(),
        limits: Limits::default(),
        seed,
        trial: false,
    };
    Seat::new(Arc::new(MadeClassifier::new("moody", make)), environment, on_failure)
        .expect("it is made")
}

/// A request as its task sees it.
#[derive(Debug)]
struct Task {
    id: String,
    lifecycle: Lifecycle,
    waits: bool,
    goes_on: bool,
}

/// One run of so many steps. Returns what was found broken.
fn run(seed: u64, steps: u64) -> Vec<String> {
    let mut chance = Chance::new(seed);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let desk = Desk::new();
    let mut broken = Vec::new();
    let mut tasks: Vec<Task> = Vec::new();
    let mut now_ms = 0;
    for step in 0..steps {
        now_ms += chance.below(4) as u64;
        match chance.below(24) {
            0 if step % 5 == 0 => {
                let on_failure = match chance.below(6) {
                    0 => OnFailure::Default,
                    1 => OnFailure::Reject,
                    2 => OnFailure::Skip,
                    _ => OnFailure::LastGood,
                };
                let next = match chance.below(6) {
                    0 => None,
                    // Not told yet, and so to be believed in from its first call on.
                    _ => Some(seat(&seen, chance.bits(), on_failure)),
                };
                if next.is_none() {
                    seen.lock().belief = Belief::default();
                }
                desk.replace(next);
            }
            0..9 => {
                let id = format!("r{}", chance.below(30));
                let due = (chance.below(3) == 0).then(|| now_ms + chance.below(20) as u64);
                let lifecycle = desk.begin();
                let arrived =
                    desk.arrive(Arrival { due_at_ms: due, ..arrival(&id) }, &lifecycle, now_ms);
                let taken = tasks.iter().any(|task| task.id == id);
                let refused = matches!(arrived, Err(ClassificationError::Duplicate(_)));
                if taken != refused {
                    broken.push(format!("{id} taken {taken}, but {arrived:?}"));
                }
                if refused {
                    continue;
                }
                let (waits, goes_on) =
                    (arrived == Ok(Arrived::Held), matches!(arrived, Ok(Arrived::Admitted(_))));
                tasks.push(Task { id, lifecycle, waits, goes_on });
            }
            9..12 if !tasks.is_empty() => {
                // A retry of the same request.
                let task = &tasks[chance.below(tasks.len())];
                let again = desk.arrive(arrival(&task.id), &task.lifecycle, now_ms);
                let held = again == Ok(Arrived::Held);
                if task.goes_on != matches!(again, Ok(Arrived::Admitted(_))) && !task.waits {
                    broken.push(format!("{}: another answer: {again:?}", task.id));
                }
                if held && !task.waits {
                    broken.push(format!("{}: held again", task.id));
                }
            }
            12..16 if !tasks.is_empty() => {
                let task = &tasks[chance.below(tasks.len())];
                task.lifecycle.sent(rank(1, 0));
                task.lifecycle.responding();
            }
            16..21 if !tasks.is_empty() => {
                let Task { lifecycle, .. } = tasks.swap_remove(chance.below(tasks.len()));
                match chance.below(2) {
                    0 => lifecycle.completed(Some(1)),
                    _ => drop(lifecycle),
                }
            }
            _ => desk.catch_up(now_ms),
        }
        for Released { generation, result } in desk.take_released() {
            let task = tasks.iter_mut().find(|task| task.lifecycle.generation() == generation);
            match task {
                // Its client left in the same moment.
                None => {}
                Some(task) if task.waits => {
                    task.waits = false;
                    task.goes_on = result.is_ok();
                }
                Some(task) => broken.push(format!("{} answered twice", task.id)),
            }
        }
        let waiting = tasks.iter().filter(|task| task.waits).count() as u64;
        let held = desk.counts().held_now;
        // Notes of clients that left may still be in the mailbox.
        if held < waiting {
            broken.push(format!("step {step}: {waiting} wait and {held} are held"));
        }
    }
    tasks.clear();
    desk.catch_up(now_ms);
    let counts = desk.counts();
    if (counts.held_now, counts.live_now) != (0, 0) {
        broken.push(format!("left behind: {counts:?}"));
    }
    broken.append(&mut seen.lock().broken);
    broken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_answered_once_and_ends_once_whatever_happens(seed: u64) {
        std::panic::set_hook(Box::new(|_| {}));
        let broken = run(seed, 400);
        prop_assert!(broken.is_empty(), "{broken:#?}");
    }
}
