//! How a change is applied in steps, between which others have their turn.
//!
//! Owns where a change stands. An event may name a million blocks, or one that a million wait for:
//! a step is about a thousand, whatever the event. All steps together do what one would have done
//! that does all. It doesn't know who waits meanwhile, or who else changes the index.

use super::State;
use crate::ids::WorkerRank;
use crate::index::event::{Applied, CacheEvent, Stored};
use crate::index::holders::Slot;
use crate::index::life::Life;
use crate::index::tier::Tier;
use crate::index::tree::{Alias, Place};

/// Blocks of one step, about.
const STEP: usize = 1_024;

/// Tokens and media of one step, about: they are hashed.
const STEP_CONTENT: usize = 1 << 16;

/// How often a full index is swept for the sake of one change: as many steps more, at most.
pub(in crate::index) const MOST_SWEEPS: usize = 64;

/// A change that is being applied.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    rank: WorkerRank,
    left: Left<'a>,
    applied: Applied,
    /// Blocks of a step.
    step: usize,
    /// How often it may still be swept for room.
    sweeps: usize,
    /// What a clear has ended: given up after the lock.
    ended: Option<Life>,
}

/// What is still to be done.
#[derive(Debug)]
enum Left<'a> {
    /// All of it.
    All(CacheEvent<'a>),
    /// Blocks are to be stored behind one that was stored with the step before.
    Store {
        stored: Stored<'a>,
        behind: Alias,
        /// All that the event names.
        engines: &'a [u64],
    },
    /// All are stored; what has waited for them is to be.
    Link(Linking<'a>),
    /// Blocks are to be removed.
    Remove { engines: &'a [u64], tier: Tier },
    /// Nothing.
    Nothing,
}

/// Blocks that are known since.
#[derive(Debug)]
struct Linking<'a> {
    /// The event's: the last comes first.
    engines: &'a [u64],
    /// Those that have waited for them, before the others.
    linked: Vec<u64>,
    /// The one that is looked at.
    parent: Option<u64>,
}

/// What the next step is about.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// Blocks are stored, which the engine calls so.
    Stored(&'a [u64]),
    /// Blocks are removed.
    Removed(&'a [u64]),
    /// Something else, or nothing.
    Else,
}

impl<'a> Change<'a> {
    pub(crate) fn new(rank: WorkerRank, event: CacheEvent<'a>) -> Self {
        Self {
            rank,
            left: Left::All(event),
            applied: Applied::default(),
            step: STEP,
            sweeps: MOST_SWEEPS,
            ended: None,
        }
    }

    /// In steps of another size.
    #[cfg(test)]
    pub(in crate::index) fn in_steps_of(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// What the next step is about.
    pub(super) fn next(&self) -> Next<'a> {
        let first = |engines: &'a [u64]| engines.get(..self.step).unwrap_or(engines);
        match self.left {
            Left::All(CacheEvent::Stored(stored)) | Left::Store { stored, .. } => {
                Next::Stored(first(stored.engines))
            }
            Left::All(CacheEvent::Removed { engines, .. }) | Left::Remove { engines, .. } => {
                Next::Removed(first(engines))
            }
            Left::All(CacheEvent::Cleared) | Left::Link(_) | Left::Nothing => Next::Else,
        }
    }

    /// Blocks that the next step may add.
    fn wants(&self) -> usize {
        match (self.next(), &self.left) {
            (Next::Stored(engines), _) => engines.len(),
            (_, Left::Link(_)) => self.step.min(STEP),
            _ => 0,
        }
    }

    /// What it has done.
    pub(crate) fn applied(&self) -> Applied {
        self.applied
    }

    /// Leaves the rest: the rank is no longer the one that it was of.
    pub(crate) fn give_up(&mut self) {
        self.applied.strange += match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::All(event) => event.blocks(),
            Left::Store { stored, .. } => stored.engines.len(),
            Left::Remove { engines, .. } => engines.len(),
            Left::Link(_) | Left::Nothing => 0,
        };
    }
}

impl State {
    /// Applies a step of a change. Returns whether there is more to do.
    pub(in crate::index) fn step(&mut self, change: &mut Change<'_>) -> bool {
        // What was cleared is known until it is swept: it isn't what an index is full of.
        if change.sweeps > 0 && self.tree.room() < change.wants() && self.is_untidy() {
            change.sweeps -= 1;
            self.sweep_for_room();
            return true;
        }
        // What is removed, and as much that is known only for its sake.
        self.tree.allow_to_free(change.step.saturating_mul(2));
        let more = self.step_on(change);
        if let Some(others) = self.others.take() {
            self.ranks.note_extras(change.rank, others);
        }
        more
    }

    fn step_on(&mut self, change: &mut Change<'_>) -> bool {
        change.left = match std::mem::replace(&mut change.left, Left::Nothing) {
            Left::All(CacheEvent::Stored(stored)) => self.begin_store(change, stored),
            Left::All(CacheEvent::Removed { engines, tier }) | Left::Remove { engines, tier } => {
                self.remove_some(change, engines, tier)
            }
            Left::All(CacheEvent::Cleared) => {
                change.ended = self.ranks.begin_anew(change.rank);
                change.applied.removed += change.ended.as_ref().map_or(0, Life::held);
                Left::Nothing
            }
            Left::Store { stored, behind, engines } => self.go_on(change, stored, behind, engines),
            Left::Link(linking) => self.link_some(change, linking),
            Left::Nothing => Left::Nothing,
        };
        !matches!(change.left, Left::Nothing)
    }

    fn begin_store<'a>(&mut self, change: &mut Change<'a>, stored: Stored<'a>) -> Left<'a> {
        let slot = self.ranks.slot_for(change.rank);
        if !stored.content.is_of(stored.engines.len()) {
            change.applied.malformed += stored.engines.len();
            return Left::Nothing;
        }
        if stored.engines.is_empty() {
            return Left::Nothing;
        }
        let parent = match stored.parent.map(|parent| (parent, self.find_parent(slot, parent))) {
            None => None,
            Some((_, Some(place))) => Some(place),
            Some((parent, None)) => {
                let most = self.extras_left(slot);
                if let Some(life) = self.ranks.life_mut(slot) {
                    change.applied.orphans_dropped += life.orphans.keep(parent, &stored, most);
                    change.applied.orphaned += stored.engines.len();
                }
                return Left::Nothing;
            }
        };
        self.store_some(change, slot, parent, stored, stored.engines)
    }

    /// Goes on behind the block that was stored last.
    fn go_on<'a>(
        &mut self,
        change: &mut Change<'a>,
        stored: Stored<'a>,
        behind: Alias,
        engines: &'a [u64],
    ) -> Left<'a> {
        let slot = self.ranks.slot(change.rank);
        let place = slot.and_then(|slot| {
            behind.resolve(&self.tree).filter(|&place| self.tree.holds_in(slot, stored.tier, place))
        });
        match (slot, place) {
            (Some(slot), Some(place)) => {
                self.store_some(change, slot, Some(place), stored, engines)
            }
            _ => {
                // The rank was cleared meanwhile, and all of this with it.
                change.applied.strange += stored.engines.len();
                Left::Nothing
            }
        }
    }

    fn store_some<'a>(
        &mut self,
        change: &mut Change<'a>,
        slot: Slot,
        parent: Option<Place>,
        stored: Stored<'a>,
        engines: &'a [u64],
    ) -> Left<'a> {
        let count = stored.leading(change.step, STEP_CONTENT);
        let (some, rest) = stored.split(count);
        let behind = self.place(slot, parent, &some, &mut change.applied);
        if !rest.engines.is_empty() {
            match behind {
                Some(behind) => {
                    return Left::Store { stored: rest, behind, engines };
                }
                None => change.applied.refused += rest.engines.len(),
            }
        }
        match self.ranks.life(slot) {
            Some(life) if !life.orphans.is_empty() => {
                let linking = Linking { engines, linked: Vec::new(), parent: None };
                // With a short event, nobody has to wait for a second step.
                if engines.len() < count.saturating_mul(2) {
                    return self.link_some(change, linking);
                }
                Left::Link(linking)
            }
            _ => Left::Nothing,
        }
    }

    /// Places what has waited for these blocks, then what has waited for that.
    fn link_some<'a>(&mut self, change: &mut Change<'a>, mut linking: Linking<'a>) -> Left<'a> {
        let Some(slot) = self.ranks.slot(change.rank) else { return Left::Nothing };
        let mut done = 0;
        while done < change.step {
            done += 1;
            let Linking { engines, linked, parent } = &mut linking;
            let next = parent.take().or_else(|| linked.pop()).or_else(|| {
                let (&last, before) = engines.split_last()?;
                *engines = before;
                Some(last)
            });
            let Some(engine) = next else { return Left::Nothing };
            let Some(life) = self.ranks.life(slot).filter(|life| !life.orphans.is_empty()) else {
                return Left::Nothing;
            };
            if !life.orphans.are_behind(engine) {
                continue;
            }
            let Some(place) = self.find(slot, engine) else { continue };
            self.extras_left(slot);
            let Some(life) = self.ranks.life_mut(slot) else { return Left::Nothing };
            let Some(orphan) = life.orphans.next_behind(engine) else { continue };
            *parent = Some(engine);
            done += orphan.engines.len();
            let stored = Stored {
                parent: Some(engine),
                engines: &orphan.engines,
                content: orphan.content.borrow(),
                tier: orphan.tier,
            };
            let mut placed = Applied::default();
            self.place(slot, Some(place), &stored, &mut placed);
            let mut gone = Applied::default();
            self.remove(slot, &orphan.gone, orphan.tier, &mut gone);
            change.applied.linked += (placed.stored + placed.stored_again)
                .saturating_sub(gone.removed + gone.copies_removed);
            change.applied.refused += placed.refused;
            linking.linked.extend(&orphan.engines);
        }
        Left::Link(linking)
    }

    fn remove_some<'a>(
        &mut self,
        change: &mut Change<'a>,
        engines: &'a [u64],
        tier: Tier,
    ) -> Left<'a> {
        let Some(slot) = self.ranks.slot(change.rank) else {
            change.applied.unknown += engines.len();
            return Left::Nothing;
        };
        let (some, rest) = engines.split_at(engines.len().min(change.step));
        self.remove(slot, some, tier, &mut change.applied);
        if rest.is_empty() { Left::Nothing } else { Left::Remove { engines: rest, tier } }
    }
}
