//! The line before a partition: which requests are decided at once, which wait, and who is next.
//!
//! Owns when a request waits: if queueing is on for its class and enough of the ranks that it may
//! have are busy, or somebody before it in its lane waits. The [`Queue`] owns the order; whoever
//! calls owns the turn: arrivals and looks at the line come one after the other, and each decision
//! is made before the next one is asked for, so that it sees what was booked.
//!
//! A prompt is looked up in the caches once more when it is decided, however long it waited, so that
//! nothing of the line has to be refreshed: only its place, once taken, goes by what was known when
//! it came. So where classes go by uncached lengths a prompt that passes at once is looked up twice;
//! that isn't worth an index that remembers who asked: `benches/README.md` has 0.04 to 0.3 us for a
//! look-up of 2,048 tokens among 64 workers, and a router adds some 200 us to a request.

mod prospect;
mod scout;
mod waits;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;

use crate::error::RouteError;
use crate::ledger::Bell;
use crate::partition::Partition;
use crate::policy::settings::RouterSettings;
use crate::queue::{
    Lane, LimitKind, NARROWED_LANES, Pending, Profile, Queue, QueueKey, QueueSettings, Terms,
    Waiting,
};
use crate::request::{Constraints, RouteRequest};

pub use prospect::Foreseen;
use prospect::{Prospect, Wait};
pub use scout::{Found, Scout};
pub use waits::Waits;

/// Where and when a line is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The partition.
    pub partition: &'a Partition,
    /// The router's settings.
    pub settings: &'a RouterSettings,
    /// The partition's classes.
    pub profile: &'a Arc<Profile>,
    /// Milliseconds on the router's clock.
    pub now_ms: u64,
    /// Is rung when somebody who waits may pass.
    pub bell: &'a Arc<dyn Bell>,
}

/// What becomes of a request that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is decided now.
    Passes,
    /// It waits. By this it can be taken out.
    Waits(QueueKey),
}

/// Somebody in the line whose wait is over.
#[derive(Debug)]
pub enum Next<T> {
    /// It is decided now, having waited for so many milliseconds.
    Decide(Arc<RouteRequest>, T, u64),
    /// Its time went by.
    Late(RouteError, T),
}

/// What has happened in one class since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassCounts {
    /// Requests that came.
    pub received: u64,
    /// Those that had to wait.
    pub waited: u64,
    /// Those that were refused because too much waits, in the order of [`LimitKind::ALL`].
    pub rejected: [u64; LimitKind::ALL.len()],
    /// Those whose due time had come.
    pub late: u64,
    /// Those that would have had to wait, and didn't want to.
    pub unwilling: u64,
    /// For how long those waited that were decided then.
    pub decided_after: Waits,
    /// For how long those waited whose due time came meanwhile.
    pub late_after: Waits,
}

