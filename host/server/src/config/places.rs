//! Where things stand in the file, for mistakes that are found later: by a policy that refuses its
//! parameters, or by a folder that lacks a type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::classifier::SeatError;
use pointsman_core::ids::{Role, WorkerId};
use pointsman_core::policy::InstantiateError;

use super::error::{At, ConfigError, Problem};
use super::parameters::child_pointer;
use super::warnings::Remark;
use super::words::{listed, nearest};

/// Where a type is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePlace {
    /// The instance that uses it.
    pub instance: Arc<str>,
    /// The type.
    pub policy_type: Arc<str>,
    /// The value of `type`.
    pub type_at: At,
    /// The value of `parameters`, if it is there.
    pub parameters_at: Option<At>,
    /// The values in it, by their JSON pointers; the first few thousand.
    pub values_at: BTreeMap<String, At>,
    /// The value of `stage`, if it is there.
    pub stage_at: Option<At>,
    /// The value of `limits`, if it is there.
    pub limits_at: Option<At>,
}

impl TypePlace {
    /// Where a value of its `parameters` stands; of one that isn't there, what would hold it.
    fn value(&self, pointer: &str) -> &At {
        let mut pointer = pointer;
        loop {
            if let Some(at) = self.values_at.get(pointer) {
                return at;
            }
            match pointer.rsplit_once('/') {
                Some((above, _)) => pointer = above,
                None => return self.parameters_at.as_ref().unwrap_or(&self.type_at),
            }
        }
    }
}

/// Where things stand in the file. Empty for a configuration that comes from none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Values that are looked at later, by the keys that lead to them: those that name what is
    /// outside the file, and the parts of the file.
    keys: BTreeMap<String, At>,
    /// The instances, by name.
    pub instances: BTreeMap<Arc<str>, At>,
    /// The values of the roles.
    pub roles: BTreeMap<Role, At>,
    /// Every use of a policy type, in the order of the file; those of one instance in the order in
    /// which it uses them.
    types: Vec<TypePlace>,
    /// The first of those of each instance.
    first_types: BTreeMap<Arc<str>, usize>,
    /// The use of the request classifier's type.
    pub(super) classifier: Option<TypePlace>,
    /// The workers.
    pub workers: BTreeMap<WorkerId, At>,
    /// The tokenizers, by model.
    pub(super) tokenizers: BTreeMap<Arc<str>, At>,
}

impl Places {
    pub(super) fn add_key(&mut self, at: At) {
        self.keys.insert(at.path.clone(), at);
    }

    pub(super) fn add_type(&mut self, place: TypePlace) {
        self.first_types.entry(place.instance.clone()).or_insert(self.types.len());
        self.types.push(place);
    }

    /// The values behind keys that begin so.
    pub(super) fn keys_below(&self, path: &str) -> impl Iterator<Item = (&str, &At)> {
        let below = move |(key, _): &(&String, &At)| key.starts_with(path);
        self.keys.iter().filter(below).map(|(key, at)| (key.as_str(), at))
    }

    /// The value behind keys such as `policies_dir` or `listen.tls.key`, if it is there.
    #[must_use]
    pub fn key(&self, path: &str) -> Option<&At> {
        self.keys.get(path)
    }

    /// Every use of a policy type, in the order of the file.
    #[must_use]
    pub fn types(&self) -> &[TypePlace] {
        &self.types
    }

    /// Where the file has to do with a policy type: its first use, else the folder that it is in.
    #[must_use]
    pub fn of_type(&self, policy_type: &str) -> Option<&At> {
        let mut all = self.types.iter().chain(&self.classifier);
        let used = all.find(|used| &*used.policy_type == policy_type);
        used.map(|used| &used.type_at).or_else(|| self.key("policies_dir"))
    }

    /// The uses of types that aren't among the `known`, as mistakes.
    #[must_use]
    pub fn unknown_types(&self, known: &BTreeSet<&str>) -> Vec<ConfigError> {
        let unknown = self.types.iter().filter(|used| !known.contains(&*used.policy_type));
        unknown
            .map(|used| ConfigError {
                at: used.type_at.clone(),
                problem: self.unknown_type(&used.policy_type, known.iter().copied()),
            })
            .collect()
    }

    /// The request classifier's type as a mistake, if it isn't among the `known` ones, of which
    /// `classifiers` classify.
    #[must_use]
    pub fn unknown_classifier(
        &self,
        known: &BTreeSet<&str>,
        classifiers: &[String],
    ) -> Option<ConfigError> {
        let used = self.classifier.as_ref().filter(|used| !known.contains(&*used.policy_type))?;
        let problem = self.no_classifier(&used.policy_type, classifiers);
        Some(ConfigError { at: used.type_at.clone(), problem })
    }

