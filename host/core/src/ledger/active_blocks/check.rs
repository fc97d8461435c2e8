//! Whether the trie is whole, for tests.

use std::collections::BTreeMap;

use super::{ActiveBlocks, NO_RUN, RunId};

impl ActiveBlocks {
    /// Runs that are in use.
    pub(in crate::ledger) fn len(&self) -> usize {
        self.runs.len() - self.free.len()
    }

    /// Panics where something doesn't fit together.
    pub(in crate::ledger) fn check(&self) {
        assert_eq!(self.names.len(), self.len(), "every run has one name");
        let mut children = BTreeMap::<RunId, (u32, RunId)>::new();
        for (id, run) in (0..).zip(&self.runs).filter(|(_, run)| run.chain.is_some()) {
            assert!(run.from < run.to, "a run without blocks");
            assert_eq!(self.names.get(&run.name()), Some(&id), "a run that isn't found");
            assert!(!run.holders.is_empty(), "a run that nobody holds");
            let known = children.entry(run.parent).or_default();
            *known = (known.0 + 1, known.1 ^ id);
            let parent = (run.parent != NO_RUN).then(|| &self.runs[run.parent as usize]);
            assert_eq!(parent.map_or(0, |parent| parent.to), run.from, "a gap before a run");
            let Some(parent) = parent else { continue };
            run.holders.for_each(|holder| {
                let above = parent.holders.of(holder.row).bookings;
                assert!(
                    above >= holder.tally.bookings,
                    "a row that doesn't hold what comes before"
                );
            });
        }
        for (id, run) in (0..).zip(&self.runs).filter(|(_, run)| run.chain.is_some()) {
            let known = children.get(&id).copied().unwrap_or_default();
            assert_eq!((run.children, run.child_ids), known, "children that aren't counted");
            assert!(run.children != 1 || run.ends > 0, "two runs that should be one");
            let mut bookings = 0;
            run.holders.for_each(|holder| bookings += holder.tally.bookings);
            assert!(bookings >= run.ends);
        }
    }
}
