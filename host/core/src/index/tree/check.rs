//! What must hold of every tree, whatever happened to it; for tests.

use hashbrown::HashMap;

use super::place::{Place, Reference};
use super::run::LONGEST;
use super::{Run, RunId, Tier, Tree};

impl Tree {
    /// The runs that there are.
    pub(in crate::index) fn all_runs(&self) -> impl Iterator<Item = (RunId, &Run)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| !run.blocks.is_empty());
        runs.map(|(id, run)| (id as RunId, run))
    }

    /// Blocks held, counted for each slot and tier that holds them.
    pub(in crate::index) fn held(&self) -> usize {
        let of_run = |run: &Run| -> usize {
            let coverages = Tier::ALL.iter().filter_map(|&tier| run.coverage(tier));
            coverages
                .map(|c| {
                    let partial = c.partial.iter().map(|(_, depth)| usize::from(depth));
                    c.full.len() * run.blocks.len() + partial.sum::<usize>()
                })
                .sum()
        };
        self.all_runs().map(|(_, run)| of_run(run)).sum()
    }

    /// Panics if something that is said twice isn't said alike.
    pub(in crate::index) fn check(&self) {
        let mut children = HashMap::<RunId, u32>::new();
        let (mut blocks, mut names, mut lower) = (0, 0, 0);
        for (id, run) in self.all_runs() {
            let len = run.blocks.len();
            assert!(len <= LONGEST);
            blocks += len;
            lower += usize::from(run.lower.is_some());
            assert_eq!(run.last, run.blocks[len - 1].sequence);
            assert_eq!(self.heads.get(&run.blocks[0].sequence), Some(&id));
            if run.parent != Reference::NONE {
                let parent = run.parent.resolve(&self.runs).expect("its parent is there");
                let before = &self.runs[parent.run as usize];
                assert_eq!(parent.at + 1, before.blocks.len(), "it follows a run's end");
                *children.entry(parent.run).or_default() += 1;
            }
            assert!(run.children > 0 || run.deepest() == len, "nobody holds its end");
            for coverage in Tier::ALL.iter().filter_map(|&tier| run.coverage(tier)) {
                let partial: Vec<_> = coverage.partial.iter().collect();
                assert!(partial.is_sorted_by(|a, b| a.0 < b.0));
                assert!(partial.iter().all(|&(_, d)| d > 0 && usize::from(d) < len));
                assert!(partial.iter().all(|&(slot, _)| !coverage.full.contains(slot)));
            }
            for (at, block) in run.blocks.iter().enumerate() {
                names += usize::from(self.find(block.engine) == Some(Place { run: id, at }));
            }
        }
        for (id, run) in self.all_runs() {
            assert_eq!(run.children, children.get(&id).copied().unwrap_or(0));
        }
        assert_eq!(blocks, self.blocks);
        assert_eq!(lower, self.lower_runs);
        assert_eq!(self.heads.len(), self.all_runs().count());
        assert_eq!(names, self.names.len());
    }
}
