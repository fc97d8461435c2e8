//! Which of a file's decisions are made again: those of an instance, or of a partition.
//!
//! Owns the names that are met on the way, for whoever asked for one that isn't among them. It
//! doesn't know how a decision is made.

use std::collections::BTreeSet;
use std::sync::Arc;

use pointsman_core::ids::PartitionKey;

use crate::config::listed;

/// Names of instances and partitions that are kept in mind.
const MOST_NAMES: usize = 1_000;

/// Which decisions are made again, and where those come from that aren't.
pub(super) struct Wanted<'a> {
    instance: Option<&'a str>,
    partition: Option<&'a str>,
    instances: BTreeSet<Arc<str>>,
    partitions: BTreeSet<String>,
    pairs: BTreeSet<String>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(instance: Option<&'a str>, partition: Option<&'a str>) -> Self {
        let (instances, partitions, pairs) = Default::default();
        Self { instance, partition, instances, partitions, pairs }
    }

    /// Whether a decision is one of them. What isn't is kept in mind by its names.
    pub(super) fn takes(&mut self, name: &Arc<str>, partition: &PartitionKey) -> bool {
        let of_instance = self.instance.is_none_or(|wanted| wanted == &**name);
        let (wanted, partition) = (self.partition, || partition.to_string());
        if of_instance && wanted.is_none_or(|wanted| wanted == partition()) {
            return true;
        }
        // Names come from whoever wrote the file.
        if self.pairs.len() < MOST_NAMES {
            self.instances.insert(name.clone());
            self.partitions.insert(partition());
            self.pairs.insert(format!("{name} in {}", partition()));
        }
        false
    }

    /// Whether an entry of a partition's log is one of them.
    pub(super) fn takes_log(&self, partition: &PartitionKey) -> bool {
        self.partition.is_none_or(|wanted| wanted == partition.to_string())
    }

    /// Whether there are decisions that it doesn't take.
    pub(super) fn left_out(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Why it takes none.
    pub(super) fn explain(&self) -> String {
        let instances = || listed(self.instances.iter().map(|name| &**name));
        let partitions = || listed(self.partitions.iter().map(String::as_str));
        match (self.instance, self.partition) {
            (Some(name), _) if !self.instances.contains(name) => {
                format!(
                    "no decision is of an instance {name:?}; there are those of: {}",
                    instances()
                )
            }
            (_, Some(name)) if !self.partitions.contains(name) => {
                format!(
                    "no decision is of a partition {name:?}; there are those of: {}",
                    partitions()
                )
            }
            (instance, partition) => {
                let (instance, partition) =
                    (instance.unwrap_or_default(), partition.unwrap_or_default());
                let pairs = listed(self.pairs.iter().map(String::as_str));
                format!(
                    "instance {instance:?} has no decision in partition {partition:?}; there are those of: {pairs}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::ids::Role;

    use super::*;

    fn told(instance: Option<&str>, partition: Option<&str>) -> Result<usize, String> {
        let mut wanted = Wanted::new(instance, partition);
        let of = |model: &str| PartitionKey {
            model: model.into(),
            routing_group: "default".into(),
            role: Role::Aggregated,
        };
        let decisions = [("a", of("m")), ("a", of("m")), ("b", of("n"))];
        let taken = decisions.iter().filter(|(name, at)| wanted.takes(&(*name).into(), at)).count();
        if taken == 0 && wanted.left_out() { Err(wanted.explain()) } else { Ok(taken) }
    }

    #[test]
    fn decisions_are_taken_by_instance_by_partition_or_by_both() {
        assert_eq!(told(None, None), Ok(3));
        assert_eq!(told(Some("a"), None), Ok(2));
        assert_eq!(told(None, Some("n/default/aggregated")), Ok(1));
        assert_eq!(told(Some("b"), Some("n/default/aggregated")), Ok(1));
    }

    #[test]
    fn where_none_is_meant_those_that_there_are_are_named() {
        let no = |instance, partition| told(instance, partition).err().unwrap_or_default();
        assert_eq!(
            no(Some("c"), None),
            "no decision is of an instance \"c\"; there are those of: a, b"
        );
        assert_eq!(
            no(None, Some("m")),
            "no decision is of a partition \"m\"; there are those of: m/default/aggregated, \
             n/default/aggregated"
        );
        assert_eq!(
            no(Some("b"), Some("m/default/aggregated")),
            "instance \"b\" has no decision in partition \"m/default/aggregated\"; there are those \
             of: a in m/default/aggregated, b in n/default/aggregated"
        );
    }
}
