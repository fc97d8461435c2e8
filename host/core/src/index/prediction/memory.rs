//! One rank's memory as it is imagined.
//!
//! Owns its blocks as a tree. A node is a stretch of blocks in which no prompt forks or ends, so that
//! whatever is to be said is said of its last block: a block by itself costs its hash alone, and a
//! prompt of thousands costs some dozens of nodes. Nodes are found by the hash of their first block;
//! prompts are known by the node that they end with, whether they are open or have ended. Where
//! the index has a node's blocks is kept with it, so that they are let go by place.
//!
//! A block never goes before those behind it, since every prompt that has them has it too: what is
//! said of it is of the prompts that end with it, and what was said of those behind it is handed on
//! to it when they go. Nodes are cut where a prompt leaves one, and never joined: an end that means
//! nothing any more goes with what is behind it.
//!
//! Hashes that are no prompt's (one twice, one behind two others) are blocks of their own wherever they
//! are: they go as others do, though what comes with them later may not find them. How a prompt is
//! followed is in `walk`, how a memory changes to forgetting by something else in `turn`.

mod nodes;
mod turn;
mod walk;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::index::table::Table;
use crate::index::tree::{Reference, Stretch};
pub(super) use nodes::NodeRef;
use nodes::{NO_NODE, Node, NodeId, Nodes};
use turn::Turning;
pub(super) use walk::Known;

/// Nodes whose first blocks are in one part of their table.
const HEADS: usize = 100;

/// By what a memory forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Time,
    Capacity,
}

/// Bare nodes by the order in which their last blocks are evicted.
type Idle = BTreeSet<(u64, Reverse<u32>, u64, NodeId)>;

fn idle(id: NodeId, node: &Node) -> (u64, Reverse<u32>, u64, NodeId) {
    let last = node.blocks.last().copied().unwrap_or_default();
    (node.mark, Reverse(node.end() as u32), last, id)
}

/// Blocks that are held no longer.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Where the index has them, the last ones first.
    pub(super) stretches: Vec<Stretch>,
    /// How many.
    pub(super) blocks: usize,
}

/// Why no more goes of blocks that are looked at from the last on.
enum Stop {
    /// The rest stays, and whoever lets it go will know.
    Rest,
    /// By time: this one stays until then, and that is to be written down.
    Until(NodeId, u64),
    /// Enough have gone; this one may be the next.
    Enough(NodeId),
}

/// A node whose end is to be written down, and when that is.
pub(super) type Written = (NodeRef, u64);

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Which life of the rank's predictions. What is written down of another means nothing here.
    pub(super) life: u64,
    pub(super) way: Way,
    nodes: Nodes,
    /// Nodes by the hash of their first block.
    heads: Table<u64, NodeId, HEADS>,
    /// Blocks in all nodes.
    blocks: usize,
    /// By capacity, bare nodes: those released first, and of them the deepest, at the front.
    idle: Idle,
    /// Counts releases.
    releases: u64,
    /// The largest mark of any node.
    latest: u64,
    turning: Turning,
}

impl Memory {
    pub(super) fn new(life: u64, way: Way) -> Self {
        Self {
            life,
            way,
            nodes: Nodes::default(),
            heads: Table::default(),
            blocks: 0,
            idle: Idle::new(),
            releases: 0,
            latest: 0,
            turning: Turning::default(),
        }
    }

    /// Blocks that it holds.
    pub(super) fn len(&self) -> usize {
        self.blocks
    }

    /// Where the index has the last block of a prompt that is known so far.
    pub(super) fn place(&self, known: Known) -> Option<Reference> {
        let node = self.nodes.get(known.last?.id)?;
        Some(node.first.onward(node.len().saturating_sub(1)))
    }

