//! The bindings of a partition, in places that can be walked through in steps.
//!
//! Owns what leads from one state of a binding to another, and the room for them. Whoever holds a
//! place names it with the life that it is of, so that what came late for an earlier one does
//! nothing.

use std::task::Waker;

use hashbrown::HashMap;

use super::binding::{Binding, Place, State, Turn};
use super::{AffinityCounts, AffinityMode, Ask, Bound, Conflict, SessionKey, SessionView};
use crate::ids::WorkerTarget;

/// What a request finds.
#[derive(Debug)]
pub(super) enum Found {
    /// No room for one more.
    Full,
    /// Another leads, and this one needs no binding.
    Busy,
    /// Another leads.
    Wait(Turn),
    /// It leads.
    Leads(Turn),
    /// A binding.
    Bound(Place, Bound),
}

/// All bindings.
#[derive(Debug)]
pub(super) struct Table {
    places: Vec<Option<Binding>>,
    free: Vec<usize>,
    by_key: HashMap<SessionKey, usize>,
    most: usize,
    /// The last number given: to lives, turns and those who wait.
    last: u64,
    /// Where [`Table::expire`] goes on.
    cursor: usize,
    counts: AffinityCounts,
}

impl Table {
    pub(super) fn of(most: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            most,
            last: 0,
            cursor: 0,
            counts: AffinityCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> AffinityCounts {
        self.counts
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[cfg(test)]
    pub(super) fn most(&self) -> usize {
        self.most
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    pub(super) fn enter(
        &mut self,
        key: &SessionKey,
        ask: &Ask<'_>,
        stands: impl Fn(&Bound) -> bool,
    ) -> Result<Found, Conflict> {
        if let Some(at) = self.by_key.get(key).copied() {
            let expired = |binding: &Binding| binding.has_expired(ask.now_ms, ask.terms.ttl_ms);
            if self.binding(at).is_some_and(expired) {
                self.counts.expired += 1;
                self.remove(at);
            } else {
                return self.enter_at(at, ask, stands);
            }
        }
        let number = self.number();
        let life = self.number();
        let binding = Binding::new(key.clone(), life, number);
        let Some(at) = self.insert(binding) else {
            self.counts.full += 1;
            return Ok(Found::Full);
        };
        Ok(Found::Leads(Turn { place: Place { at, life }, number }))
    }

    fn enter_at(
        &mut self,
        at: usize,
        ask: &Ask<'_>,
        stands: impl Fn(&Bound) -> bool,
    ) -> Result<Found, Conflict> {
        let number = self.number();
        let hard = ask.terms.mode == AffinityMode::Hard;
        let counts = &mut self.counts;
        let Some(binding) = self.places.get_mut(at).and_then(Option::as_mut) else {
            return Ok(Found::Busy);
        };
        let place = Place { at, life: binding.life };
        let found = match binding.state {
            State::Initializing { number, .. } => {
                // Whoever has a pin knows where to go, and only a hard binding could object.
                if ask.pinned.is_some() && !hard {
                    return Ok(Found::Busy);
                }
                counts.waited += 1;
                return Ok(Found::Wait(Turn { place, number }));
            }
            State::Bound(bound) if !stands(&bound) => {
                counts.invalidated += 1;
                binding.begin(number);
                Found::Leads(Turn { place, number })
            }
            State::Bound(bound) => {
                let disagrees = |asked: &WorkerTarget| hard && !asked.matches(bound.worker);
                if let Some(asked) = ask.pinned.filter(disagrees) {
                    counts.conflicts += 1;
                    return Err(Conflict { bound, asked });
                }
                counts.hits += 1;
                Found::Bound(place, bound)
            }
        };
        binding.leases = binding.leases.saturating_add(1);
        binding.idle_since = None;
        binding.ending = false;
        Ok(found)
    }

    pub(super) fn peek(&self, key: &SessionKey, ask: &Ask<'_>) -> Option<Bound> {
        let binding = self.binding(*self.by_key.get(key)?)?;
        match binding.state {
            State::Bound(bound) if !binding.has_expired(ask.now_ms, ask.terms.ttl_ms) => {
                Some(bound)
            }
            _ => None,
        }
    }

    /// Returns those who waited.
    pub(super) fn started(
        &mut self,
        place: Place,
        leads: Option<Turn>,
        follows: bool,
        to: Bound,
    ) -> Vec<Waker> {
        let counts = &mut self.counts;
        let Some(binding) = held(&mut self.places, place) else { return Vec::new() };
        match binding.state {
            State::Initializing { again, .. }
                if leads.is_some_and(|turn| binding.is_turn(turn)) =>
            {
                *(if again { &mut counts.rebound } else { &mut counts.bound }) += 1;
                let waiters = binding.take_waiters();
                binding.state = State::Bound(to);
                waiters
            }
            State::Bound(before) if follows && before != to => {
                counts.rebound += 1;
                binding.state = State::Bound(to);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The worker that a session was bound to is lost. Returns the turn to find another; none if
    /// the binding is another already.
    pub(super) fn lost(&mut self, place: Place, bound: Bound) -> Option<Turn> {
        let number = self.number();
        let binding = held(&mut self.places, place)?;
        if !matches!(binding.state, State::Bound(now) if now == bound) {
            return None;
        }
        self.counts.invalidated += 1;
        binding.begin(number);
        Some(Turn { place, number })
    }

    /// Gives a lease back. Returns those who waited for it.
    pub(super) fn leave(&mut self, place: Place, leads: Option<Turn>, ends: bool) -> Vec<Waker> {
        let Some(binding) = held(&mut self.places, place) else { return Vec::new() };
        binding.leases = binding.leases.saturating_sub(1);
        binding.ending |= ends;
        if leads.is_some_and(|turn| binding.is_turn(turn)) {
            self.counts.given_up += 1;
        } else if binding.leases == 0 && binding.ending {
            self.counts.ended += 1;
        } else {
            return Vec::new();
        }
        self.remove(place.at)
    }

    /// Waits for a turn to be over: keeps the waker, and returns the ticket that it is under. None
    /// when it is over.
    pub(super) fn wait(&mut self, turn: Turn, ticket: Option<u64>, waker: &Waker) -> Option<u64> {
        let fresh = self.number();
        let binding = held(&mut self.places, turn.place).filter(|b| b.is_turn(turn))?;
        let State::Initializing { waiters, .. } = &mut binding.state else { return None };
        if let Some((known, kept)) = waiters.iter_mut().find(|(known, _)| Some(*known) == ticket) {
            kept.clone_from(waker);
            return Some(*known);
        }
        waiters.push((fresh, waker.clone()));
        Some(fresh)
    }

    /// Takes a waker back.
    pub(super) fn stop_waiting(&mut self, turn: Turn, ticket: u64) -> Option<Waker> {
        let binding = held(&mut self.places, turn.place).filter(|b| b.is_turn(turn))?;
        let State::Initializing { waiters, .. } = &mut binding.state else { return None };
        let at = waiters.iter().position(|(known, _)| *known == ticket)?;
        Some(waiters.swap_remove(at).1)
    }

    pub(super) fn expire(
        &mut self,
        now_ms: u64,
        ttl_ms: Option<u64>,
        places: usize,
        stands: impl Fn(&Bound) -> bool,
    ) -> bool {
        let first = self.cursor;
        let after = first.saturating_add(places).min(self.places.len());
        for at in first..after {
            let Some(binding) = self.places.get_mut(at).and_then(Option::as_mut) else { continue };
            if binding.leases > 0 {
                continue;
            }
            if !matches!(&binding.state, State::Bound(bound) if stands(bound)) {
                self.counts.invalidated += 1;
            } else if ttl_ms.is_none_or(|ttl_ms| binding.has_expired(now_ms, ttl_ms)) {
                self.counts.expired += 1;
            } else {
                binding.idle_since.get_or_insert(now_ms);
                continue;
            }
            // Nobody waits where nobody leads.
            self.remove(at);
        }
        let more = after < self.places.len();
        self.cursor = if more { after } else { 0 };
        more
    }

    /// Ends both bindings that an id stands for. Returns who waited for each.
    pub(super) fn end(&mut self, id: &str) -> Vec<Vec<Waker>> {
        let keys = [SessionKey::Session(id.into()), SessionKey::SubagentsOf(id.into())];
        let places = keys.iter().filter_map(|key| self.by_key.get(key).copied());
        let places: Vec<usize> = places.collect();
        self.counts.ended += places.len() as u64;
        places.into_iter().map(|at| self.remove(at)).collect()
    }

    pub(super) fn list(
        &self,
        from: usize,
        most: usize,
        now_ms: u64,
    ) -> (Vec<SessionView>, Option<usize>) {
        let rest = self.places.iter().enumerate().skip(from);
        let mut rest = rest.filter_map(|(at, place)| Some((at, place.as_ref()?)));
        let views = rest.by_ref().take(most).map(|(_, binding)| binding.view(now_ms));
        let views = views.collect();
        (views, rest.next().map(|(at, _)| at))
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn binding(&self, at: usize) -> Option<&Binding> {
        self.places.get(at)?.as_ref()
    }

    /// None when there is no room.
    fn insert(&mut self, binding: Binding) -> Option<usize> {
        if self.by_key.len() >= self.most {
            return None;
        }
        let key = binding.key.clone();
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        *self.places.get_mut(at)? = Some(binding);
        self.by_key.insert(key, at);
        Some(at)
    }

    /// Returns those who waited.
    fn remove(&mut self, at: usize) -> Vec<Waker> {
        let Some(mut binding) = self.places.get_mut(at).and_then(Option::take) else {
            return Vec::new();
        };
        self.by_key.remove(&binding.key);
        self.free.push(at);
        if self.by_key.is_empty() {
            // Sessions come from clients: what many of them took isn't kept for none.
            (self.places, self.free, self.cursor) = (Vec::new(), Vec::new(), 0);
            self.by_key.shrink_to(0);
        }
        binding.take_waiters()
    }
}

/// The binding of a place, if it is the one that is meant.
fn held(places: &mut [Option<Binding>], place: Place) -> Option<&mut Binding> {
    places.get_mut(place.at)?.as_mut().filter(|binding| binding.life == place.life)
}
