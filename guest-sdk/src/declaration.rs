//! What an instance tells the host about itself when it is configured.

use crate::Input;
use crate::policy::{Part, Stages};

/// One stage, as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// A short name, unique among its kind in the policy.
    pub name: String,
    /// The inputs that it reads, by name, in the order in which it wants them.
    pub inputs: Vec<&'static str>,
}

/// Which stages an instance provides, in order, and what it promises or asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Any number of filters.
    pub filters: Vec<Stage>,
    /// Any number of scorers.
    pub scorers: Vec<Stage>,
    /// At most one picker; without one, the host picks the lowest cost.
    pub picker: Option<Stage>,
    /// How many leading block hashes each call should bring; 0 is none.
    pub prefix_hash_blocks: u32,
    /// Properties by name, as `wit/README.md` lists them.
    pub properties: Vec<&'static str>,
}

impl Declaration {
    pub(crate) fn of(stages: &Stages) -> Self {
        let properties = [
            ("fused", true),
            ("compact", true),
            ("stateless", stages.stateless),
            ("replicable", stages.replicable),
            ("observes", stages.observer.is_some()),
            ("follows-fleet", stages.fleet.is_some()),
            ("hands-over", stages.handover.is_some()),
        ];
        Self {
            filters: stages.filters.iter().map(Stage::of).collect(),
            scorers: stages.scorers.iter().map(Stage::of).collect(),
            picker: stages.picker.as_ref().map(Stage::of),
            prefix_hash_blocks: stages.prefix_hash_blocks,
            properties: properties
                .into_iter()
                .filter(|(_, holds)| *holds)
                .map(|(name, _)| name)
                .collect(),
        }
    }

    /// The inputs of a fused call: each stage's, once, in the order of first appearance over
    /// filters, scorers and picker.
    pub fn fused_inputs(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        for &name in self
            .filters
            .iter()
            .chain(&self.scorers)
            .chain(&self.picker)
            .flat_map(|stage| &stage.inputs)
        {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }
}

impl Stage {
    fn of<T: ?Sized>(part: &Part<T>) -> Self {
        Self {
            name: part.name.clone(),
            inputs: part.inputs.iter().copied().map(Input::name).collect(),
        }
    }
}
