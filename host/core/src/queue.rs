//! Requests that wait for a decision: by policy class, each class in its order, the classes by turns.
//!
//! Owns who waits, who is next, and how much waits; the [`Profile`] says which classes there are. It
//! is told the time and asks its caller whether somebody at the head may pass. It doesn't know
//! workers, load or what a ticket is good for.
//!
//! # Who is next
//!
//! Only the heads of lanes can pass: a class has one lane for requests that any worker may have, one
//! for each exact target, and some for those that only certain workers may have. Of the heads that may pass now, those of the highest strict priority
//! are served first, **whatever their classes**: strict priority never waits behind lower. Among
//! classes whose heads are equal in that, turns go round by deficit: each gets its quantum of prompt
//! tokens a round, and is charged what its requests have to compute. Within a class the order is
//! strict priority, due time, the class's score, arrival.
//!
//! A head that may not pass holds up its lane, lower priorities in it included, and nobody else.

mod class;
mod lanes;
mod order;
mod profile;
mod rounds;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::Serialize;
use smallvec::SmallVec;

use lanes::Lanes;
use order::Order;
use rounds::{Contender, Rounds};

pub use class::{ClassSpec, LimitKind, QueuePolicy, QueueRejected};
pub use lanes::{Lane, NARROWED_LANES};
pub use profile::{
    Bucket, DEFAULT_CLASS, MOST_CLASSES, Profile, ProfilePlace, ProfileProblem, ProfileSpec,
    QueueSettings, is_class_name,
};

/// The most requests that may wait in one queue, whatever its classes allow.
pub const MOST_WAITING: usize = 65_536;

/// The most tokens that one request counts for: far above any prompt, and low enough that all who
/// may wait add up without overflow.
pub const MOST_TOKENS: u64 = 1 << 40;

/// Names one stay in a queue. No two stays in one queue have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(u64);

/// On which terms a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The lane that it stands in: it waits for no worker that only those of others may have.
    pub lane: Lane,
    /// Higher goes first, whatever else.
    pub strict_priority: u32,
    /// Seconds that it may jump ahead; what isn't above 0 is 0.
    pub priority_jump: f64,
    /// When it has to be decided, in milliseconds on the router's clock; none is any time.
    pub due_at_ms: Option<u64>,
    /// When it came, in milliseconds on the router's clock.
    pub arrived_ms: u64,
    /// What serving it costs its class: prompt tokens to compute, at least 1.
    pub cost_tokens: u64,
    /// Its prompt, in tokens.
    pub isl_tokens: u64,
    /// Those of them that the best of its workers has cached.
    pub cached_tokens: u64,
}

impl Terms {
    fn bounded(self) -> Self {
        Self {
            cost_tokens: self.cost_tokens.clamp(1, MOST_TOKENS),
            isl_tokens: self.isl_tokens.min(MOST_TOKENS),
            cached_tokens: self.cached_tokens.min(MOST_TOKENS),
            ..self
        }
    }
}

/// Somebody who waits, or did.
#[derive(Debug)]
pub struct Waiting<T> {
    /// The place of the class in the profile.
    pub class: usize,
    /// On which terms.
    pub terms: Terms,
    /// The caller's.
    pub ticket: T,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// Requests.
    pub requests: u64,
    /// Their prompts' tokens.
    pub isl_tokens: u64,
    /// Those of them that some worker had cached when they came.
    pub cached_tokens: u64,
}

impl Pending {
    fn of(&self, kind: LimitKind) -> u64 {
        match kind {
            LimitKind::RawIslTokens => self.isl_tokens,
            LimitKind::CachedTokens => self.cached_tokens,
            LimitKind::Requests | LimitKind::Partition => self.requests,
        }
    }
}

/// Where somebody stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    class: usize,
    lane: Lane,
    order: Order,
}

/// Somebody at the head of a lane, who may pass.
#[derive(Clone, Copy, Debug)]
struct Ready {
    place: Place,
    cost: u64,
}

/// The queue of one partition.
#[derive(Debug)]
pub struct Queue<T> {
    profile: Arc<Profile>,
    /// By the profile's order.
    classes: Vec<Lanes<T>>,
    rounds: Rounds,
    places: HashMap<u64, Place>,
    /// By due time.
    due: BTreeSet<(u64, u64)>,
    next_sequence: u64,
}

impl<T> Queue<T> {
    /// Nobody waits.
    #[must_use]
    pub fn new(profile: Arc<Profile>) -> Self {
        let classes: Vec<_> = profile.classes().iter().map(|_| Lanes::default()).collect();
        Self {
            rounds: Rounds::new(classes.len()),
            profile,
            classes,
            places: HashMap::new(),
            due: BTreeSet::new(),
            next_sequence: 0,
        }
    }

    /// The classes.
    #[must_use]
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What waits in each class.
    pub fn pending(&self) -> impl Iterator<Item = (&Arc<str>, Pending)> {
        let classes = self.profile.classes().iter().zip(&self.classes);
        classes.map(|(spec, lanes)| (&spec.name, lanes.pending()))
    }

    /// Whether somebody who comes on these terms would be the first of a lane.
    #[must_use]
    pub fn leads(&self, class: usize, terms: &Terms) -> bool {
        let (Some(lanes), Some(spec)) = (self.classes.get(class), self.profile.class(class)) else {
            return true;
        };
        let order = Order::new(spec.queue_policy, &terms.bounded(), self.next_sequence);
        lanes.head(terms.lane).is_none_or(|head| order < head)
    }

