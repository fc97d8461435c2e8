//! How a prompt is followed through a memory.
//!
//! Owns how far a prompt's blocks are held, and the cut where it leaves a node or ends within one. A
//! node's last hash vouches for all before it, and nodes begin at all multiples of [`LONGEST`]: the
//! last of those that is held is searched by halves, so that of a conversation of a thousand turns no
//! more nodes are met than there are ends within so many blocks. It doesn't know what is said of nodes.

use super::nodes::{NO_NODE, Node, NodeId};
use super::{Memory, NodeRef};
use crate::index::tree::LONGEST;

/// How far a prompt is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::index::prediction) struct Known {
    /// How many of its leading blocks.
    pub(in crate::index::prediction) blocks: usize,
    /// The node that ends with the last of them.
    pub(in crate::index::prediction) last: Option<NodeRef>,
}

/// Where a prompt is on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The node that its last block is in.
    node: NodeId,
    /// Blocks that are known.
    pub(super) known: usize,
    /// How many of them are in that node.
    within: usize,
}

impl Step {
    const BEGIN: Self = Self { node: NO_NODE, known: 0, within: 0 };
}

impl Memory {
    /// How many of a prompt's leading blocks it holds; those up to `from` it does. A node ends there
    /// afterwards.
    pub(in crate::index::prediction) fn follow(&mut self, chain: &[u64], from: Known) -> Known {
        let held = from.last.and_then(|last| self.nodes.kept(last));
        let begin = match held {
            Some(node) => {
                let within = self.nodes.get(node).map_or(0, Node::len);
                Step { node, known: from.blocks, within }
            }
            None => self.furthest(chain),
        };
        let Step { node, known, within } = self.walk(chain, begin);
        let goes_on = self.nodes.get(node).is_some_and(|node| within < node.len());
        let last = if goes_on { self.cut(node, within) } else { node };
        Known { blocks: known, last: self.nodes.keep(last) }
    }

    fn walk(&self, chain: &[u64], begin: Step) -> Step {
        let mut step = begin;
        while self.nodes.get(step.node).is_none_or(|node| step.within == node.len()) {
            let first = chain.get(step.known);
            let Some(&id) = first.and_then(|first| self.heads.get(first)) else { break };
            let next = self
                .nodes
                .get(id)
                .filter(|next| next.parent == step.node && next.depth as usize == step.known);
            let Some(next) = next else { break };
            step = through(chain, step.known, id, next);
        }
        step
    }

    /// Where the prompt has got to in the furthest node that begins at a multiple of [`LONGEST`]. It
    /// holds all that is before a block that it holds.
    pub(super) fn furthest(&self, chain: &[u64]) -> Step {
        let holds = |part: usize| {
            let depth = part * LONGEST;
            let id = *self.heads.get(chain.get(depth)?)?;
            let node = self.nodes.get(id).filter(|node| node.depth as usize == depth)?;
            Some(through(chain, depth, id, node))
        };
        let last = chain.len().saturating_sub(1) / LONGEST;
        let (mut furthest, mut low, mut high) = (Step::BEGIN, 0, last + 1);
        // Most prompts are known to their end, or not at all.
        let mut part = last;
        while low < high {
            match holds(part) {
                Some(step) => (furthest, low) = (step, part + 1),
                None => high = part,
            }
            part = if low == 0 && part == last { 0 } else { low.midpoint(high) };
        }
        furthest
    }

    /// Cuts a node before its block `at`, and returns the new one of those before: who has kept the
    /// node has it with the same last block.
    fn cut(&mut self, id: NodeId, at: usize) -> NodeId {
        let now = self.turning.now();
        let Some(node) = self.node(id) else { return id };
        let (front, back) = node.blocks.split_at(at);
        let mut before = Node::new(front, node.first, node.parent, node.depth);
        (before.children, before.turn) = (1, now);
        node.blocks = back.into();
        node.first = node.first.onward(at);
        node.depth += at as u32;
        let heads = [&before, &*node].map(|node| node.blocks.first().copied().unwrap_or_default());
        let new = self.nodes.add(before);
        self.nodes.get_mut(id).into_iter().for_each(|node| node.parent = new);
        // Another's, where the hashes are no prompt's.
        if let Some(head) = self.heads.get_mut(&heads[0]).filter(|head| **head == id) {
            *head = new;
        }
        self.heads.entry(heads[1], id);
        new
    }
}

/// How far a prompt goes through a node that begins with its block `at`.
fn through(chain: &[u64], at: usize, id: NodeId, node: &Node) -> Step {
    let within = common(&node.blocks, chain.get(at..).unwrap_or(&[]));
    Step { node: id, known: at + within, within }
}

/// How many of the blocks are as wanted, from the first on: where one is, all before are.
fn common(blocks: &[u64], wanted: &[u64]) -> usize {
    let most = blocks.len().min(wanted.len());
    let agree = |at: usize| blocks.get(at).is_some_and(|block| wanted.get(at) == Some(block));
    if most == 0 || agree(most - 1) {
        return most;
    }
    let (mut low, mut high) = (0, most - 1);
    while low < high {
        let middle = low.midpoint(high);
        if agree(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
