//! What an instance says that it is: its stages, their inputs, its properties.

use super::input::{Input, InputSet};

/// One stage of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// A short name, unique among its kind in the instance.
    pub name: String,
    /// What it reads, in its own order.
    pub inputs: Vec<Input>,
}

impl Stage {
    /// A stage by name and inputs.
    #[must_use]
    pub fn new(name: impl Into<String>, inputs: &[Input]) -> Self {
        Self { name: name.into(), inputs: inputs.to_vec() }
    }

    /// What it reads, as a set.
    #[must_use]
    pub fn input_set(&self) -> InputSet {
        self.inputs.iter().copied().collect()
    }
}

/// What an instance promises or asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Its answers depend on the call alone.
    pub stateless: bool,
    /// Several instances may serve one partition side by side.
    pub replicable: bool,
    /// It can decide in one call.
    pub fused: bool,
    /// It takes rows in fewer numbers, where they cross a boundary.
    pub compact: bool,
    /// It wants outcomes.
    pub observes: bool,
    /// It wants the fleet.
    pub follows_fleet: bool,
    /// It can save and restore its state.
    pub hands_over: bool,
}

impl Properties {
    /// The contract's names.
    pub const NAMES: [&'static str; 7] =
        ["stateless", "replicable", "fused", "compact", "observes", "follows-fleet", "hands-over"];

    /// Sets a property by its name; false if there is none of that name.
    pub fn set(&mut self, name: &str) -> bool {
        let property = match name {
            "stateless" => &mut self.stateless,
            "replicable" => &mut self.replicable,
            "fused" => &mut self.fused,
            "compact" => &mut self.compact,
            "observes" => &mut self.observes,
            "follows-fleet" => &mut self.follows_fleet,
            "hands-over" => &mut self.hands_over,
            _ => return false,
        };
        *property = true;
        true
    }

    /// The names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = [
            self.stateless,
            self.replicable,
            self.fused,
            self.compact,
            self.observes,
            self.follows_fleet,
            self.hands_over,
        ];
        Self::NAMES.into_iter().zip(set).filter(|(_, set)| *set).map(|(name, _)| name)
    }
}

/// The stages of an instance, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Any number; a row stays when all keep it.
    pub filters: Vec<Stage>,
    /// Any number; their costs are added.
    pub scorers: Vec<Stage>,
    /// At most one.
    pub picker: Option<Stage>,
    /// How many leading block hashes each call should bring.
    pub prefix_hash_blocks: u32,
    /// Its properties.
    pub properties: Properties,
}

impl Declaration {
    /// The union of all stages' inputs, in the order of their first appearance over filters,
    /// scorers and picker: what a fused call gets.
    #[must_use]
    pub fn union(&self) -> Vec<Input> {
        let mut seen = InputSet::default();
        let stages = self.filters.iter().chain(&self.scorers).chain(&self.picker);
        stages.flat_map(|stage| &stage.inputs).copied().filter(|&i| seen.insert(i)).collect()
    }
}
