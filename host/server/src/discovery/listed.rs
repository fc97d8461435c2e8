//! Workers that something else lists: a name's records, a pool's pods.
//!
//! Owns what follows from one list after the other: who is registered, who is let go. A worker that was
//! refused is tried again with the next list, and after a pause that grows if none comes. One that somebody
//! else has deleted stays away for as long as it is listed. It doesn't know who lists, or how.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::keeper::{Origin, WorkerKeeper};
use super::registration::Registration;
use super::standing::Farewell;

/// Ids are whole numbers that JSON's readers take as they are: below 2^53.
const MOST_ID: u64 = (1 << 53) - 1;

/// How long after a refusal a worker is tried again: so long first, then twice as long each time, up to the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// As [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
    /// Those that were refused.
    refused: BTreeMap<WorkerId, WorkerSpec>,
    /// When these are tried again, and the pause after that; none if there are none.
    again: Option<(Instant, Duration)>,
}

impl Listed {
    pub(super) fn new(keeper: Arc<WorkerKeeper>, source: String, like: WorkerSpec) -> Self {
        let (there, refused) = (BTreeMap::new(), BTreeMap::new());
        Self { keeper, source, like, there, refused, again: None }
    }

    /// A part of the source can't be heard, or has nothing to list; in words for who asks whether the router is
    /// ready. An empty part is all of it.
    pub(super) fn fails(&self, part: &str, why: impl Into<String>) {
        self.keeper.sources.lock().insert(self.part(part), why.into());
    }

    /// That part has been heard.
    pub(super) fn is_well(&self, part: &str) {
        self.keeper.sources.lock().remove(&self.part(part));
    }

    fn part(&self, part: &str) -> String {
        if part.is_empty() { self.source.clone() } else { format!("{}: {part}", self.source) }
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
        let new = specs.into_iter().filter(|(id, spec)| self.there.get(id) != Some(spec)).collect();
        self.register(new, FIRST_PAUSE).await;
    }

    /// Until those that were refused are to be tried again; forever if there are none.
    pub(super) async fn due(&self) {
        match self.again {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Tries those again that were refused.
    pub(super) async fn again(&mut self) {
        let pause = self.again.map_or(FIRST_PAUSE, |(_, pause)| pause);
        let refused = std::mem::take(&mut self.refused);
        self.register(refused, pause).await;
    }

    /// Registers these. Those that are refused have this pause.
    async fn register(&mut self, specs: BTreeMap<WorkerId, WorkerSpec>, pause: Duration) {
        self.refused.clear();
        for (id, spec) in specs {
            let registration = Registration { spec: spec.clone(), lease: None };
            match self.keeper.register(registration, Origin::Listed).await {
                Ok(_) => drop(self.there.insert(id, spec)),
                Err(error) => {
                    let (endpoint, source) = (&spec.endpoint, &self.source);
                    tracing::warn!(worker = %id, endpoint, source, %error, "a listed worker is refused; it is tried again");
                    self.refused.insert(id, spec);
                }
            }
        }
        let next = (Instant::now() + pause, (pause * 2).min(LONGEST_PAUSE));
        self.again = (!self.refused.is_empty()).then_some(next);
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

#[cfg(test)]
mod tests;
