//! How a memory changes to forgetting by something else.
//!
//! Owns what that means for the nodes that are there. The memory has turned at once; its nodes follow
//! when they are next met, or when they have their turn, so many blocks at a time: a memory may hold a
//! million. It doesn't know who wants the change.

use super::{Idle, Memory, Node, NodeId, Way, Written, idle};

/// A memory's turns.
#[derive(Debug, Default)]
pub(super) struct Turning {
    /// How many there were.
    turns: u16,
    /// The last one to forgetting by time, and when all ends that was there.
    to_time: Option<(u16, u64)>,
    /// The node that is next; none when all know.
    next: Option<NodeId>,
    /// What was to be evicted in order, before turns to forgetting by time.
    faded: Vec<Idle>,
}

impl Turning {
    /// The last turn.
    pub(super) fn now(&self) -> u16 {
        self.turns
    }

    /// Whether some nodes may not know of it yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.next.is_some()
    }

    /// Whether nothing is left to be done about it.
    fn is_over(&self) -> bool {
        self.next.is_none() && self.faded.is_empty()
    }

    /// How much is left to be given up.
    pub(super) fn faded(&self) -> usize {
        self.faded.iter().map(Idle::len).sum()
    }

    /// Lets a node know of the last turn, unless it does.
    pub(super) fn catch_up(&self, node: &mut Node) {
        if node.turn == self.turns {
            return;
        }
        if let Some((turn, end)) = self.to_time
            && node.turn < turn
        {
            node.mark = end;
        }
        // Whoever had it open was of an earlier life.
        (node.open, node.watched, node.turn) = (0, false, self.turns);
    }
}

impl Memory {
    /// Whether its last turn leaves something to be done, with [`Memory::turn_some`].
    pub(in crate::index::prediction) fn is_turning(&self) -> bool {
        !self.turning.is_over()
    }

    /// From now on it forgets by time, and all that it holds ends with `end`.
    pub(in crate::index::prediction) fn by_time(&mut self, life: u64, end: u64) {
        self.turn(life, Way::Time);
        self.turning.to_time = Some((self.turning.turns, end));
        self.latest = self.latest.max(end);
        self.turning.faded.push(std::mem::take(&mut self.idle));
    }

    /// From now on it forgets by capacity: what would have ended first goes first.
    pub(in crate::index::prediction) fn by_capacity(&mut self, life: u64) {
        self.turn(life, Way::Capacity);
        self.releases = self.releases.max(self.latest);
    }

    fn turn(&mut self, life: u64, way: Way) {
        if self.turning.turns == u16::MAX {
            self.begin_counting_anew();
        }
        (self.life, self.way) = (life, way);
        self.turning.turns += 1;
        self.turning.next = Some(0);
    }

    /// Lets some nodes know of the last turn, of about `most` blocks, and adds to `last` those whose end
    /// is to be written down. Returns how many blocks it has looked at, and whether there are more.
    pub(in crate::index::prediction) fn turn_some(
        &mut self,
        most: usize,
        last: &mut Vec<Written>,
    ) -> (usize, bool) {
        let mut looked = 0;
        while let Some(id) = self.turning.next.filter(|_| looked < most) {
            let is_there = (id as usize) < self.nodes.numbers();
            looked += self.turn_node(id, last).max(1);
            self.turning.next = is_there.then_some(id + 1);
        }
        while let Some(faded) = self.turning.faded.last_mut().filter(|_| looked < most) {
            if faded.pop_first().is_none() {
                self.turning.faded.pop();
            }
            looked += 1;
        }
        (looked, self.is_turning())
    }

    fn turn_node(&mut self, id: NodeId, last: &mut Vec<Written>) -> usize {
        let way = self.way;
        let Some(node) = self.node(id).filter(|node| node.len() > 0) else { return 0 };
        let (len, mark) = (node.len(), node.mark);
        match way {
            Way::Time if node.is_bare() && !node.watched => {
                node.watched = true;
                last.extend(self.nodes.keep(id).map(|node| (node, mark)));
            }
            Way::Capacity if node.is_bare() => {
                let idle = idle(id, node);
                self.idle.insert(idle);
            }
            _ => {}
        }
        len
    }

    /// After so many turns that they can't be counted any further, all nodes know of the last.
    fn begin_counting_anew(&mut self) {
        for id in 0..self.nodes.numbers() as NodeId {
            self.node(id).into_iter().for_each(|node| node.turn = 0);
        }
        (self.turning.turns, self.turning.to_time) = (0, None);
    }
}
