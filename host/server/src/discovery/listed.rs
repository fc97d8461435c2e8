//! Workers that something else lists: a name's records, a pool's pods.
//!
//! Owns what follows from one list after the other: who is registered, who is let go. A worker that was
//! refused is tried again with the next list. It doesn't know who lists, or how.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use xxhash_rust::xxh3::xxh3_64;

use super::keeper::{Origin, WorkerKeeper};
use super::registration::Registration;
use super::standing::Farewell;

/// Ids are whole numbers that JSON's readers take as they are: below 2^53.
const MOST_ID: u64 = (1 << 53) - 1;

/// The workers of one list.
#[derive(Debug)]
pub(super) struct Listed {
    keeper: Arc<WorkerKeeper>,
    /// Who lists them, for ids and the log.
    source: String,
    /// What each is like.
    like: WorkerSpec,
    /// Those that are registered.
    there: BTreeMap<WorkerId, WorkerSpec>,
}

impl Listed {
    pub(super) fn new(keeper: Arc<WorkerKeeper>, source: String, like: WorkerSpec) -> Self {
        Self { keeper, source, like, there: BTreeMap::new() }
    }

    /// A list: endpoints, by a name that a worker keeps for its life.
    pub(super) async fn are(&mut self, listed: &BTreeMap<String, String>) {
        let specs: BTreeMap<WorkerId, WorkerSpec> = listed
            .iter()
            .map(|(name, endpoint)| {
                let worker_id = self.id(name);
                let endpoint = endpoint.clone();
                (worker_id, WorkerSpec { worker_id, endpoint, ..self.like.clone() })
            })
            .collect();
        let gone: Vec<_> =
            self.there.keys().copied().filter(|id| !specs.contains_key(id)).collect();
        for id in gone {
            self.there.remove(&id);
            self.keeper.unlist(id).await;
            tracing::info!(worker = %id, source = self.source, "a worker is listed no longer");
        }
        for (id, spec) in specs {
            if self.there.get(&id) == Some(&spec) {
                continue;
            }
            let registration = Registration { spec: spec.clone(), lease: None };
            match self.keeper.register(registration, Origin::Listed).await {
                Ok(_) => drop(self.there.insert(id, spec)),
                Err(error) => {
                    let endpoint = spec.endpoint;
                    tracing::warn!(worker = %id, endpoint, source = self.source, %error, "a listed worker is refused");
                }
            }
        }
    }

    /// The id of a worker that goes by a name here: the same whoever asks, and whenever.
    fn id(&self, name: &str) -> WorkerId {
        WorkerId(xxh3_64(format!("{}\n{name}", self.source).as_bytes()) & MOST_ID)
    }
}

impl WorkerKeeper {
    /// Lets a worker go that is listed no longer, unless somebody else has registered it since.
    async fn unlist(&self, id: WorkerId) {
        let left = self.owned(move |roster| async move {
            let _turn = roster.turn.lock().await;
            if roster.origin(id) == Some(Origin::Listed) {
                roster.let_go(id, false, Farewell::Unlisted).await?;
            }
            Ok(())
        });
        if let Err(error) = left.await {
            tracing::debug!(worker = %id, %error, "a worker that is listed no longer could not be let go");
        }
    }
}