impl ClassCounts {
    /// Counts a request that was not let in.
    fn note(&mut self, error: &RouteError) {
        match error {
            RouteError::DeadlineExceeded { .. } => self.late += 1,
            RouteError::DoNotQueue { .. } => self.unwilling += 1,
            RouteError::QueueRejected { rejected, .. } => {
                if let Some(count) = self.rejected.get_mut(rejected.limit_kind as usize) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
}

/// How one class does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub policy_class: Arc<str>,
    /// What waits.
    #[serde(flatten)]
    pub pending: Pending,
    /// What has happened.
    #[serde(skip)]
    pub counts: ClassCounts,
}

/// Somebody in the line.
#[derive(Debug)]
struct Parked<T> {
    request: Arc<RouteRequest>,
    /// When it came to the line, in milliseconds on the router's clock.
    since_ms: u64,
    ticket: T,
}

/// The line before one partition.
#[derive(Debug)]
pub struct Line<T> {
    queue: Queue<Parked<T>>,
    /// By class.
    counts: Vec<ClassCounts>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self::new(QueueSettings::default().default)
    }
}

impl<T> Line<T> {
    /// Nobody waits.
    #[must_use]
    pub fn new(profile: Arc<Profile>) -> Self {
        let counts = vec![ClassCounts::default(); profile.classes().len()];
        Self { queue: Queue::new(profile), counts }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How each class does.
    #[must_use]
    pub fn report(&self) -> Vec<ClassReport> {
        let classes = self.queue.pending().zip(&self.counts);
        let report = classes.map(|((name, pending), counts)| ClassReport {
            policy_class: name.clone(),
            pending,
            counts: counts.clone(),
        });
        report.collect()
    }

    /// Goes by a profile. Where it is another one, whoever waits goes on to wait in the class that
    /// he would belong to now.
    pub fn heed(&mut self, profile: &Arc<Profile>) {
        let before = self.queue.profile();
        if Arc::ptr_eq(before, profile) {
            return;
        }
        let names = before.classes().iter().map(|class| class.name.clone());
        let mut counts: BTreeMap<_, _> = names.zip(self.counts.drain(..)).collect();
        let kept = profile.classes().iter().map(|class| counts.remove(&class.name));
        self.counts = kept.map(Option::unwrap_or_default).collect();
        self.queue.reclass(profile.clone(), |profile, waiting| {
            let Waiting { terms, ticket, .. } = waiting;
            let named = ticket.request.admission.policy_class.as_deref();
            profile.choose(named, || terms.isl_tokens.saturating_sub(terms.cached_tokens))
        });
    }

    /// Takes in a request that comes, and what was found out of it since the last one came. The
    /// line is `settled` if [`Line::next`] had nobody since load fell last. The ticket is made only
    /// if the request waits.
    ///
    /// # Errors
    ///
    /// It may not wait, or can't be decided in time.
    pub fn arrive(
        &mut self,
        site: &Site<'_>,
        scout: &mut Scout,
        request: &Arc<RouteRequest>,
        found: &Found,
        settled: bool,
        ticket: impl FnOnce() -> T,
    ) -> Result<Arrival, RouteError> {
        self.heed(site.profile);
        let class = found.class;
        let prospect = self.prospect(site, request, found, settled);
        let mut unused = ClassCounts::default();
        let counts = self.counts.get_mut(class).unwrap_or(&mut unused);
        counts.received += 1;
        let wait = match prospect {
            Ok(Prospect::Passes) => return Ok(Arrival::Passes),
            Ok(Prospect::Waits(wait)) => wait,
            Err(error) => {
                counts.note(&error);
                return Err(error);
            }
        };
        let Wait { spec, terms, leads, workers } = wait;
        wait_for_relief(site);
        // What fell before that rings no bell.
        if leads && !scout.is_busy(site, spec, request) {
            return Ok(Arrival::Passes);
        }
        counts.waited += 1;
        let since_ms = site.now_ms;
        let parked = || Parked { request: request.clone(), since_ms, ticket: ticket() };
        let joined = self.queue.join(class, terms, workers, parked);
        joined.map(Arrival::Waits).map_err(|rejected| RouteError::QueueRejected {
            partition: request.partition.clone(),
            rejected,
        })
    }

    /// Takes out somebody whose wait is over: his due time has come, or he is next and may pass. To be
    /// called again after each, once he is decided. None leaves the line settled: the bell rings
    /// when that may have changed.
    pub fn next(&mut self, site: &Site<'_>, scout: &mut Scout) -> Option<Next<T>> {
        self.heed(site.profile);
        if let Some(late) = self.next_late(site.now_ms) {
            return Some(late);
        }
        if self.is_empty() {
            site.partition.ledger().relief().rest();
            return None;
        }
        // Before load is looked at.
        wait_for_relief(site);
        let next =
            self.queue.next(|class, waiting| !scout.is_busy(site, class, &waiting.ticket.request));
        let Waiting { class, ticket: Parked { request, since_ms, ticket }, .. } = next?;
        let waited_ms = site.now_ms.saturating_sub(since_ms);
        if let Some(counts) = self.counts.get_mut(class) {
            counts.decided_after.note(waited_ms);
        }
        Some(Next::Decide(request, ticket, waited_ms))
    }

    /// Takes out somebody whose due time has come.
    pub fn next_late(&mut self, now_ms: u64) -> Option<Next<T>> {
        let Waiting { class, ticket: Parked { request, since_ms, ticket }, .. } =
            self.queue.take_late(now_ms)?;
        if let Some(counts) = self.counts.get_mut(class) {
            counts.late += 1;
            counts.late_after.note(now_ms.saturating_sub(since_ms));
        }
        overdue(&request, now_ms).map(|error| Next::Late(error, ticket))
    }

    /// Takes out whoever has the next turn, whether or not he may pass: when there is no partition
    /// any more, so that there is nobody to wait for.
    pub fn next_anyway(&mut self) -> Option<(Arc<RouteRequest>, T)> {
        let Waiting { ticket: Parked { request, ticket, .. }, .. } =
            self.queue.next(|_, _| true)?;
        Some((request, ticket))
    }

    /// Takes somebody out who has left. None if his wait was over.
    pub fn take(&mut self, key: QueueKey) -> Option<T> {
        self.queue.take(key).map(|waiting| waiting.ticket.ticket)
    }
}

/// Whether a request's due time has come: then nothing is decided for it any more.
#[must_use]
pub fn overdue(request: &RouteRequest, now_ms: u64) -> Option<RouteError> {
    let late_ms = now_ms.checked_sub(request.admission.due_at_ms?)?;
    Some(RouteError::DeadlineExceeded { partition: request.partition.clone(), late_ms })
}

/// On which terms a request waits of whose prompt so many tokens are cached where most are.
fn terms(request: &RouteRequest, cached_tokens: u64, now_ms: u64) -> Terms {
    let (admission, isl_tokens) = (&request.admission, request.prompt_tokens);
    let cached_tokens = cached_tokens.min(isl_tokens);
    let to_compute = (isl_tokens - cached_tokens).max(1);
    Terms {
        lane: lane(&request.constraints),
        strict_priority: request.strict_priority,
        priority_jump: request.priority_jump,
        due_at_ms: admission.due_at_ms,
        arrived_ms: admission.arrived_at_ms.unwrap_or(now_ms),
        cost_tokens: admission.scheduling_cost_tokens.map_or(to_compute, |cost| cost.get()),
        isl_tokens,
        cached_tokens,
    }
}

/// The lane that a request stands in. Who may go to fewer workers than others is held up by no more
/// than these, and holds up nobody who may go to more.
#[must_use]
pub fn lane(constraints: &Constraints) -> Lane {
    if let Some(target) = constraints.pinned {
        return Lane::Target(target);
    }
    if constraints.exclude_nobody() {
        return Lane::Anybody;
    }
    let Constraints { allowed, tried, adapter, required_taints, .. } = constraints;
    let mut hasher = DefaultHasher::new();
    (allowed, tried, adapter, required_taints).hash(&mut hasher);
    Lane::Narrowed((hasher.finish() % u64::from(NARROWED_LANES)) as u8)
}

/// Has the bell rung when load falls, or whoever waits look again and again where it falls by time.
fn wait_for_relief(site: &Site<'_>) {
    let relief = site.partition.ledger().relief();
    let by_time = site.settings.router_prefill_load_model.is_some();
    relief.set_falls_by_time(by_time || site.partition.forgets_load(site.now_ms));
    relief.wait(site.bell);
}

#[cfg(test)]
mod tests;
