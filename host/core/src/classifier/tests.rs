//! Promises of desks, with classifiers made of closures.

mod answers;
mod bench;
mod held;
mod instances;
mod log;
mod requests;
mod routers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::ids::{PartitionKey, Role, WorkerId, WorkerTarget};
use crate::policy::{Cause, Limits, OnFailure, RouterSettings, StageError};
use crate::router::Policies;
use crate::testing::{
    MadeClassifier, arrival, classifier_spec, classifying, key, rank, router, worker,
};

/// What a classifier was told, in words.
type Log = Arc<Mutex<Vec<String>>>;

fn environment() -> ClassifierEnvironment {
    ClassifierEnvironment {
        partition: key(Role::Aggregated),
        block_size: 16,
        parameters: Arc::default(),
        settings: Arc::new(RouterSettings::default()),
        policy_classes: ["batch".into(), "default".into()].into(),
        workers: Arc::default(),
        limits: Limits::default(),
        seed: 1,
        trial: false,
    }
}

fn seat_of<C: RequestClassifier + 'static>(
    on_failure: OnFailure,
    make: impl Fn() -> C + Send + Sync + 'static,
) -> Seat {
    Seat::new(Arc::new(MadeClassifier::new("made", make)), environment(), on_failure)
        .expect("it is made")
}

fn desk_of<C: RequestClassifier + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Desk {
    let desk = Desk::new();
    desk.replace(Some(seat_of(OnFailure::Default, make)));
    desk
}

pub(super) fn in_words(event: &LifecycleEvent<'_>) -> String {
    match event {
        LifecycleEvent::Inherited(live) => format!("inherited {}", live.request.arrival.request_id),
        LifecycleEvent::Admitted(id) => format!("admitted {id}"),
        LifecycleEvent::Sent(id, worker) => format!("sent {id} {worker}"),
        LifecycleEvent::Responding(id) => format!("responding {id}"),
        LifecycleEvent::Completed(id, tokens) => format!("completed {id} {tokens:?}"),
        LifecycleEvent::Aborted(id, worker) => {
            let worker = worker.map(|worker| worker.to_string());
            format!("aborted {id} {}", worker.as_deref().unwrap_or("nowhere"))
        }
        LifecycleEvent::FleetChanged(workers) => format!("fleet {}", workers.len()),
        LifecycleEvent::Tick => "tick".to_owned(),
    }
}

fn admit() -> Verdict {
    Verdict::Admit(Admission::default())
}

fn release(id: &str) -> Release {
    Release { request_id: id.into(), verdict: admit() }
}

/// Admits or holds as `holds` says, writes down all that it is told, and answers events with `says`.
fn noting<H, S>(log: &Log, holds: H, says: S) -> impl RequestClassifier + 'static + use<H, S>
where
    H: Fn(&str) -> bool + Send + 'static,
    S: Fn(&str) -> Vec<Release> + Send + 'static,
{
    let (asked, told) = (log.clone(), log.clone());
    classifying(
        100,
        move |request| {
            let id = &*request.arrival.request_id;
            asked.lock().push(format!("classify {id}"));
            Ok(if holds(id) { Verdict::Hold } else { admit() })
        },
        move |event, _| {
            let words = in_words(event);
            told.lock().push(words.clone());
            Ok(says(&words))
        },
    )
}

fn admitted(arrived: Result<Arrived, ClassificationError>) -> Admitted {
    match arrived {
        Ok(Arrived::Admitted(admitted)) => admitted,
        other => panic!("not admitted: {other:?}"),
    }
}

/// The lifecycles that were released, with their class or their error's kind.
fn released(desk: &Desk) -> Vec<(u64, String)> {
    let shown = |released: Released| match released.result {
        Ok(admitted) => (released.generation, admitted.policy_class.to_string()),
        Err(error) => (released.generation, error.kind().to_owned()),
    };
    desk.take_released().into_iter().map(shown).collect()
}

#[test]
fn whoever_works_at_the_desk_is_woken_by_what_happens() {
    let rung = Arc::new(AtomicU64::new(0));
    let desk = desk_of(|| noting(&Log::default(), |_| false, |_| Vec::new()));
    let bell = rung.clone();
    desk.on_mail(move || {
        bell.fetch_add(1, Ordering::Relaxed);
    });
    let before = rung.load(Ordering::Relaxed);
    let life = desk.begin();
    life.sent(rank(1, 0));
    drop(life);
    desk.fleet_changed(Arc::default());
    assert_eq!(rung.load(Ordering::Relaxed), before + 3);
}
