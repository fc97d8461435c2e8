//! What an author exports: a [`Policy`], which builds [`Stages`].

use std::collections::BTreeSet;

use crate::fleet::FleetFollower;
use crate::handover::Handover;
use crate::layout::{self, Layout, Matrix};
use crate::observer::Observer;
use crate::parameters::Parameters;
use crate::request::Environment;
use crate::stage::{FilterLoop, WorkerFilter, WorkerPicker, WorkerScorer};
use crate::{Input, Refusal, Result};

/// A policy: what it is, what it takes, and how it is built.
///
/// [`export_policy!`](crate::export_policy) writes this from a short description; implement it by
/// hand when building takes more than that.
pub trait Policy: 'static {
    /// The YAML's `parameters`.
    type Parameters: Parameters;

    /// What lists say of it; [`about!`](crate::about) takes it from the crate's `Cargo.toml`.
    fn about() -> About;

    /// Builds the stages of one instance, which serves one partition.
    ///
    /// # Errors
    ///
    /// Refuses the load: the version that served before goes on serving.
    fn build(parameters: Self::Parameters, environment: &Environment) -> Result<Stages>;
}

/// What a policy says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The policy's name; the YAML's `type` is the component file's stem, whatever stands here.
    pub name: &'static str,
    /// Its version, as its author counts.
    pub version: &'static str,
    /// One line for lists.
    pub summary: &'static str,
}

/// The parts of one instance, in order.
#[derive(Default)]
pub struct Stages {
    pub(crate) filters: Vec<Part<dyn FilterLoop>>,
    pub(crate) scorers: Vec<Part<dyn WorkerScorer>>,
    pub(crate) picker: Option<Part<dyn WorkerPicker>>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) fleet: Option<Box<dyn FleetFollower>>,
    pub(crate) handover: Option<Box<dyn Handover>>,
    pub(crate) prefix_hash_blocks: u32,
    pub(crate) stateless: bool,
    pub(crate) replicable: bool,
}

/// One stage, with its name and inputs asked for once.
pub(crate) struct Part<T: ?Sized> {
    pub(crate) name: String,
    pub(crate) inputs: Vec<Input>,
    /// Where the inputs lie when the stage is called alone.
    pub(crate) alone: Layout,
    /// Where they lie when all stages are called at once.
    pub(crate) fused: Layout,
    pub(crate) stage: Box<T>,
}

impl<T: ?Sized> Part<T> {
    fn new(name: String, inputs: Vec<Input>, stage: Box<T>) -> Self {
        let inputs = layout::union([&inputs[..]]);
        let alone = Layout::of(&inputs, &inputs);
        let fused = alone.clone();
        Self { name, inputs, alone, fused, stage }
    }
}

impl Stages {
    /// No stages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a filter; a row stays when all keep it.
    #[must_use]
    pub fn filter(mut self, filter: impl WorkerFilter) -> Self {
        self.filters.push(Part::new(filter.name(), filter.inputs(), Box::new(filter)));
        self
    }

    /// Adds a scorer; costs are added.
    #[must_use]
    pub fn scorer(mut self, scorer: impl WorkerScorer) -> Self {
        self.scorers.push(Part::new(scorer.name(), scorer.inputs(), Box::new(scorer)));
        self
    }

    /// Sets the picker. Without one, the lowest cost is picked.
    #[must_use]
    pub fn picker(mut self, picker: impl WorkerPicker) -> Self {
        self.picker = Some(Part::new(picker.name(), picker.inputs(), Box::new(picker)));
        self
    }

    /// Asks to be told what became of decisions.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Asks to be told of the fleet.
    #[must_use]
    pub fn fleet_follower(mut self, follower: impl FleetFollower) -> Self {
        self.fleet = Some(Box::new(follower));
        self
    }

    /// Carries state over reloads.
    #[must_use]
    pub fn handover(mut self, handover: impl Handover) -> Self {
        self.handover = Some(Box::new(handover));
        self
    }

    /// How many leading block hashes each call should bring.
    #[must_use]
    pub fn prefix_hash_blocks(mut self, blocks: u32) -> Self {
        self.prefix_hash_blocks = blocks;
        self
    }

    /// Promises that the answer depends on nothing but the call: the same request and rows always
    /// give the same decision. Recorded decisions of such a policy can be replayed one by one.
    #[must_use]
    pub fn stateless(mut self) -> Self {
        self.stateless = true;
        self
    }

    /// Allows the host to run several instances for one partition, each with state of its own.
    #[must_use]
    pub fn replicable(mut self) -> Self {
        self.replicable = true;
        self
    }

    /// What a fused call hands over; none without stages.
    pub(crate) fn fused_matrix(&self) -> Option<Matrix> {
        let filter = self.filters.first().map(|part| part.fused.matrix());
        let scorer = self.scorers.first().map(|part| part.fused.matrix());
        filter.or(scorer).or(self.picker.as_ref().map(|part| part.fused.matrix()))
    }

    /// What all stages read, and each stage's layout within it.
    pub(crate) fn lay_out(&mut self) -> Result<()> {
        if self.filters.is_empty() && self.scorers.is_empty() && self.picker.is_none() {
            return Err(Refusal::from(
                "the policy has no stage; give it a filter, a scorer or a picker",
            ));
        }
        make_unique(self.filters.iter_mut().map(|part| &mut part.name));
        make_unique(self.scorers.iter_mut().map(|part| &mut part.name));
        let filters = self.filters.iter().map(|part| &part.inputs[..]);
        let scorers = self.scorers.iter().map(|part| &part.inputs[..]);
        let picker = self.picker.iter().map(|part| &part.inputs[..]);
        let sent = layout::union(filters.chain(scorers).chain(picker));
        if let Some((spelled, named)) = sent.iter().find_map(|&input| input.misspelled()) {
            return Err(format!(
                "input \"{spelled}\" has a variant of its own; declare Input::{named:?}"
            )
            .into());
        }
        for part in &mut self.filters {
            part.fused = Layout::of(&part.inputs, &sent);
        }
        for part in &mut self.scorers {
            part.fused = Layout::of(&part.inputs, &sent);
        }
        if let Some(part) = &mut self.picker {
            part.fused = Layout::of(&part.inputs, &sent);
        }
        Ok(())
    }
}

/// Two stages of one type get names that differ: `overlap`, `overlap-2`.
fn make_unique<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut taken = BTreeSet::new();
    for name in names {
        let stem = name.clone();
        let mut count = 1;
        while !taken.insert(name.clone()) {
            count += 1;
            *name = format!("{stem}-{count}");
        }
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(|part| &part.name).collect();
        let scorers: Vec<_> = self.scorers.iter().map(|part| &part.name).collect();
        f.debug_struct("Stages")
            .field("filters", &filters)
            .field("scorers", &scorers)
            .field("picker", &self.picker.as_ref().map(|part| &part.name))
            .finish_non_exhaustive()
    }
}
