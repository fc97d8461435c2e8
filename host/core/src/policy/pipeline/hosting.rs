//! Whether a pipeline can decide without its partition's lock, and who does then.

use std::sync::Arc;

use super::Pipeline;
use crate::hosted::{By, Hosting, Replicas};
use crate::policy::Input;

impl Pipeline {
    /// Whether its decisions need nothing that the partition's lock guards: it is a picker alone,
    /// reads nothing but who the rows are and how many requests each carries, and has either a picker
    /// that many may ask at once, or is one of several instances that may decide side by side.
    #[must_use]
    pub fn can_be_hosted(&self) -> bool {
        let ([source], Some(_), true, true) = (
            &*self.sources,
            &self.picker,
            self.filters.is_empty() && self.scorers.is_empty(),
            self.prefix_hash_blocks() == 0,
        ) else {
            return false;
        };
        let properties = source.instance.declaration().properties;
        let side_by_side = source.instance.hosted().is_some() || properties.replicable;
        // What several have learnt can't be told, or handed over, as one.
        let has_memory = properties.observes || (properties.hands_over && !properties.stateless);
        let reads_load = |input: &Input| matches!(input, Input::Identity | Input::ActiveRequests);
        side_by_side && !has_memory && self.inputs().iter().all(reads_load)
    }

    /// Who decides in its place. `replica` makes one more instance like it, for which there is a place
    /// below `replicas`.
    pub(crate) fn hosting<E>(
        &self,
        replicas: usize,
        replica: impl FnMut(usize) -> Result<Self, E>,
    ) -> Result<Option<Arc<Hosting>>, E> {
        if !self.can_be_hosted() {
            return Ok(None);
        }
        let picker = self.sources.first().and_then(|source| source.instance.hosted());
        let by = match (picker, &self.picker) {
            (Some(picker), Some(stage)) => By::Picker(picker, stage.name.clone()),
            _ if replicas == 0 => return Ok(None),
            _ => By::Replicas(Replicas::new((0..replicas).map(replica).collect::<Result<_, E>>()?)),
        };
        Ok(Some(Arc::new(Hosting { label: self.label(), by })))
    }
}
