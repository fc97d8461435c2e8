//! What there is, what is wanted, and what decides: the keeper's memory.
//!
//! Owns nothing that runs. A reload takes a [`Round`] out of it, tries, and writes the result back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use pointsman_core::policy::{Catalog, Digest, StageError};
use pointsman_core::router::{Installed, Policies};

use super::components::{Found, Makes};
use super::configuration::Wish;
use super::report::{Refusal, Replaced};
use super::schema::{ParametersSchema, builtins};
use super::stand_in::StandIn;
use super::status::ReloadCounts;
use super::trial::Warning;

/// A version that is in place.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) provider: Makes,
    pub(super) since: SystemTime,
    pub(super) size: Option<u64>,
    pub(super) contract: Option<String>,
    pub(super) imports: Vec<String>,
    pub(super) schema: Option<Arc<ParametersSchema>>,
}

/// A version that is not taken up, and won't be tried again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    digest: Option<Digest>,
    /// Under which configuration; another one may suit it.
    wish: u64,
    pub(super) reason: String,
}

/// One policy type of the folder.
#[derive(Clone, Debug, Default)]
pub(super) struct TypeState {
    /// The file as it was last seen; none when it is gone.
    pub(super) found: Option<Found>,
    pub(super) active: Option<Active>,
    pub(super) refused: Option<Refused>,
    /// How it fails its decisions while there is no good version.
    pub(super) stand_in: Option<StageError>,
}

impl TypeState {
    /// Why the file's content doesn't decide; none when it does.
    pub(super) fn error(&self) -> Option<String> {
        match &self.found {
            None => Some("the file was removed; the last good version serves on".to_owned()),
            Some(Found { provider: Err(reason), .. }) => Some(reason.clone()),
            // What was refused before it is of no account any more.
            Some(found) => {
                let refused = self.refused.as_ref();
                let refused = refused.filter(|refused| refused.digest == found.digest);
                refused.map(|refused| refused.reason.clone())
            }
        }
    }

    fn active_digest(&self) -> Option<&Digest> {
        self.active.as_ref().and_then(|active| active.provider.digest())
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) types: BTreeMap<Arc<str>, TypeState>,
    pub(super) wish: Wish,
    /// Counts the configurations that were in force.
    pub(super) wish_number: u64,
    /// Why the configuration as it is in the file is not in force.
    pub(super) wish_error: Option<String>,
    /// A sound configuration that was refused: what it lacks may still come.
    pub(super) pending: Option<Pending>,
    pub(super) folder_error: Option<String>,
    pub(super) needs_restart: Vec<&'static str>,
    pub(super) counts: ReloadCounts,
    pub(super) last_install: Option<Installed>,
    /// What the last trial of what is in place warned of, by instance.
    pub(super) warnings: BTreeMap<Arc<str>, String>,
    /// What the last look saw.
    pub(super) seen: Vec<(Arc<str>, Option<Digest>)>,
}

/// A configuration that isn't in force yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) wish: Wish,
    pub(super) needs_restart: Vec<&'static str>,
}

/// The types with a version to try.
pub(super) type New = BTreeSet<Arc<str>>;

/// What types say of their parameters; those that say nothing are left out.
pub(super) type TypeSchemas = BTreeMap<Arc<str>, Arc<ParametersSchema>>;

