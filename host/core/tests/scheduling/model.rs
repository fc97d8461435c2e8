//! Who waits and who runs, as the driver knows it; and what that means for order and load.
//!
//! Nothing here asks the queue, the ledger or the rules: it is the slow account that they are held to.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pointsman_core::admission::lane;
use pointsman_core::fleet::Availability;
use pointsman_core::ids::{WorkerId, WorkerRank};
use pointsman_core::ledger::{AttemptId, Lease};
use pointsman_core::queue::{ClassSpec, Profile, QueueKey, QueuePolicy};
use pointsman_core::request::RouteRequest;

use crate::crew::Crew;
use crate::traffic::BATCHED;

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) key: QueueKey,
    pub(crate) request: Arc<RouteRequest>,
    pub(crate) arrived_ms: u64,
}

impl Waiter {
    pub(crate) fn ranked(&self) -> (&RouteRequest, u64) {
        (&self.request, self.arrived_ms)
    }
}

/// How a booking is held.
#[derive(Debug)]
pub(crate) enum Held {
    Lease(Lease),
    /// By name, for an attempt, and spoken of last then.
    Reserved(AttemptId, u64),
}

/// Somebody who was decided.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: u64,
    pub(crate) group: usize,
    pub(crate) request: Arc<RouteRequest>,
    pub(crate) held: Held,
    pub(crate) rank: WorkerRank,
    pub(crate) life: u64,
    /// Prompt tokens until the first token; 0 after.
    pub(crate) prefill: u64,
    pub(crate) output: u64,
}

/// A row as a waiter sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) rank: WorkerRank,
    /// Prompt tokens that are left to compute.
    pub(crate) prefill: f64,
    pub(crate) open: bool,
}

/// Whether a worker may be given anything.
pub(crate) fn is_open(crew: &Crew, worker: WorkerId, overloaded: &BTreeSet<WorkerId>) -> bool {
    let known = crew.present.get(&worker.0);
    known.is_some_and(|known| known.availability == Availability::Ready)
        && !overloaded.contains(&worker)
}

/// The class of a request: what it names, else the first.
pub(crate) fn class_of(profile: &Profile, request: &RouteRequest) -> usize {
    let named = request.admission.policy_class.as_deref();
    let found =
        profile.classes().iter().position(|class| named.is_some_and(|name| *class.name == *name));
    found.unwrap_or(0)
}

/// Whether so many of the rows that a request may have are busy that it has to wait.
pub(crate) fn has_to_wait(class: &ClassSpec, request: &RouteRequest, rows: &[Row]) -> bool {
    let constraints = &request.constraints;
    let may_have = |row: &&Row| {
        let pinned = constraints.pinned.is_none_or(|target| {
            target.worker_id == row.rank.worker_id
                && target.dp_rank.is_none_or(|rank| rank == row.rank.dp_rank)
        });
        let allowed = constraints.allowed.as_ref();
        let allowed = allowed.is_none_or(|allowed| allowed.contains(&row.rank.worker_id));
        row.open && pinned && allowed && !constraints.tried.contains(&row.rank.worker_id)
    };
    let most = class.prefill_busy_threshold.map(|most| most as f64);
    let frac = class.prefill_busy_threshold_frac.map(|frac| frac * BATCHED as f64);
    let is_busy = |row: &&Row| most.into_iter().chain(frac).any(|most| row.prefill > most);
    let eligible = rows.iter().filter(may_have).count();
    let busy = rows.iter().filter(may_have).filter(is_busy).count();
    let ratio = class.busy_worker_ratio.unwrap_or(1.0);
    eligible > 0 && busy as f64 >= ratio * eligible as f64
}

fn score(policy: QueuePolicy, request: &RouteRequest, arrived_ms: u64) -> f64 {
    let (jump, seconds) = (request.priority_jump, arrived_ms as f64 / 1_000.0);
    let cost = request.admission.scheduling_cost_tokens.map_or(1, |cost| cost.get());
    match policy {
        QueuePolicy::Fcfs => jump - seconds,
        QueuePolicy::Lcfs => jump + seconds,
        QueuePolicy::Wspt => (1.0 + jump) / cost as f64,
    }
}

/// Which of two of a class goes first, each with when it arrived; equal ones as they came.
pub(crate) fn first_of(
    policy: QueuePolicy,
    (a, a_ms): (&RouteRequest, u64),
    (b, b_ms): (&RouteRequest, u64),
) -> Ordering {
    let due = |request: &RouteRequest| request.admission.due_at_ms.unwrap_or(u64::MAX);
    let scores = score(policy, b, b_ms).total_cmp(&score(policy, a, a_ms));
    b.strict_priority.cmp(&a.strict_priority).then(due(a).cmp(&due(b))).then(scores)
}

/// The first of each lane: a class has one for anybody's requests, one for each target, and some for
/// requests that only certain workers may have.
pub(crate) fn heads<'a>(
    profile: &Profile,
    waiting: &'a BTreeMap<u64, Waiter>,
) -> Vec<(usize, u64, &'a Waiter)> {
    let mut heads: Vec<(usize, u64, &Waiter)> = Vec::new();
    for (&id, waiter) in waiting {
        let class = class_of(profile, &waiter.request);
        let its = lane(&waiter.request.constraints);
        let there = heads
            .iter_mut()
            .find(|(of, _, head)| *of == class && lane(&head.request.constraints) == its);
        match there {
            None => heads.push((class, id, waiter)),
            Some(there) => {
                let policy = profile.classes()[class].queue_policy;
                let order = first_of(policy, waiter.ranked(), there.2.ranked());
                if order.then(waiter.key.cmp(&there.2.key)) == Ordering::Less {
                    *there = (class, id, waiter);
                }
            }
        }
    }
    heads
}
