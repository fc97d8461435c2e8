//! What must hold of every memory, whatever happened to it; for tests.

use std::collections::BTreeMap;

use super::{Memory, NO_NODE, NodeId, Way, idle};
use crate::index::tree::LONGEST;

impl Memory {
    /// How many blocks don't know of its last turn yet.
    pub(in crate::index::prediction) fn behind(&self) -> usize {
        let now = self.turning.now();
        let behind = self.nodes.iter().filter(|(_, node)| node.turn != now);
        behind.map(|(_, node)| node.len()).sum()
    }

    /// That each node counts what is behind it, and that whoever lets it go knows of it: its end would
    /// never come.
    pub(in crate::index::prediction) fn check(&self) {
        let mut children = BTreeMap::<NodeId, u32>::new();
        for (_, node) in self.nodes.iter().filter(|(_, node)| node.parent != NO_NODE) {
            *children.entry(node.parent).or_default() += 1;
        }
        for (id, node) in self.nodes.iter() {
            assert_eq!(node.children, children.get(&id).copied().unwrap_or(0), "{node:?}");
            assert!(node.depth as usize % LONGEST + node.len() <= LONGEST, "{node:?}");
            if let Some(parent) = self.nodes.get(node.parent) {
                assert_eq!(parent.end(), node.depth as usize, "{node:?}");
            }
            let is_idle = self.idle.contains(&idle(id, node));
            match self.way {
                _ if self.turning.is_under_way() => {}
                Way::Time => assert!(node.watched || !node.is_bare(), "{id}: {node:?}"),
                Way::Capacity => assert_eq!(is_idle, node.is_bare(), "{id}: {node:?}"),
            }
        }
        let bare = self.nodes.iter().filter(|(_, node)| node.is_bare()).count();
        assert!(self.idle.len() <= bare, "{} idle, {bare} bare", self.idle.len());
        assert_eq!(self.blocks, self.nodes.iter().map(|(_, node)| node.len()).sum::<usize>());
        let is_there = |id: &NodeId| self.nodes.get(*id).is_some_and(|node| node.len() > 0);
        assert!(self.heads.iter().all(|(_, id)| is_there(id)));
    }
}
