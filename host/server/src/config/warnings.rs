//! What a configuration says that is likely not meant, though it can be served.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::Role;
use pointsman_core::policy::builtin;
use pointsman_core::policy::settings::SharedCacheType;

use super::{At, Config, Listener};

/// Something that is likely not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where; none for what stands nowhere in the file.
    pub at: Option<At>,
    /// In a sentence.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Config {
    /// What is likely not meant.
    #[must_use]
    pub fn warnings(&self) -> Vec<Remark> {
        let mut warnings = Vec::new();
        of_listeners(self, &mut warnings);
        of_workers(self, &mut warnings);
        of_the_shared_cache(self, &mut warnings);
        of_models(self, &mut warnings);
        of_instances(self, &mut warnings);
        of_load(self, &mut warnings);
        warnings
    }
}

fn at(place: Option<&At>, text: impl Into<String>) -> Remark {
    Remark { at: place.cloned(), text: text.into() }
}

fn of_listeners(config: &Config, warnings: &mut Vec<Remark>) {
    let in_the_clear = |listener: &Listener| {
        !listener.address.ip().is_loopback()
            && listener.tls.is_none()
            && !listener.tokens.is_empty()
    };
    for (name, listener) in config.listeners().into_iter().filter(|(_, it)| in_the_clear(it)) {
        let text = format!(
            "tokens come over {} in the clear; set `tls`, or put a TLS proxy before it",
            listener.address
        );
        warnings.push(at(config.places.key(name), text));
    }
}

fn of_workers(config: &Config, warnings: &mut Vec<Remark>) {
    if let (Some(place), []) = (config.places.key("workers"), config.workers.as_slice()) {
        let text = "the list is empty: nothing is served until a worker is registered over the API, \
                    and a running router that takes this up lets all workers of the file go";
        warnings.push(at(Some(place), text));
    }
    let mut by_endpoint: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for worker in &config.workers {
        by_endpoint.entry(&worker.endpoint).or_default().push(worker.worker_id);
    }
    for (endpoint, ids) in by_endpoint.into_iter().filter(|(_, ids)| ids.len() > 1) {
        let shown: Vec<_> = ids.iter().map(ToString::to_string).collect();
        let text = format!(
            "workers {} share the endpoint {endpoint}, so that its load is counted apart; the ranks \
             of one engine are one worker, with `data_parallel_size`",
            shown.join(", ")
        );
        warnings.push(at(config.places.workers.get(&ids[1]), text));
    }
}

fn of_the_shared_cache(config: &Config, warnings: &mut Vec<Remark>) {
    let place = config.places.key("router.shared_cache_url");
    if place.is_some() && config.settings.shared_cache_type == SharedCacheType::None {
        let text =
            "nobody asks there while `shared_cache_type` is none; set hicache, or take it out";
        warnings.push(at(place, text));
    }
}

/// What is said of a model that nobody serves is likely of another, misspelled. Where the file has no
/// worker, all come over the API.
fn of_models(config: &Config, warnings: &mut Vec<Remark>) {
    let served: BTreeSet<&str> =
        config.workers.iter().map(|worker| &*worker.partition.model).collect();
    if served.is_empty() {
        return;
    }
    let tokenizers = config.tokenizers.keys().map(|model| (model, config.tokenizer_place(model)));
    let queues = config.queue.models.keys().map(|model| (model, config.places.key("models")));
    for (model, place) in tokenizers.chain(queues).filter(|(model, _)| !served.contains(&***model))
    {
        let known = served.iter().copied().collect::<Vec<_>>().join(", ");
        let text = format!(
            "no worker of this file serves the model {model:?}; served: {known}; mend the name, \
             unless such a worker is registered over the API"
        );
        warnings.push(at(place, text));
    }
}

/// Load is compared with what workers say that they can carry. Where no worker of the file says it, it is
/// compared with nothing.
fn of_load(config: &Config, warnings: &mut Vec<Remark>) {
    let profiles = || config.queue.models.values().chain([&config.queue.default]);
    let waits_by_share = profiles()
        .flat_map(|profile| profile.classes())
        .any(|class| class.prefill_busy_threshold_frac.is_some());
    let busy = &config.settings.busy;
    let place = |keys: &[&str]| keys.iter().find_map(|key| config.places.key(key));
    let nobody_says = |says: fn(&WorkerSpec) -> bool| {
        !config.workers.is_empty() && !config.workers.iter().any(says)
    };
    let by_share = waits_by_share || busy.active_prefill_tokens_threshold_frac.is_some();
    if by_share && nobody_says(|worker| worker.max_num_batched_tokens.is_some()) {
        let text = "load is compared with a share of `max_num_batched_tokens`, which no worker of this \
                    file says, and which counts as 10,000,000 then: nobody will wait or be busy; add it to \
                    the workers";
        warnings.push(at(place(&["policy_classes", "models", "router"]), text));
    }
    if busy.active_decode_blocks_threshold.is_some()
        && config.load_reports.is_none()
        && nobody_says(|worker| worker.total_kv_blocks.is_some())
    {
        let text = "`active_decode_blocks_threshold` is a share of `total_kv_blocks`, which no worker of \
                    this file says: nobody will be busy by it unless engines' load is reported; add it \
                    to the workers, or set `load_reports`";
        warnings.push(at(place(&["router"]), text));
    }
    if !profiles().any(|profile| profile.queues()) && place(&["policy_classes"]).is_some() {
        let text = "no class has a busy threshold, so that no request waits; give them \
                    `prefill_busy_threshold` or `prefill_busy_threshold_frac`";
        warnings.push(at(place(&["policy_classes"]), text));
    }
}

fn of_instances(config: &Config, warnings: &mut Vec<Remark>) {
    for used in config.places.types() {
        if let Some(place) = &used.limits_at
            && builtin::NAMES.contains(&&*used.policy_type)
        {
            let text = format!("the built-in {:?} is not limited; take it out", used.policy_type);
            warnings.push(at(Some(place), text));
        }
    }
    let used = Role::ALL.into_iter().flat_map(|role| config.selection.with_rollout(role));
    let bound: BTreeSet<Arc<str>> = used.map(|instance| instance.name.clone()).collect();
    for (name, place) in config.places.instances.iter().filter(|(name, _)| !bound.contains(*name)) {
        warnings.push(at(Some(place), format!("no role uses the instance {name:?}")));
    }
}
