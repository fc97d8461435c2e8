//! Where requests ask to be let in, before anything is decided about them.
//!
//! Owns a task for each partition that has a request classifier, the *clerk*: it alone works at the
//! partition's [`Desk`], wakes at the classifier's ticks and when held requests are due, and answers
//! those that wait. A request waits as a task, and leaves at once when it is dropped. It doesn't know
//! HTTP, and a partition without a classifier costs a look.
//!
//! A clerk of a quick classifier works on async threads; one whose calls are often slow, and any that
//! has to make an instance or to tell it what there is, works on a blocking thread, so that nobody
//! else waits for it.

mod clerk;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::classifier::{
    Admitted, Arrival, ClassificationError, ClassifierLog, Desk, Lifecycle, Ticket,
};
use pointsman_core::ids::PartitionKey;
use pointsman_core::queue::Profile;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::RouterClock;
use clerk::Clerk;

/// What a request gets at the desk.
type Answer = Result<Admitted, ClassificationError>;

/// A request at the desk.
#[derive(Debug)]
struct Caller {
    arrival: Arrival,
    ticket: Ticket,
    answer: oneshot::Sender<Answer>,
}

/// A clerk, as requests find it.
#[derive(Debug)]
struct Counter {
    desk: Arc<Desk>,
    callers: mpsc::UnboundedSender<Caller>,
}

/// The clerks of all partitions. Their tasks end with it.
#[derive(Debug)]
pub struct Desks {
    router: Arc<Router>,
    clock: Arc<RouterClock>,
    counters: Arc<Mutex<BTreeMap<PartitionKey, Counter>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    log: Option<Arc<dyn ClassifierLog>>,
}

impl Desks {
    /// No clerk yet: each begins with its first request.
    #[must_use]
    pub fn new(router: Arc<Router>, clock: Arc<RouterClock>) -> Self {
        let (counters, tasks, stop) =
            (Arc::default(), TaskTracker::new(), CancellationToken::new());
        Self { router, clock, counters, tasks, stop, log: None }
    }

    /// The same, which leave all that classifiers are told and answer to a log, if there is one.
    #[must_use]
    pub fn with_log(self, log: Option<Arc<dyn ClassifierLog>>) -> Self {
        Self { log, ..self }
    }

    /// Waits until a request is let in, and has it go on as its classifier says. None where there is
    /// no classifier. Whoever serves the request says by the lifecycle what becomes of it; dropping
    /// that, or this future, says that its client left.
    ///
    /// # Errors
    ///
    /// It isn't let in.
    pub async fn admit(
        &self,
        request: &mut RouteRequest,
    ) -> Result<Option<Lifecycle>, ClassificationError> {
        let Some(partition) = self.router.partition(&request.partition) else { return Ok(None) };
        let desk = partition.desk();
        if !desk.is_wanted() {
            return Ok(None);
        }
        let lifecycle = desk.begin();
        let (answer, waits) = oneshot::channel();
        let profile = self.router.queue_profile(&request.partition.model);
        let arrival = arrival(request, &profile);
        let ticket = Ticket::from(&lifecycle);
        self.call(partition.key(), desk, Caller { arrival: arrival.clone(), ticket, answer });
        match waits.await {
            Ok(answer) => go_on(answer?, &arrival, request),
            // The router is stopping: who is served still is let in as it is.
            Err(_) => return Ok(None),
        }
        Ok(Some(lifecycle))
    }

    fn call(&self, partition: &PartitionKey, desk: &Arc<Desk>, caller: Caller) {
        let mut counters = self.counters.lock();
        let found = counters.get(partition).filter(|counter| Arc::ptr_eq(&counter.desk, desk));
        let mut caller = Some(caller);
        if let Some(counter) = found
            && let Some(one) = caller.take()
            && let Err(closed) = counter.callers.send(one)
        {
            // Its task has just ended.
            caller = Some(closed.0);
        }
        let Some(caller) = caller.filter(|_| !self.stop.is_cancelled()) else { return };
        let (callers, waiting) = mpsc::unbounded_channel();
        // It has just been made, with its other end here.
        if callers.send(caller).is_ok() {
            // Nobody else works there, so that no instance has been told of anything yet.
            if let Some(log) = &self.log {
                desk.write_to(log.clone());
            }
            let clerk = Clerk::new(desk.clone(), self.clock.clone(), waiting);
            let (router, partition) = (self.router.clone(), partition.clone());
            let counter = Counter { desk: desk.clone(), callers };
            counters.insert(partition.clone(), counter);
            let counters = self.counters.clone();
            let stop = self.stop.clone();
            let retired = move |desk: &Arc<Desk>| {
                let there = router.partition(&partition);
                let gone = there.is_none_or(|there| !Arc::ptr_eq(there.desk(), desk));
                if gone && desk.live() == 0 {
                    counters.lock().retain(|_, counter| !Arc::ptr_eq(&counter.desk, desk));
                }
            };
            self.tasks.spawn(stop.run_until_cancelled_owned(clerk.work(retired)));
        }
    }

    /// Ends all clerks, and waits for their end.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A request's facts, as a classifier gets them.
fn arrival(request: &RouteRequest, profile: &Profile) -> Arrival {
    let terms = &request.admission;
    let prompt = NonZeroU64::new(request.prompt_tokens).unwrap_or(NonZeroU64::MIN);
    Arrival {
        request_id: request.request_id.clone(),
        policy_class: profile.asked_for(terms.policy_class.as_deref()).clone(),
        input_tokens: request.prompt_tokens,
        session: request.session.clone(),
        trigger: request.trigger,
        pinned_worker: request.constraints.pinned,
        expected_output_tokens: request.expected_output_tokens,
        priority_jump: request.priority_jump,
        strict_priority: request.strict_priority,
        due_at_ms: terms.due_at_ms,
        scheduling_cost_tokens: terms.scheduling_cost_tokens.unwrap_or(prompt),
    }
}

/// Has a request go on with what it was admitted with.
fn go_on(with: Admitted, came: &Arrival, request: &mut RouteRequest) {
    let terms = &mut request.admission;
    terms.due_at_ms = with.due_at_ms;
    if with.policy_class != came.policy_class {
        terms.policy_class = Some(with.policy_class);
    }
    if with.scheduling_cost_tokens != came.scheduling_cost_tokens {
        // Left as it is, it is what the prompt's best worker would have to compute.
        terms.scheduling_cost_tokens = Some(with.scheduling_cost_tokens);
    }
    if let Some(target) = with.selection_target {
        // It knows of the session, too, and comes later.
        request.affinity_target = Some(target);
    }
}

#[cfg(test)]
mod tests;