    /// Takes in blocks of a prompt behind those that are known, of one stretch of the index.
    pub(super) fn add(&mut self, known: Known, blocks: &[u64], first: Reference) -> Known {
        let parent = known.last.map_or(NO_NODE, |last| last.id);
        let mut node = Node::new(blocks, first, parent, known.blocks as u32);
        node.turn = self.turning.now();
        let id = self.nodes.add(node);
        self.nodes.get_mut(parent).into_iter().for_each(|parent| parent.children += 1);
        // Another's stays that, where the hashes are no prompt's.
        blocks.first().into_iter().for_each(|&head| {
            self.heads.entry(head, id);
        });
        self.blocks += blocks.len();
        Known { blocks: known.blocks + blocks.len(), last: self.nodes.keep(id) }
    }

    /// A node as it is since the last turn.
    fn node(&mut self, id: NodeId) -> Option<&mut Node> {
        let node = self.nodes.get_mut(id)?;
        self.turning.catch_up(node);
        Some(node)
    }

    fn kept(&mut self, node: NodeRef) -> Option<&mut Node> {
        let id = self.nodes.kept(node)?;
        self.node(id)
    }

    /// Takes the last `count` blocks of a bare node out, and the node if none is left: what it says is
    /// handed on to the one before, which is returned, or else stays with it.
    fn take(&mut self, id: NodeId, count: usize, gone: &mut Gone) -> NodeId {
        let Some(node) = self.node(id) else { return NO_NODE };
        let left = node.len().saturating_sub(count);
        let stretch = Stretch { first: node.first.onward(left), len: node.len() - left };
        if left > 0 {
            node.shorten(left);
        }
        gone.stretches.push(stretch);
        gone.blocks += stretch.len;
        self.blocks -= stretch.len;
        if left > 0 {
            return id;
        }
        let Some(removed) = self.nodes.remove(id) else { return NO_NODE };
        let head = removed.blocks.first();
        if let Some(head) = head.filter(|head| self.heads.get(head) == Some(&id)) {
            self.heads.remove(head);
        }
        if let Some(parent) = self.node(removed.parent) {
            parent.children = parent.children.saturating_sub(1);
            parent.mark = parent.mark.max(removed.mark);
        }
        removed.parent
    }

    /// An open prompt was known up to `before`, and now is up to `after`: that stays.
    pub(super) fn open(&mut self, before: Known, after: Known) {
        if after.blocks <= before.blocks {
            return;
        }
        let way = self.way;
        if let Some((last, node)) = after.last.and_then(|last| Some((last, self.kept(last)?))) {
            let (was_bare, idle) = (node.is_bare(), idle(last.id, node));
            node.open = node.open.saturating_add(1);
            if was_bare && way == Way::Capacity {
                self.idle.remove(&idle);
            }
        }
        // The other one is behind it.
        if let Some(node) = before.last.and_then(|last| self.kept(last)) {
            node.open = node.open.saturating_sub(1);
        }
    }

    /// An open prompt that ends with this node was taken: its blocks get this mark. What has ended by
    /// `step` goes, if it forgets by time. Returns what is to be written down.
    pub(super) fn taken(
        &mut self,
        last: NodeRef,
        mark: u64,
        (step, most): (u64, usize),
        gone: &mut Gone,
    ) -> Option<Written> {
        self.latest = self.latest.max(mark);
        let node = self.kept(last)?;
        node.open = node.open.saturating_sub(1);
        node.mark = node.mark.max(mark);
        let stop = self.let_go(last.id, step, most, gone);
        self.written(stop, step)
    }

    /// An open prompt that ends with this node never was: what it alone has brought goes, `most` blocks
    /// at most. Returns the same as [`Memory::taken`], and the node that it ends with if there is more:
    /// one that is open still.
    pub(super) fn refused(
        &mut self,
        last: NodeRef,
        (step, most): (u64, usize),
        gone: &mut Gone,
    ) -> (Option<Written>, Option<NodeRef>) {
        let Some(node) = self.kept(last) else { return (None, None) };
        node.open = node.open.saturating_sub(1);
        let stop = self.let_go(last.id, step, most, gone);
        if let Stop::Enough(next) = stop {
            self.node(next).into_iter().for_each(|node| node.open = 1);
            return (None, self.nodes.keep(next));
        }
        (self.written(stop, step), None)
    }