impl State {
    /// Takes in what a look found. Returns what can't be used at all and wasn't known so.
    pub(super) fn saw(&mut self, found: Vec<Found>, again: bool) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut unseen: New = self.types.keys().cloned().collect();
        for found in found {
            unseen.remove(&found.policy_type);
            let entry = self.types.entry(found.policy_type.clone()).or_default();
            if let Err(reason) = &found.provider {
                let known = entry.found.as_ref().is_some_and(|old| {
                    old.digest == found.digest && old.provider.as_ref().err() == Some(reason)
                });
                if again || !known {
                    refusals.push(Refusal {
                        what: found.policy_type.to_string(),
                        digest: found.digest.clone(),
                        reason: reason.clone(),
                    });
                }
            }
            entry.found = Some(found);
        }
        for gone in unseen {
            if let Some(entry) = self.types.get_mut(&gone)
                && entry.found.take().is_some()
            {
                entry.refused = None;
                tracing::warn!(policy_type = ?gone, "a component's file was removed");
            }
        }
        refusals
    }

    /// Whether the files are others than at the last call.
    pub(super) fn mark_seen(&mut self) -> bool {
        let found = self.types.values().filter_map(|entry| entry.found.as_ref());
        let now = found.map(|found| (found.policy_type.clone(), found.digest.clone())).collect();
        std::mem::replace(&mut self.seen, now) != self.seen
    }

    /// Forgets removed types that `wish` doesn't use.
    pub(super) fn forget_unused(&mut self) -> Vec<Replaced> {
        let Self { types, wish, .. } = self;
        let unused = |name: &Arc<str>, entry: &TypeState| entry.found.is_none() && !wish.uses(name);
        let gone: Vec<_> = types
            .iter()
            .filter(|(name, entry)| unused(name, entry))
            .map(|(name, entry)| Replaced {
                policy_type: name.clone(),
                from: entry.active_digest().cloned(),
                to: None,
            })
            .collect();
        types.retain(|name, entry| !unused(name, entry));
        gone
    }

    /// The types whose file is good and isn't what decides. Those that were refused under this
    /// configuration are left out unless `again`.
    pub(super) fn new_versions(&self, wish_number: u64, again: bool) -> New {
        let is_new = |entry: &TypeState| {
            let Some(found) = &entry.found else { return false };
            let refused = entry.refused.as_ref().is_some_and(|refused| {
                refused.digest == found.digest && refused.wish == wish_number
            });
            found.provider.is_ok()
                && (entry.active.is_none() || entry.active_digest() != found.digest.as_ref())
                && (again || !refused)
        };
        let new = self.types.iter().filter(|(_, entry)| is_new(entry));
        new.map(|(name, _)| name.clone()).collect()
    }

    /// The policies of `wish` with the new versions of `new`, and what is in place of the others.
    pub(super) fn policies(&self, wish: &Wish, new: &New) -> Policies {
        let mut catalog = Catalog::builtin();
        for (name, entry) in &self.types {
            let fresh = entry.found.as_ref().filter(|_| new.contains(name));
            let fresh = fresh.and_then(|found| found.provider.as_ref().ok()).cloned();
            let active = || entry.active.as_ref().map(|active| active.provider.clone());
            let stand_in = || {
                // What it would have been isn't known.
                let stand_in = Arc::new(StandIn::new(name.clone(), entry.stand_in.clone()?));
                Some(Makes { policy: Some(stand_in.clone()), classifier: Some(stand_in) })
            };
            let makes = fresh.or_else(active).or_else(stand_in).unwrap_or_default();
            let policy = makes.policy.map(|provider| catalog.insert(provider));
            let classifier = makes.classifier.map(|it| catalog.insert_classifier(it));
            if let Some(Err(taken)) = policy.or(classifier) {
                // The folder refuses such names; this is for other sources.
                tracing::warn!(%taken, "a component was left out");
            }
        }
        Policies {
            catalog,
            selection: wish.selection.clone(),
            classifier: wish.classifier.clone(),
            settings: wish.settings.clone(),
            queue: wish.queue.clone(),
        }
    }

    /// What the types that [`State::policies`] puts together say of their parameters.
    pub(super) fn schemas(&self, new: &New) -> TypeSchemas {
        let of = |name: &Arc<str>, entry: &TypeState| match &entry.found {
            Some(found) if new.contains(name) && found.provider.is_ok() => found.schema.clone(),
            _ => entry.active.as_ref().and_then(|active| active.schema.clone()),
        };
        let components = self.types.iter();
        let components =
            components.filter_map(|(name, entry)| Some((name.clone(), of(name, entry)?)));
        // A component can't take a built-in's name.
        let builtins = builtins::all().iter().map(|(name, schema)| (name.clone(), schema.clone()));
        builtins.chain(components).collect()
    }

    /// Notes what the trial of what is in place now warned of.
    pub(super) fn warned(&mut self, warnings: &[Warning]) {
        let told = warnings.iter().map(|one| (one.instance.clone(), one.reason.clone()));
        self.warnings = told.collect();
    }

    /// Notes that the new version of a type is in place.
    pub(super) fn took_up(&mut self, name: &Arc<str>) -> Option<Replaced> {
        let entry = self.types.get_mut(name)?;
        let found = entry.found.as_ref()?;
        let provider = found.provider.as_ref().ok()?.clone();
        let from = entry.active_digest().cloned();
        let to = provider.digest().cloned();
        entry.active = Some(Active {
            provider,
            since: SystemTime::now(),
            size: found.size,
            contract: found.contract.clone(),
            imports: found.imports.clone(),
            schema: found.schema.clone(),
        });
        entry.refused = None;
        entry.stand_in = None;
        Some(Replaced { policy_type: name.clone(), from, to })
    }

    /// Notes that the new version of a type was refused under a configuration.
    pub(super) fn refuse(&mut self, name: &Arc<str>, wish: u64, reason: String) -> Option<Refusal> {
        let entry = self.types.get_mut(name)?;
        let digest = entry.found.as_ref().and_then(|found| found.digest.clone());
        entry.refused = Some(Refused { digest: digest.clone(), wish, reason: reason.clone() });
        Some(Refusal { what: name.to_string(), digest, reason })
    }
}
