//! The nodes of a memory, by number.
//!
//! Owns their places: a node keeps its number for as long as it is there, and whoever has kept one
//! that is gone is told so, though another has its number now. Nodes come by a part at a time, so that
//! one that comes never moves many. It doesn't know what they say of each other.

use crate::index::tree::Reference;

/// A node's number.
pub(super) type NodeId = u32;

/// No node.
pub(super) const NO_NODE: NodeId = NodeId::MAX;

/// Nodes in one part.
const PART: usize = 256;

/// A node, as somebody keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index::prediction) struct NodeRef {
    pub(super) id: NodeId,
    /// Which of those that had the number.
    generation: u32,
}

/// Blocks that follow one another.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Their hashes; none if the number is free.
    pub(super) blocks: Box<[u64]>,
    /// By time: the step at which its last block is forgotten. By capacity: the last release. Of the
    /// prompts that end with that block, and of those that went on and are gone; 0 if none was taken.
    pub(super) mark: u64,
    /// Where the index has its first block; the others follow.
    pub(super) first: Reference,
    /// The node before; none at the beginning of a prompt.
    pub(super) parent: NodeId,
    /// Blocks before its first.
    pub(super) depth: u32,
    /// Nodes that it is the one before of.
    pub(super) children: u32,
    /// Open prompts that end with its last block, as far as they are taken in.
    pub(super) open: u32,
    generation: u32,
    /// The memory's last turn that it knows of; what it says otherwise is of the time before the next.
    pub(super) turn: u16,
    /// By time: its end is written down, so that whatever ends with it does.
    pub(super) watched: bool,
}

impl Node {
    /// One of blocks that nobody has said anything of.
    pub(super) fn new(blocks: &[u64], first: Reference, parent: NodeId, depth: u32) -> Self {
        Self {
            blocks: blocks.into(),
            mark: 0,
            first,
            parent,
            depth,
            children: 0,
            open: 0,
            generation: 0,
            turn: 0,
            watched: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Nothing is behind it and no open prompt ends with it: it stays for its mark alone.
    pub(super) fn is_bare(&self) -> bool {
        self.children == 0 && self.open == 0
    }

    /// Blocks up to and including its last.
    pub(super) fn end(&self) -> usize {
        self.depth as usize + self.len()
    }

    /// Keeps its first `len` blocks.
    pub(super) fn shorten(&mut self, len: usize) {
        let mut blocks = std::mem::take(&mut self.blocks).into_vec();
        blocks.truncate(len);
        self.blocks = blocks.into_boxed_slice();
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    parts: Vec<Vec<Node>>,
    /// The numbers that are free.
    free: Vec<NodeId>,
}

impl Nodes {
    /// The numbers that there are, the free ones included.
    pub(super) fn numbers(&self) -> usize {
        self.parts.last().map_or(0, |last| (self.parts.len() - 1) * PART + last.len())
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.parts.get(id as usize / PART)?.get(id as usize % PART)
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.parts.get_mut(id as usize / PART)?.get_mut(id as usize % PART)
    }

    /// A node to keep.
    pub(super) fn keep(&self, id: NodeId) -> Option<NodeRef> {
        self.get(id).map(|node| NodeRef { id, generation: node.generation })
    }

    /// The number of a node that was kept, if it is there still.
    pub(super) fn kept(&self, node: NodeRef) -> Option<NodeId> {
        self.get(node.id).filter(|there| there.generation == node.generation).map(|_| node.id)
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.free.pop() {
            if let Some(place) = self.get_mut(id) {
                *place = Node { generation: place.generation, ..node };
            }
            return id;
        }
        let id = self.numbers() as NodeId;
        match self.parts.last_mut() {
            Some(last) if last.len() < PART => last.push(node),
            _ => self.parts.push(vec![node]),
        }
        id
    }

    /// Takes a node out.
    pub(super) fn remove(&mut self, id: NodeId) -> Option<Node> {
        let place = self.get_mut(id)?;
        let generation = place.generation.wrapping_add(1);
        let free = Node { generation, ..Node::new(&[], place.first, NO_NODE, 0) };
        let removed = std::mem::replace(place, free);
        self.free.push(id);
        Some(removed)
    }

    /// Bytes that they take beside their blocks.
    pub(super) fn bytes(&self) -> usize {
        let nodes: usize = self.parts.iter().map(Vec::capacity).sum();
        nodes * size_of::<Node>()
            + self.parts.capacity() * size_of::<Vec<Node>>()
            + self.free.capacity() * size_of::<NodeId>()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let nodes = (0..).zip(self.parts.iter().flatten());
        nodes.filter(|(_, node)| node.len() > 0)
    }
}