    fn unknown_type<'k>(
        &self,
        policy_type: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) -> Problem {
        let nearest = nearest(policy_type, known.clone()).map(str::to_owned);
        let has_folder = self.key("policies_dir").is_some();
        let remedy = match has_folder {
            true => format!("put {policy_type}.wasm into the folder that policies_dir names"),
            false => format!("set it to the folder that has {policy_type}.wasm"),
        };
        Problem::UnknownType {
            policy_type: policy_type.to_owned(),
            remedy: nearest.is_none().then_some(remedy),
            nearest,
            known: listed(known),
            has_folder,
        }
    }

    /// The place in the file that a failed build is about.
    #[must_use]
    pub fn of(&self, error: &BuildError) -> Option<&At> {
        match error {
            BuildError::UnknownInstance { role, .. } => self.roles.get(role),
            BuildError::UnknownType { instance, position, .. }
            | BuildError::SelectsNoWorkers { instance, position, .. } => {
                self.type_place(instance, *position).map(|used| &used.type_at)
            }
            BuildError::NoStage { instance, position, .. } => {
                let used = self.type_place(instance, *position)?;
                Some(used.stage_at.as_ref().unwrap_or(&used.type_at))
            }
            BuildError::Instantiate { instance, position, error, .. } => {
                let used = self.type_place(instance, *position)?;
                let value = match &**error {
                    InstantiateError::Refused { .. } => used.parameters_at.as_ref(),
                    InstantiateError::Limits { .. } => used.limits_at.as_ref(),
                    InstantiateError::Declaration { .. } | InstantiateError::Failed { .. } => None,
                };
                Some(value.unwrap_or(&used.type_at))
            }
            BuildError::UnknownFollower { of, .. } => self.instances.get(&**of),
            BuildError::Classifier(error) => self.of_classifier(error),
            BuildError::Abandoned(_) => None,
        }
    }

    /// The place in the file that a failed classifier is about.
    fn of_classifier(&self, error: &SeatError) -> Option<&At> {
        let used = self.classifier.as_ref()?;
        let value = match error {
            SeatError::Instantiate(InstantiateError::Refused { .. }) => used.parameters_at.as_ref(),
            SeatError::Instantiate(InstantiateError::Limits { .. }) => used.limits_at.as_ref(),
            _ => None,
        };
        Some(value.unwrap_or(&used.type_at))
    }

    /// Where a value of the classifier's `parameters` stands; of one that isn't there, what would
    /// hold it.
    #[must_use]
    pub fn classifier_parameter(&self, pointer: &str) -> Option<&At> {
        self.classifier.as_ref().map(|used| used.value(pointer))
    }

    /// Where a value of the `parameters` stands that an instance gives to its use of a type; of one that isn't
    /// there, what would hold it.
    #[must_use]
    pub fn parameter(&self, instance: &str, position: usize, pointer: &str) -> Option<&At> {
        self.type_place(instance, position).map(|used| used.value(pointer))
    }

    /// A failed build in words, behind its place where it has one.
    #[must_use]
    pub fn explain(&self, error: &BuildError) -> String {
        match self.remarks(error).as_slice() {
            [only] => only.to_string(),
            _ => self.remark(error).to_string(),
        }
    }

    /// What to say of a classifier's type that there isn't.
    fn no_classifier(&self, classifier_type: &str, known: &[String]) -> Problem {
        let known = || known.iter().map(String::as_str);
        let what = format!("unknown type of request classifiers {classifier_type:?}");
        let refused = |what, remedy| Problem::Refused { what, remedy };
        if self.key("policies_dir").is_none() {
            let what = format!("{what}: none is built in, and no policies_dir is set");
            return refused(what, format!("set it to the folder that has {classifier_type}.wasm"));
        }
        let what = format!("{what}; known: {}", listed(known()));
        match nearest(classifier_type, known()) {
            Some(meant) => refused(what, format!("did you mean {meant:?}?")),
            None => refused(
                what,
                format!("put {classifier_type}.wasm into the folder that policies_dir names"),
            ),
        }
    }

    /// A failed build in words, with its place.
    #[must_use]
    pub fn remark(&self, error: &BuildError) -> Remark {
        let at = self.of(error).cloned();
        let text = match error {
            BuildError::UnknownType { policy_type, known, .. } if at.is_some() => {
                self.unknown_type(policy_type, known.split(", ")).to_string()
            }
            BuildError::Classifier(SeatError::UnknownType { classifier_type, known })
                if at.is_some() =>
            {
                self.no_classifier(classifier_type, known).to_string()
            }
            error => error.to_string(),
        };
        Remark { at, text }
    }

    /// As [`Places::remark`], with all that a policy says against its parameters apart, each with the
    /// place of the parameter that it names.
    #[must_use]
    pub fn remarks(&self, error: &BuildError) -> Vec<Remark> {
        let (used, why) = match error {
            BuildError::Instantiate { instance, position, error, .. } => {
                (self.type_place(instance, *position), &**error)
            }
            BuildError::Classifier(SeatError::Instantiate(error)) => {
                (self.classifier.as_ref(), error)
            }
            _ => return vec![self.remark(error)],
        };
        let InstantiateError::Refused { policy_type, reason } = why else {
            return vec![self.remark(error)];
        };
        // As the wasm host joins what components say.
        let ends = reason.strip_prefix('"').and_then(|reason| reason.strip_suffix('"'));
        let Some(sentences) = ends else { return vec![self.remark(error)] };
        let told = sentences.split("\"; \"").map(|sentence| {
            let plain = sentence.replace("\\\"", "\"");
            let named = plain.split_once("parameter \"").and_then(|(_, rest)| rest.split_once('"'));
            let pointer = named.map(|(key, _)| child_pointer("", key)).unwrap_or_default();
            let (policy_type, reason) = (policy_type.clone(), format!("\"{sentence}\""));
            let refused = InstantiateError::Refused { policy_type, reason };
            let error = match error {
                BuildError::Instantiate { instance, position, partition, .. } => {
                    BuildError::Instantiate {
                        instance: instance.clone(),
                        position: *position,
                        partition: partition.clone(),
                        error: Box::new(refused),
                    }
                }
                _ => SeatError::Instantiate(refused).into(),
            };
            Remark { at: used.map(|used| used.value(&pointer)).cloned(), text: error.to_string() }
        });
        told.collect()
    }

    /// The use of a type by an instance, by its position there.
    fn type_place(&self, instance: &str, position: usize) -> Option<&TypePlace> {
        let place = self.types.get(self.first_types.get(instance)? + position)?;
        (&*place.instance == instance).then_some(place)
    }
}
