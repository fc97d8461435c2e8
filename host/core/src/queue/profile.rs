//! Which classes there are, and which one a request belongs to.
//!
//! Owns the rules that classes keep together: names, families, buckets of uncached prompt lengths.
//! A [`Profile`] has passed them all. It doesn't know who waits.

mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{ClassSpec, QueuePolicy};

pub use rules::{MOST_CLASSES, ProfilePlace, ProfileProblem, is_class_name};

/// The class of requests where none is configured.
pub const DEFAULT_CLASS: &str = "default";

/// A range of uncached prompt lengths, up to the next one's least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The least length in it, in tokens.
    pub min_tokens: u64,
    /// Its name, as classes say it.
    pub bucket: Arc<str>,
}

/// A profile as its owner wants it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileSpec {
    /// The family or explicit class of requests that name none, or one that there isn't.
    pub default_policy_family: Option<Arc<str>>,
    /// Empty is one bucket for all, without a name.
    pub uncached_isl_buckets: Vec<Bucket>,
    /// At least one.
    pub policy_classes: Vec<ClassSpec>,
}

/// The classes of a partition, in good order.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    classes: Vec<ClassSpec>,
    /// Ascending; at least one.
    buckets: Vec<Bucket>,
    /// What can be asked for: the classes of a family in the order of the buckets, or an explicit
    /// class alone.
    choices: BTreeMap<Arc<str>, Vec<usize>>,
    default: Arc<str>,
}

impl Default for Profile {
    /// One class, whose requests never wait.
    fn default() -> Self {
        Self::of_threshold(None, QueuePolicy::default())
    }
}

impl Profile {
    /// Takes a profile up, if it is in good order.
    ///
    /// # Errors
    ///
    /// All that isn't, each with its place.
    pub fn new(spec: ProfileSpec) -> Result<Self, Vec<ProfileProblem>> {
        let problems = rules::problems(&spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let default = spec.default_choice().cloned().unwrap_or_else(|| DEFAULT_CLASS.into());
        let ProfileSpec { mut uncached_isl_buckets, policy_classes, .. } = spec;
        if uncached_isl_buckets.is_empty() {
            uncached_isl_buckets.push(Bucket { min_tokens: 0, bucket: DEFAULT_CLASS.into() });
        }
        let mut choices: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (at, class) in policy_classes.iter().enumerate() {
            let name = class.policy_family.as_ref().unwrap_or(&class.name);
            choices.entry(name.clone()).or_default().push(at);
        }
        let bucket_of = |&at: &usize| {
            let named = policy_classes.get(at).and_then(|class| class.cache_bucket.as_ref());
            uncached_isl_buckets.iter().position(|bucket| Some(&bucket.bucket) == named)
        };
        choices.values_mut().for_each(|family| family.sort_by_key(bucket_of));
        Ok(Self { classes: policy_classes, buckets: uncached_isl_buckets, choices, default })
    }

    /// The profile where no classes are configured: one, which queues if there is a threshold.
    #[must_use]
    pub fn of_threshold(threshold: Option<f64>, queue_policy: QueuePolicy) -> Self {
        let class = ClassSpec {
            queue_policy,
            prefill_busy_threshold_frac: threshold,
            ..ClassSpec::new(DEFAULT_CLASS)
        };
        Self {
            choices: [(class.name.clone(), vec![0])].into(),
            default: class.name.clone(),
            classes: vec![class],
            buckets: vec![Bucket { min_tokens: 0, bucket: DEFAULT_CLASS.into() }],
        }
    }

    /// The classes; at least one.
    #[must_use]
    pub fn classes(&self) -> &[ClassSpec] {
        &self.classes
    }

    /// What requests can ask for: families and explicit classes, sorted.
    pub fn choices(&self) -> impl Iterator<Item = &Arc<str>> {
        self.choices.keys()
    }

    /// The family or explicit class of a request that names this; the default's, where it names none
    /// or one that there isn't.
    #[must_use]
    pub fn asked_for(&self, named: Option<&str>) -> &Arc<str> {
        let found = named.and_then(|name| self.choices.get_key_value(name));
        found.map_or(&self.default, |(name, _)| name)
    }

    /// Whether there is a family or explicit class of this name.
    #[must_use]
    pub fn has_choice(&self, name: &str) -> bool {
        self.choices.contains_key(name)
    }

    /// A class by its place.
    #[must_use]
    pub fn class(&self, at: usize) -> Option<&ClassSpec> {
        self.classes.get(at)
    }

    /// Whether requests of any class may have to wait. Where not, there is nothing to be chosen.
    #[must_use]
    pub fn queues(&self) -> bool {
        self.classes.iter().any(ClassSpec::queues)
    }

    /// The place of the class that a request belongs to: by what it names, or else the default; and
    /// by the uncached length of its prompt, which is asked for only where it matters. A name that
    /// there isn't is as good as none: a reload may have taken it away.
    #[must_use]
    pub fn choose(&self, named: Option<&str>, uncached_tokens: impl FnOnce() -> u64) -> usize {
        let found = named.and_then(|name| self.choices.get(name));
        let family = found.or_else(|| self.choices.get(&self.default));
        let family = family.map_or(&[][..], Vec::as_slice);
        match family {
            [] => 0,
            [only] => *only,
            [first, ..] => {
                let tokens = uncached_tokens();
                let after = self.buckets.partition_point(|bucket| bucket.min_tokens <= tokens);
                family.get(after.saturating_sub(1)).copied().unwrap_or(*first)
            }
        }
    }
}

impl ProfileSpec {
    /// What requests get that name nothing: what is said, else `default` if there is such a family or
    /// class, else the only one that there is.
    fn default_choice(&self) -> Option<&Arc<str>> {
        if let Some(said) = &self.default_policy_family {
            return Some(said);
        }
        let mut choices = self.choices();
        let first = choices.next()?;
        if choices.clone().all(|choice| choice == first) {
            return Some(first);
        }
        std::iter::once(first).chain(choices).find(|choice| &***choice == DEFAULT_CLASS)
    }

    /// What can be asked for, families as often as they have classes.
    fn choices(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.policy_classes.iter().map(|class| class.policy_family.as_ref().unwrap_or(&class.name))
    }
}

/// The profiles of all models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSettings {
    /// For models that have none of their own.
    pub default: Arc<Profile>,
    /// By model.
    pub models: BTreeMap<Arc<str>, Arc<Profile>>,
}

impl QueueSettings {
    /// The profile of a model's partitions.
    #[must_use]
    pub fn profile(&self, model: &str) -> &Arc<Profile> {
        self.models.get(model).unwrap_or(&self.default)
    }
}
