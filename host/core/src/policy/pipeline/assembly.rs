//! Putting a pipeline together: which stages of which instances, and the columns that they share.

use std::sync::Arc;

use super::{Part, Pipeline, Scratch, Source, StageRef};
use crate::policy::candidates::Matrix;
use crate::policy::declaration::Stage;
use crate::policy::input::{Input, InputSet};
use crate::policy::selection::{OnAllFiltered, OnFailure, Safeguards};

impl StageRef {
    fn new(
        source: usize,
        stage: usize,
        declared: &Stage,
        prefix_hash_blocks: u32,
        part: Part,
        on_failure: OnFailure,
    ) -> Self {
        Self {
            source,
            stage,
            name: declared.name.as_str().into(),
            inputs: declared.inputs.clone(),
            declared: declared.input_set(),
            prefix_hash_blocks,
            part,
            on_failure,
        }
    }
}

impl Pipeline {
    /// An empty pipeline.
    pub(crate) fn new(name: Arc<str>, discard_state: bool, safeguards: Safeguards) -> Self {
        Self {
            name,
            discard_state,
            safeguards,
            fuel_left: None,
            sources: Vec::new(),
            filters: Vec::new(),
            scorers: Vec::new(),
            picker: None,
            fused: None,
            reads_caches: false,
            whole_on_failure: OnFailure::Default,
            told_generation: None,
            scratch: Scratch::default(),
        }
    }

    /// Adds an instance, none of whose stages are used yet. The answer names it to what follows.
    pub(crate) fn add_source(&mut self, source: Source) -> usize {
        self.sources.push(source.guarded(self.safeguards.breaker));
        self.sources.len() - 1
    }

    /// Adds an instance with all its stages, as the only one.
    pub(crate) fn add_whole(&mut self, source: Source, on_failure: OnFailure) {
        let declaration = source.instance.declaration();
        // Whoever may be left out has to be called by itself.
        let bypasses = self.safeguards.on_all_filtered == OnAllFiltered::Bypass;
        let fused = declaration.properties.fused && on_failure != OnFailure::Skip && !bypasses;
        self.fused = fused.then(|| declaration.union().into_iter().collect::<InputSet>());
        self.whole_on_failure = on_failure;
        let at = self.add_source(source);
        self.use_filters(at, None, on_failure);
        self.use_scorers(at, None, Part::default(), on_failure);
        self.use_picker(at, None, on_failure);
    }

    /// Uses an instance's filters, or the one of that name. False if there is none.
    pub(crate) fn use_filters(
        &mut self,
        source: usize,
        name: Option<&str>,
        on_failure: OnFailure,
    ) -> bool {
        let declaration = self.sources[source].instance.declaration();
        let (declared, hashes) = (&declaration.filters, declaration.prefix_hash_blocks);
        let before = self.filters.len();
        let chosen = chosen(declared, name);
        self.filters.extend(chosen.map(|(i, stage)| {
            StageRef::new(source, i, stage, hashes, Part::default(), on_failure)
        }));
        self.filters.len() > before
    }

    /// Uses an instance's scorers, or the one of that name. False if there is none.
    pub(crate) fn use_scorers(
        &mut self,
        source: usize,
        name: Option<&str>,
        part: Part,
        on_failure: OnFailure,
    ) -> bool {
        let declaration = self.sources[source].instance.declaration();
        let (declared, hashes) = (&declaration.scorers, declaration.prefix_hash_blocks);
        let before = self.scorers.len();
        let chosen = chosen(declared, name);
        self.scorers.extend(
            chosen.map(|(i, stage)| StageRef::new(source, i, stage, hashes, part, on_failure)),
        );
        self.scorers.len() > before
    }

    /// Uses an instance's picker. False if it has none, or none of that name.
    pub(crate) fn use_picker(
        &mut self,
        source: usize,
        name: Option<&str>,
        on_failure: OnFailure,
    ) -> bool {
        let declaration = self.sources[source].instance.declaration();
        let (declared, hashes) = (declaration.picker.as_slice(), declaration.prefix_hash_blocks);
        let Some((_, stage)) = chosen(declared, name).next() else { return false };
        self.picker = Some(StageRef::new(source, 0, stage, hashes, Part::default(), on_failure));
        true
    }

    /// The names of an instance's stages of a kind.
    pub(crate) fn stage_names(&self, source: usize, kind: &str) -> Vec<String> {
        let declaration = self.sources[source].instance.declaration();
        let stages = match kind {
            "filter" => declaration.filters.as_slice(),
            "scorer" => declaration.scorers.as_slice(),
            _ => declaration.picker.as_slice(),
        };
        stages.iter().map(|stage| stage.name.clone()).collect()
    }

    /// All stages are there: lays out the columns that they declared.
    pub(crate) fn seal(&mut self) {
        let mut seen = InputSet::default();
        let stages = self.filters.iter().chain(&self.scorers).chain(&self.picker);
        // In the order of first appearance, as a fused call wants them.
        let inputs = stages.flat_map(|stage| &stage.inputs).copied();
        let union: Vec<Input> = inputs.filter(|&input| seen.insert(input)).collect();
        self.reads_caches = union.iter().any(|input| input.is_of_caches());
        self.scratch.matrix = Matrix::new(&union);
    }
}

fn chosen<'a>(
    declared: &'a [Stage],
    name: Option<&'a str>,
) -> impl Iterator<Item = (usize, &'a Stage)> {
    let all = declared.iter().enumerate();
    all.filter(move |(_, stage)| name.is_none_or(|name| stage.name == name))
}