    /// Lets go the blocks of a node and those before it, for as long as they are bare and have ended by
    /// `step`, or by capacity, were never taken.
    fn let_go(&mut self, last: NodeId, step: u64, most: usize, gone: &mut Gone) -> Stop {
        let way = self.way;
        let mut next = last;
        loop {
            let Some(node) = self.node(next).filter(|node| node.is_bare()) else {
                return Stop::Rest;
            };
            match way {
                Way::Time if node.mark > step => {
                    let is_written = std::mem::replace(&mut node.watched, true);
                    return if is_written { Stop::Rest } else { Stop::Until(next, node.mark) };
                }
                Way::Capacity if node.mark > 0 => {
                    let idle = idle(next, node);
                    self.idle.insert(idle);
                    return Stop::Rest;
                }
                Way::Time | Way::Capacity => {}
            }
            let room = most.saturating_sub(gone.blocks);
            if room == 0 {
                return Stop::Enough(next);
            }
            next = self.take(next, room, gone);
        }
    }

    /// By time: what is to be written down.
    fn written(&mut self, stop: Stop, step: u64) -> Option<Written> {
        match stop {
            Stop::Rest => None,
            Stop::Until(last, when) => Some((self.nodes.keep(last)?, when)),
            Stop::Enough(last) => {
                let is_written = std::mem::replace(&mut self.node(last)?.watched, true);
                self.nodes.keep(last).filter(|_| !is_written).map(|last| (last, step))
            }
        }
    }

    /// By capacity: the number of the next release.
    pub(super) fn next_release(&mut self) -> u64 {
        self.releases += 1;
        self.releases
    }

    /// By time: what has ended by `step`, of the prompts that end with a node, `most` blocks at most.
    /// Returns which node is to be asked for next, and at which step, if that isn't all.
    pub(super) fn end(
        &mut self,
        last: NodeRef,
        step: u64,
        most: usize,
        gone: &mut Gone,
    ) -> Option<Written> {
        // If something is behind it now, or it is open: whoever lets go of that knows.
        self.kept(last)?.watched = false;
        let stop = self.let_go(last.id, step, most, gone);
        self.written(stop, step)
    }

    /// By capacity: what goes so that no more than `capacity` blocks are held, as far as nothing
    /// that is open is in the way, and `most` at most.
    pub(super) fn evict(&mut self, capacity: u64, most: usize, gone: &mut Gone) {
        if self.turning.is_under_way() {
            // What goes first isn't known yet.
            return;
        }
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        while self.blocks > capacity && gone.blocks < most {
            let Some((.., id)) = self.idle.pop_first() else { break };
            let most = (self.blocks - capacity).min(most - gone.blocks);
            let most = most.min(self.goes_before_others(id));
            let next = self.take(id, most, gone);
            if let Some(node) = self.node(next).filter(|node| node.is_bare()) {
                let idle = idle(next, node);
                self.idle.insert(idle);
            }
        }
    }

    /// How many of a node's blocks, from its last one on, go before those of all other bare nodes: the
    /// last one does.
    fn goes_before_others(&self, id: NodeId) -> usize {
        let Some(node) = self.nodes.get(id) else { return 1 };
        match self.idle.first() {
            Some(&(mark, Reverse(end), hash, _)) if mark == node.mark => {
                let deeper = node.end().saturating_sub(end as usize);
                let abreast = node.len().checked_sub(deeper + 1).and_then(|at| node.blocks.get(at));
                deeper.max(1) + usize::from(deeper > 0 && abreast.is_some_and(|&a| a < hash))
            }
            _ => node.len(),
        }
    }

    /// Bytes that it takes, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let idle = self.idle.len() + self.turning.faded();
        let idle = idle * size_of::<(u64, Reverse<u32>, u64, NodeId)>();
        let blocks = self.blocks * size_of::<u64>();
        size_of::<Self>() + self.nodes.bytes() + self.heads.bytes() + blocks + idle
    }
}

#[cfg(test)]
mod check;
#[cfg(test)]
mod tests;
