//! What is done with a turn: a request that comes is decided or waits, and those who wait are served.
//!
//! Owns what becomes of requests while they wait. Their tasks wait, each for its own answer; who
//! leaves, or is late, takes himself out. While anybody waits there is an attendant, a task that goes
//! for all when the bell rings. It doesn't know the order in which they are served: that is the line's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pointsman_core::RouteError;
use pointsman_core::admission::{Arrival, Foreseen, Next, Scout, Site, overdue};
use pointsman_core::clock::Stopwatch;
use pointsman_core::partition::{Decision, Mode, Partition};
use pointsman_core::queue::QueueKey;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use tokio::sync::{Semaphore, oneshot};

use super::DispatchError;
use super::gate::Gate;
use crate::clock::RouterClock;

/// For how long decisions are made in one turn for those who wait; then others have theirs.
const TURN: Duration = Duration::from_millis(1);

/// How often whoever waits looks without being told: every release of load rings, so this is for
/// nothing that is known of.
const RECHECK: Duration = Duration::from_secs(60);

/// The same where load falls by time, which rings no bell.
const RECHECK_BY_TIME: Duration = Duration::from_millis(100);

type Deliver = Box<dyn FnOnce(Result<Decided, RouteError>) + Send>;

/// A decision, and for how many milliseconds its request waited; none if it didn't.
pub(super) type Decided = (Decision, Option<u64>);

/// Somebody whose wait is over, and for how many milliseconds it was; or why he isn't decided.
type Served = Result<(Arc<RouteRequest>, Option<u64>), RouteError>;

/// What is done for somebody who waits when his wait is over.
pub(super) struct Ticket {
    mode: Mode,
    deliver: Deliver,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// What became of a request that came.
pub(super) enum Entered<T> {
    /// It is decided.
    Decided(Result<T, RouteError>),
    /// It waits.
    Waits(Stay<T>),
}

/// A stay in the line, which ends when this is dropped.
pub(super) struct Stay<T> {
    gate: Arc<Gate>,
    key: QueueKey,
    due_at_ms: Option<u64>,
    outcome: oneshot::Receiver<Result<T, RouteError>>,
}

impl<T> Drop for Stay<T> {
    fn drop(&mut self) {
        let left = self.gate.line.lock().take(self.key);
        if left.is_some() {
            self.gate.look_again();
        }
        // Not under the line's lock.
        drop(left);
    }
}

/// One partition's gate with all that a turn there takes.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    pub(super) router: Arc<Router>,
    pub(super) clock: Arc<RouterClock>,
    pub(super) gate: Arc<Gate>,
    /// Places for threads that decide.
    pub(super) pool: Arc<Semaphore>,
}

/// The attendant's seat at a gate: one at a time.
struct Seat(Arc<Gate>);

