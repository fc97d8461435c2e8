//! Following one life's engine: where its events come from, and again when that may have changed.

use std::time::Duration;

use pointsman_core::fleet::CacheFeedMode;
use pointsman_core::router::Router;
use tokio::time::{Instant, sleep_until};

use super::CacheLife;
use super::ask::{Found, ask};
use crate::discovery::probe::Target;
use crate::feeds::{Address, Attach, Source};

/// Between two looks at what nobody tells: the router's settings, the feeds' block sizes.
const LOOK: Duration = Duration::from_secs(10);

/// An engine that tells nothing is asked so often: it may have been started anew, with events.
const RARELY: Duration = Duration::from_secs(60);

/// One that doesn't answer is asked after this, then twice as long each time.
const SOON: Duration = Duration::from_secs(1);

/// What is known of where events come from.
enum Known {
    /// All that there is.
    Sources(Vec<Source>, Option<String>),
    /// Nothing, for a while.
    Nothing(String),
    /// Nothing, for a while, though the engine means to tell.
    Useless(String),
    /// Nothing yet.
    NoAnswer(String),
}

impl CacheLife {
    /// Follows the engine for as long as the caller lets it.
    pub(in crate::discovery) async fn follow(
        &self,
        engine: &Target,
        router: &Router,
        limit: Duration,
    ) {
        let mut pause = SOON;
        loop {
            let believes = router.settings().use_kv_events;
            let version = self.state.lock().version;
            let next = match self.known(engine, believes, limit).await {
                Known::Sources(sources, problem) => {
                    self.take_up(version, sources, problem);
                    None
                }
                Known::Nothing(why) => {
                    self.take_up(version, Vec::new(), Some(why));
                    Some(RARELY)
                }
                Known::Useless(why) => {
                    self.warn_of_useless(&why);
                    self.take_up(version, Vec::new(), Some(why));
                    Some(RARELY)
                }
                Known::NoAnswer(why) => {
                    self.complain(version, why);
                    let wait = pause;
                    pause = (pause * 2).min(RARELY);
                    Some(wait)
                }
            };
            let next = next.map(|wait| Instant::now() + wait);
            loop {
                let look = Instant::now() + LOOK;
                tokio::select! {
                    () = self.wake.notified() => {
                        pause = SOON;
                        break;
                    }
                    () = sleep_until(next.map_or(look, |next| next.min(look))) => {}
                }
                let due = next.is_some_and(|next| Instant::now() >= next);
                if due || router.settings().use_kv_events != believes {
                    break;
                }
                if let Some(run) = &self.state.lock().run {
                    run.warn_of_block_sizes(&self.worker);
                }
            }
        }
    }

    async fn known(&self, engine: &Target, believes: bool, limit: Duration) -> Known {
        if !believes {
            let why = "use_kv_events is false: no events are taken".to_owned();
            return Known::Sources(Vec::new(), Some(why));
        }
        {
            let mut state = self.state.lock();
            let asked = std::mem::take(&mut state.ask_again);
            let feed = &state.wanted;
            if matches!(feed.kv_event_source_mode, CacheFeedMode::Push | CacheFeedMode::None) {
                return Known::Sources(Vec::new(), None);
            }
            if !feed.kv_events_endpoints.is_empty() {
                return self.given(&state, engine.host());
            }
            // Who is pushed to isn't asked, but for an engine that may be another.
            let is_pushed_to = state.run.as_ref().is_some_and(|run| !run.pushed.is_empty());
            if is_pushed_to && !asked {
                return Known::Sources(Vec::new(), None);
            }
        }
        match ask(engine, limit).await {
            Found::Sources(sources) => self.found(sources),
            Found::Nothing(why) => Known::Nothing(format!("the engine names no events: {why}")),
            Found::Useless(why) => {
                Known::Useless(format!("the engine's events can't be followed: {why}"))
            }
            Found::NoAnswer(why) => Known::NoAnswer(format!(
                "the engine can't be asked: {why}; where that stays so, give the worker's event \
                 endpoint by hand"
            )),
        }
    }

    /// What the worker's description gives.
    fn given(&self, state: &super::State, host: &str) -> Known {
        let feed = &state.wanted;
        let read = |text: &String| text.parse::<Address>().map(|address| address.at_host(host));
        let sources = feed.kv_events_endpoints.iter().map(|(&rank, endpoint)| {
            Ok(Source {
                rank,
                attach: Attach::Connect,
                endpoint: read(endpoint)?,
                replay_endpoint: feed.replay_endpoints.get(&rank).map(read).transpose()?,
                topic: feed.kv_events_topic.clone(),
                block_size: None,
            })
        });
        match sources.collect::<Result<Vec<_>, crate::feeds::endpoint::EndpointError>>() {
            Ok(sources) => Known::Sources(sources, None),
            // Registration has read them all.
            Err(error) => Known::Sources(Vec::new(), Some(error.to_string())),
        }
    }

    /// What the engine names, as far as the worker has such ranks.
    fn found(&self, mut sources: Vec<Source>) -> Known {
        let has = |rank: u32| self.worker.ranks.iter().any(|mine| mine.0 == rank);
        let strangers: Vec<_> =
            sources.iter().map(|source| source.rank).filter(|&rank| !has(rank)).collect();
        sources.retain(|source| has(source.rank));
        let size = sources.iter().find_map(|source| source.block_size);
        let problem = match size.filter(|&size| size != self.worker.block_size) {
            Some(size) => {
                tracing::warn!(
                    worker = %self.worker.id, engine = size, registered = self.worker.block_size,
                    "an engine says that its blocks have another size than its worker is registered \
                     with: none of its events will be indexed; register it with the engine's"
                );
                Some(format!(
                    "the engine's blocks have {size} tokens, not {}; register it with these",
                    self.worker.block_size
                ))
            }
            None => strangers.first().map(|rank| {
                format!(
                    "the engine has rank {rank}, and the worker hasn't; mend data_parallel_size"
                )
            }),
        };
        Known::Sources(sources, problem)
    }

    fn take_up(&self, version: u64, sources: Vec<Source>, problem: Option<String>) {
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        if state.problem != problem {
            tracing::debug!(worker = %self.worker.id, problem, "where cache events come from");
        }
        state.problem = problem;
        let same = state.run.as_ref().is_none_or(|run| run.has_sources(&sources));
        if !same {
            let endpoints: Vec<_> =
                sources.iter().map(|source| source.endpoint.to_string()).collect();
            tracing::info!(worker = %self.worker.id, ?endpoints, "cache events are taken from here");
            self.replace(&mut state, sources);
        }
    }

    /// Tells the log, if that is news.
    fn warn_of_useless(&self, why: &str) {
        if self.state.lock().problem.as_deref() != Some(why) {
            tracing::warn!(worker = %self.worker.id, why, "no cache events come from a worker's engine");
        }
    }

    fn complain(&self, version: u64, why: String) {
        let mut state = self.state.lock();
        if state.version == version {
            state.problem = Some(why);
        }
    }
}