    /// Why nobody else may wait in a class of a partition with so many workers; none if one may. Who
    /// crosses a limit is taken, the next one isn't.
    #[must_use]
    pub fn refuses(&self, class: usize, workers: u64) -> Option<QueueRejected> {
        let spec = self.profile.class(class)?;
        let pending = self.classes.get(class)?.pending();
        let reject = |limit_kind, current, limit| QueueRejected {
            policy_class: spec.name.clone(),
            limit_kind,
            current,
            limit,
        };
        for (kind, per_worker) in spec.limits() {
            let Some(limit) = per_worker.map(|limit| limit.saturating_mul(workers)) else {
                continue;
            };
            let current = pending.of(kind);
            if current >= limit {
                return Some(reject(kind, current, limit));
            }
        }
        let (current, limit) = (self.len(), MOST_WAITING);
        (current >= limit).then(|| reject(LimitKind::Partition, current as u64, limit as u64))
    }

    /// Takes somebody up in a class, unless as much waits there as may. The ticket is made only if
    /// somebody waits.
    ///
    /// # Errors
    ///
    /// See [`Queue::refuses`].
    pub fn join(
        &mut self,
        class: usize,
        terms: Terms,
        workers: u64,
        ticket: impl FnOnce() -> T,
    ) -> Result<QueueKey, QueueRejected> {
        if let Some(rejected) = self.refuses(class, workers) {
            return Err(rejected);
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let (terms, ticket) = (terms.bounded(), ticket());
        self.seat(sequence, Waiting { class, terms, ticket });
        Ok(QueueKey(sequence))
    }

    /// Takes somebody out, wherever he stands. None if he isn't there any more.
    pub fn take(&mut self, key: QueueKey) -> Option<Waiting<T>> {
        let place = self.places.get(&key.0).copied()?;
        self.leave(place)
    }

    /// Takes out somebody whose due time has come; call it until there is none.
    pub fn take_late(&mut self, now_ms: u64) -> Option<Waiting<T>> {
        let &(due_at_ms, sequence) = self.due.first()?;
        if due_at_ms > now_ms {
            return None;
        }
        self.take(QueueKey(sequence))
    }

    /// Takes out whoever is next among those who `may_pass`, which is asked of heads of lanes only.
    /// None if none of them may.
    pub fn next(
        &mut self,
        mut may_pass: impl FnMut(&ClassSpec, &Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        // Mostly, there are few classes.
        let mut ready: SmallVec<[Ready; 8]> = SmallVec::new();
        let mut highest = 0;
        for (class, (spec, lanes)) in self.profile.classes().iter().zip(&self.classes).enumerate() {
            // Whoever is of a lower priority than somebody who may pass needn't be looked at.
            let mut heads = lanes.heads().take_while(|head| head.0.strict_priority() >= highest);
            if let Some((order, lane, waiting)) = heads.find(|head| may_pass(spec, head.2)) {
                highest = order.strict_priority();
                let place = Place { class, lane, order };
                ready.push(Ready { place, cost: waiting.terms.cost_tokens });
            }
        }
        ready.retain(|ready| ready.place.order.strict_priority() == highest);
        let contender = |ready: &Ready| {
            let spec = self.profile.class(ready.place.class)?;
            Some(Contender { class: ready.place.class, cost: ready.cost, quantum: spec.quantum })
        };
        let contenders: SmallVec<[Contender; 8]> = ready.iter().filter_map(contender).collect();
        let class = self.rounds.serve(&contenders)?;
        let place = ready.iter().find(|ready| ready.place.class == class)?.place;
        self.leave(place)
    }

    /// Goes on with other classes. Whoever waits stays, in the class that `choose` says, and keeps
    /// the time of arrival; limits are for those who come. Keys stay good.
    pub fn reclass(
        &mut self,
        profile: Arc<Profile>,
        mut choose: impl FnMut(&Profile, &Waiting<T>) -> usize,
    ) {
        let next = Self { next_sequence: self.next_sequence, ..Self::new(profile) };
        let before = std::mem::replace(self, next);
        for lanes in before.classes {
            for (sequence, waiting) in lanes.into_waiting() {
                let class = choose(&self.profile, &waiting);
                self.seat(sequence, Waiting { class, ..waiting });
            }
        }
    }

    fn seat(&mut self, sequence: u64, mut waiting: Waiting<T>) {
        // A profile has a class at least.
        let class = waiting.class.min(self.classes.len().saturating_sub(1));
        waiting.class = class;
        let (Some(lanes), Some(spec)) = (self.classes.get_mut(class), self.profile.class(class))
        else {
            return;
        };
        let order = Order::new(spec.queue_policy, &waiting.terms, sequence);
        let lane = waiting.terms.lane;
        self.places.insert(sequence, Place { class, lane, order });
        self.due.extend(waiting.terms.due_at_ms.map(|due| (due, sequence)));
        lanes.insert(lane, order, waiting);
    }

    fn leave(&mut self, place: Place) -> Option<Waiting<T>> {
        let lanes = self.classes.get_mut(place.class)?;
        let waiting = lanes.remove(place.lane, place.order)?;
        if lanes.pending().requests == 0 {
            self.rounds.emptied(place.class);
        }
        let sequence = place.order.sequence();
        self.places.remove(&sequence);
        if let Some(due) = waiting.terms.due_at_ms {
            self.due.remove(&(due, sequence));
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests;
