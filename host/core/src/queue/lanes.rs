//! The lanes of one class: one for requests that any worker may have, one for each exact target, and
//! some for those that only certain workers may have.
//!
//! Owns who stands where, and who is at the head of each lane. A request waits only for those
//! before it in its own lane.

use std::collections::BTreeMap;

use super::order::Order;
use super::{Pending, Waiting};
use crate::ids::WorkerTarget;

/// Lanes of a class for requests that only certain workers may have. Each look at a line asks for the
/// head of every lane, and clients say what they want: so there are not as many as there are wishes.
pub const NARROWED_LANES: u8 = 64;

/// Which lane of its class a request stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// That of requests which any worker may have.
    #[default]
    Anybody,
    /// That of an exact target.
    Target(WorkerTarget),
    /// One of those for requests that only certain workers may have, below [`NARROWED_LANES`]. Those of
    /// one wish stand in one lane, and maybe others with them.
    Narrowed(u8),
}

/// The lanes of one class.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    lanes: BTreeMap<Lane, BTreeMap<Order, Waiting<T>>>,
    /// The first of each lane.
    heads: BTreeMap<Order, Lane>,
    pending: Pending,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), heads: BTreeMap::new(), pending: Pending::default() }
    }
}

impl<T> Lanes<T> {
    /// What waits in all of them.
    pub(super) fn pending(&self) -> Pending {
        self.pending
    }

    /// The first of each lane, the first of them first.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Order, Lane, &Waiting<T>)> {
        self.heads
            .iter()
            .filter_map(|(&order, &lane)| Some((order, lane, self.lanes.get(&lane)?.get(&order)?)))
    }

    /// The first of one lane.
    pub(super) fn head(&self, lane: Lane) -> Option<Order> {
        self.lanes.get(&lane)?.first_key_value().map(|(&order, _)| order)
    }

    pub(super) fn insert(&mut self, lane: Lane, order: Order, waiting: Waiting<T>) {
        let terms = &waiting.terms;
        self.pending.requests += 1;
        self.pending.isl_tokens += terms.isl_tokens;
        self.pending.cached_tokens += terms.cached_tokens;
        let seats = self.lanes.entry(lane).or_default();
        let head = seats.first_key_value().map(|(&order, _)| order);
        seats.insert(order, waiting);
        if head.is_none_or(|head| order < head) {
            if let Some(head) = head {
                self.heads.remove(&head);
            }
            self.heads.insert(order, lane);
        }
    }

    pub(super) fn remove(&mut self, lane: Lane, order: Order) -> Option<Waiting<T>> {
        let seats = self.lanes.get_mut(&lane)?;
        let waiting = seats.remove(&order)?;
        let next = seats.first_key_value().map(|(&order, _)| order);
        if next.is_none() {
            self.lanes.remove(&lane);
        }
        if self.heads.remove(&order).is_some()
            && let Some(next) = next
        {
            self.heads.insert(next, lane);
        }
        let (pending, terms) = (&mut self.pending, &waiting.terms);
        pending.requests = pending.requests.saturating_sub(1);
        pending.isl_tokens = pending.isl_tokens.saturating_sub(terms.isl_tokens);
        pending.cached_tokens = pending.cached_tokens.saturating_sub(terms.cached_tokens);
        Some(waiting)
    }

    /// Empties them, lane by lane.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = (u64, Waiting<T>)> {
        let seats = self.lanes.into_values().flatten();
        seats.map(|(order, waiting)| (order.sequence(), waiting))
    }
}