impl Seat {
    /// None if somebody has it.
    fn take(gate: &Arc<Gate>) -> Option<Self> {
        let taken = gate.attended.swap(true, Ordering::SeqCst);
        (!taken).then(|| Self(gate.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.attended.store(false, Ordering::SeqCst);
    }
}

impl Desk {
    /// Takes a request in, by whoever has the turn.
    pub(super) fn enter<T: Send + 'static>(
        &self,
        request: &Arc<RouteRequest>,
        mode: Mode,
        then: impl FnOnce(Decision, Option<u64>) -> T + Send + 'static,
    ) -> Entered<T> {
        let partition = self.router.partition(&request.partition);
        let Some(partition) = partition.filter(|_| mode != Mode::DryRun) else {
            let decided = self.decide(request, mode);
            return Entered::Decided(decided.map(|decision| then(decision, None)));
        };
        let (mut then, mut outcome) = (Some(then), None);
        let ticket = || {
            let (sends, receives) = oneshot::channel();
            outcome = Some(receives);
            let then = then.take();
            let deliver = move |decided: Result<Decided, RouteError>| {
                let told = match (decided, then) {
                    (Ok((decision, queued_ms)), Some(then)) => Ok(then(decision, queued_ms)),
                    (Err(error), _) => Err(error),
                    (Ok(_), None) => return,
                };
                // What nobody waits for is given back before the next one is decided.
                drop(sends.send(told));
            };
            Ticket { mode, deliver: Box::new(deliver) }
        };
        match self.arrive(&partition, request, ticket) {
            Err(error) => return Entered::Decided(Err(error)),
            Ok(Arrival::Passes) => {}
            Ok(Arrival::Waits(key)) => {
                let (gate, due_at_ms) = (self.gate.clone(), request.admission.due_at_ms);
                // Whoever waits has his ticket.
                if let Some(outcome) = outcome {
                    return Entered::Waits(Stay { gate, key, due_at_ms, outcome });
                }
            }
        }
        let decided = self.decide(request, mode);
        Entered::Decided(decided.and_then(|decision| match then {
            Some(then) => Ok(then(decision, None)),
            None => Err(RouteError::NoPartition(request.partition.clone())),
        }))
    }

    fn arrive(
        &self,
        partition: &Partition,
        request: &Arc<RouteRequest>,
        ticket: impl FnOnce() -> Ticket,
    ) -> Result<Arrival, RouteError> {
        let profile = self.router.queue_profile(&request.partition.model);
        let waiting = !self.gate.line.lock().is_empty();
        let now_ms = self.clock.now_ms();
        if !profile.queues() && !waiting {
            return overdue(request, now_ms).map_or(Ok(Arrival::Passes), Err);
        }
        let relief = partition.ledger().relief();
        let settled = !waiting || relief.is_awaited() && !relief.falls_by_time() || self.serve();
        let settings = self.router.settings();
        let (profile, bell) = (&profile, &self.gate.rings);
        let site = Site { partition, settings: &settings, profile, now_ms, bell };
        let mut scout = self.gate.scout.lock();
        let others_wait = !self.gate.line.lock().is_empty();
        let found = scout.find(&site, request, others_wait);
        let mut line = self.gate.line.lock();
        // It waits from now on: whoever was served until here was before it.
        let site = Site { now_ms: self.clock.now_ms(), ..site };
        line.arrive(&site, &mut scout, request, &found, settled, ticket)
    }

    /// What would become of a request that came now, by whoever has the turn.
    pub(super) fn foresee(&self, request: &RouteRequest) -> Option<Foreseen> {
        let partition = self.router.partition(&request.partition)?;
        Some(self.look(&partition, |site, scout| {
            let others_wait = !self.gate.line.lock().is_empty();
            let found = scout.find(site, request, others_wait);
            self.gate.line.lock().foresee(site, request, &found)
        }))
    }

    /// Looks at the line as it is now, as the only one who does.
    fn look<R>(&self, partition: &Partition, with: impl FnOnce(&Site<'_>, &mut Scout) -> R) -> R {
        let model = &partition.key().model;
        let (settings, profile) = (self.router.settings(), self.router.queue_profile(model));
        let site = Site {
            partition,
            settings: &settings,
            profile: &profile,
            now_ms: self.clock.now_ms(),
            bell: &self.gate.rings,
        };
        with(&site, &mut self.gate.scout.lock())
    }

    /// Decides for those whose wait is over, one after the other; by whoever has the turn. False if
    /// there may be more of them.
    pub(super) fn serve(&self) -> bool {
        let watch = Stopwatch::start();
        while watch.elapsed() < TURN {
            let Some((request, ticket)) = self.next() else { return true };
            match request {
                Err(error) => (ticket.deliver)(Err(error)),
                Ok((request, queued_ms)) => {
                    let decided = self.decide(&request, ticket.mode);
                    (ticket.deliver)(decided.map(|decision| (decision, queued_ms)));
                }
            }
        }
        false
    }

    /// The next one whose wait is over.
    fn next(&self) -> Option<(Served, Ticket)> {
        let key = &self.gate.partition;
        let Some(partition) = self.router.partition(key) else {
            let next = self.gate.line.lock().next_anyway();
            return next.map(|(request, ticket)| (Ok((request, None)), ticket));
        };
        let next = self.look(&partition, |site, scout| self.gate.line.lock().next(site, scout))?;
        Some(match next {
            Next::Decide(request, ticket, waited_ms) => (Ok((request, Some(waited_ms))), ticket),
            Next::Late(error, ticket) => (Err(error), ticket),
        })
    }

    fn decide(&self, request: &RouteRequest, mode: Mode) -> Result<Decision, RouteError> {
        self.gate.measured(|| self.router.route(request, self.clock.moment(), mode))
    }

    /// Does some work with the gate's turn: in place, or on a thread of the pool where it may be slow.
    pub(super) async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DispatchError> {
        let turn = self.gate.enter().await;
        if !self.gate.is_slow() {
            return Ok(work());
        }
        let place = self.pool.clone().acquire_owned().await;
        // A thread can't be stopped: what it has taken goes with it, and is free when it is done,
        // not when its client hangs up. Else each client that does would leave one more thread
        // that waits for the partition.
        let (done, waits) = oneshot::channel();
        let thread = tokio::task::spawn_blocking(move || {
            // What nobody waits for is given back before the next one is decided.
            drop(done.send(work()));
            drop((turn, place));
        });
        match waits.await {
            Ok(outcome) => Ok(outcome),
            Err(_) => {
                let why = thread.await.err().map(|error| error.to_string());
                Err(DispatchError::Abandoned(why.unwrap_or_default()))
            }
        }
    }

    /// What the attendant does, if there is none yet: he ends when nobody waits.
    pub(super) fn attendance(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let seat = Seat::take(&self.gate)?;
        Some(self.clone().attend(seat))
    }

    async fn attend(self, mut seat: Seat) {
        loop {
            let serves = self.clone();
            // A thread that died has told those it was to decide for; the others wait on.
            if let Ok(false) = self.in_turn(move || serves.serve()).await {
                continue;
            }
            if self.gate.line.lock().is_empty() {
                drop(seat);
                // Who has come since found the seat taken.
                if self.gate.line.lock().is_empty() {
                    return;
                }
                let Some(again) = Seat::take(&self.gate) else { return };
                seat = again;
                continue;
            }
            drop(tokio::time::timeout(self.recheck(), self.gate.bell.rung()).await);
        }
    }

    /// How long the attendant waits for the bell before he looks all the same.
    fn recheck(&self) -> Duration {
        let partition = self.router.partition(&self.gate.partition);
        let by_time = partition.is_some_and(|its| its.ledger().relief().falls_by_time());
        if by_time { RECHECK_BY_TIME } else { RECHECK }
    }

    /// Waits for a stay's end. None only if whoever decided died of it.
    pub(super) async fn outcome<T>(&self, mut stay: Stay<T>) -> Option<Result<T, RouteError>> {
        if let Some(due_at_ms) = stay.due_at_ms {
            tokio::select! {
                biased;
                outcome = &mut stay.outcome => return outcome.ok(),
                // He has his answer by now, or is being decided.
                () = self.until(due_at_ms) => {}
            }
        }
        (&mut stay.outcome).await.ok()
    }

    /// Waits for a time, and then tells all whose time has come.
    async fn until(&self, due_at_ms: u64) {
        loop {
            let now_ms = self.clock.now_ms();
            let Some(left) = due_at_ms.checked_sub(now_ms).filter(|left| *left > 0) else { break };
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
        loop {
            let late = self.gate.line.lock().next_late(self.clock.now_ms());
            let Some(Next::Late(error, ticket)) = late else { return };
            self.gate.look_again();
            (ticket.deliver)(Err(error));
        }
    }
}
