//! The cache that all workers share, asked over HTTP.
//!
//! Owns when it is asked and what becomes of its answer: the positions of a prompt's blocks that it
//! holds, which the request takes along to its decision. It is asked as soon as a prompt's tokens are
//! known, in a task of its own, while the rest of the request is made ready.
//!
//! Nothing that it does fails a request, or holds one up for longer than the settings allow. Without
//! a good answer in time there are no hits, and the reason is counted. After five failures in a row
//! it is left alone for a while (`rest` says for how long). An exchange whose time is up is nobody's
//! any more, but goes on for up to a second: else a cache whose first connection takes long would
//! never have one.
//!
//! Nobody is asked for nothing: only for partitions whose policy reads what a shared cache holds, and
//! only about real tokens. It doesn't know policies, or what hits are worth.

mod exchange;
mod hits;
mod rest;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::Uri;
use parking_lot::Mutex;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::PartitionKey;
use pointsman_core::policy::settings::SharedCacheType;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::SharedCacheConfig;
use crate::dispatch::Dispatcher;
use crate::prompts::Prompt;
use crate::telemetry::{Metrics, Unasked};
use crate::tokens::Source;
use exchange::{Messenger, Unanswered};
use rest::Rest;

/// Positions, in blocks, of what it holds of a prompt: sorted half-open ranges.
pub type SharedHits = Arc<[Range<u32>]>;

/// So many questions are on their way at once, those that nobody waits for included: at a
/// millisecond each, tens of thousands a second.
const AT_ONCE: usize = 32;

/// How long an exchange goes on once its time is up.
const LINGER: Duration = Duration::from_secs(1);

/// The way to the shared cache. Its tasks end with it.
#[derive(Debug)]
pub struct SharedCache {
    dispatcher: Arc<Dispatcher>,
    metrics: Arc<Metrics>,
    messenger: Messenger,
    /// None asks nobody.
    place: ArcSwapOption<Place>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop: DropGuard,
}

/// Where it is, and how it has been doing there.
#[derive(Debug)]
struct Place {
    config: SharedCacheConfig,
    uri: Uri,
    rest: Mutex<Rest>,
}

/// A question that may be on its way.
#[derive(Debug)]
pub struct Asked(Option<oneshot::Receiver<Option<SharedHits>>>);

impl Asked {
    /// What the cache holds; none if it wasn't asked or didn't answer in time. It is there by the
    /// time that the settings allow.
    pub async fn hits(self) -> Option<SharedHits> {
        self.0?.await.ok().flatten()
    }
}

impl SharedCache {
    /// One that is asked on behalf of the dispatcher's partitions.
    #[must_use]
    pub fn new(
        dispatcher: Arc<Dispatcher>,
        metrics: Arc<Metrics>,
        config: &SharedCacheConfig,
    ) -> Self {
        let stop = CancellationToken::new();
        Self {
            dispatcher,
            metrics,
            messenger: Messenger::new(LINGER, AT_ONCE),
            place: ArcSwapOption::new(Place::of(config)),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        }
    }

    /// Asks about a prompt that is to be decided in a partition, if its policy reads the answer.
    #[must_use]
    pub fn ask(&self, partition: &PartitionKey, prompt: &Prompt) -> Asked {
        let found = self.dispatcher.router().partition(partition);
        if found.is_some_and(|partition| partition.reads_shared_cache()) {
            self.ask_anyway(prompt)
        } else {
            Asked(None)
        }
    }

    /// Asks about a prompt, whoever reads the answer.
    #[must_use]
    pub fn ask_anyway(&self, prompt: &Prompt) -> Asked {
        self.ask_at(prompt, self.dispatcher.clock().now_ms())
    }

    /// Takes up another place, unless it is the one that there is. How the old one did says nothing
    /// about it.
    pub fn take_up(&self, config: &SharedCacheConfig) {
        let same = |place: &Arc<Place>| place.config == *config;
        if !self.place.load().as_ref().is_some_and(same) {
            self.place.store(Place::of(config));
        }
    }

    /// Whether it is left alone because it failed.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.place().is_some_and(|place| place.rest.lock().is_on())
    }

    /// Ends what is on its way, and waits for that.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The place, as long as the settings say that there is a shared cache.
    fn place(&self) -> Option<Arc<Place>> {
        let shared = self.dispatcher.router().settings().shared_cache_type;
        (shared != SharedCacheType::None).then(|| self.place.load_full()).flatten()
    }

    fn ask_at(&self, prompt: &Prompt, now_ms: u64) -> Asked {
        // What stands for tokens is in nobody's cache.
        let real = prompt.source.is_some_and(|source| source != Source::Text);
        let Some(place) = self.place().filter(|_| real && !prompt.chain.is_empty()) else {
            return Asked(None);
        };
        let counts = self.metrics.shared_cache();
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            counts.unasked(Unasked::Busy);
            return Asked(None);
        };
        if !place.rest.lock().may_ask(now_ms) {
            counts.unasked(Unasked::Resting);
            return Asked(None);
        }
        let (tell, told) = oneshot::channel();
        let (messenger, metrics) = (self.messenger.clone(), self.metrics.clone());
        let chain = prompt.chain.clone();
        let asking = async move {
            let _room = room;
            let watch = Stopwatch::start();
            let mut exchange = std::pin::pin!(messenger.check_blocks(&place.uri, &chain));
            let limit = place.config.timeout;
            let answer = timeout(limit, &mut exchange).await;
            let late = answer.is_err();
            let answer = answer.unwrap_or(Err(Unanswered::Timeout(limit)));
            let took = watch.elapsed();
            metrics.shared_cache().asked(took);
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let hits = place.heard(answer, chain.len(), &metrics, now_ms.saturating_add(took_ms));
            // Whoever asked may have gone.
            let _ = tell.send(hits);
            if late {
                let _ = timeout(LINGER, exchange).await;
            }
        };
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(asking));
        Asked(Some(told))
    }
}

impl Place {
    fn of(config: &SharedCacheConfig) -> Option<Arc<Self>> {
        let url = config.url.as_deref()?;
        match format!("{url}{}", exchange::PATH).parse() {
            Ok(uri) => Some(Arc::new(Self { config: config.clone(), uri, rest: Mutex::default() })),
            Err(error) => {
                tracing::error!(url, %error, "there is no shared cache at what isn't http://host:port");
                None
            }
        }
    }

    /// Takes note of an answer to a question about so many blocks, or of its absence.
    fn heard(
        &self,
        answer: Result<SharedHits, Unanswered>,
        blocks: usize,
        metrics: &Metrics,
        now_ms: u64,
    ) -> Option<SharedHits> {
        let url = self.config.url.as_deref().unwrap_or_default();
        match answer {
            Ok(hits) => {
                let asked = blocks.min(exchange::MOST_BLOCKS) as u64;
                metrics.shared_cache().answered(asked, hits::count(&hits));
                if self.rest.lock().answered() {
                    tracing::info!(url, "the shared cache answers again");
                }
                Some(hits)
            }
            Err(error) => {
                metrics.shared_cache().failed(error.reason());
                tracing::debug!(url, %error, "the shared cache didn't answer");
                if error.is_its_fault() && self.rest.lock().failed(now_ms) {
                    tracing::warn!(
                        url,
                        %error,
                        "the shared cache fails again and again and isn't asked for a while; \
                         requests are routed without it"
                    );
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
