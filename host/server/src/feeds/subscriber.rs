//! One rank's feed while it runs: connect, catch up, follow; again when it breaks.
//!
//! Owns the sockets and the waiting; `watch` owns the task. What a batch means is [`super::intake`]'s business,
//! whether it is the right one [`super::cursor`]'s. A feed never gives up by itself: an engine that
//! is away is tried again, ever less often, until the [`Feed`] is dropped, which ends it at once.
//!
//! While old batches are asked for, live ones aren't read: they wait in the sockets' buffers, so
//! that nothing is applied out of order and no second queue is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pointsman_core::clock::Chance;
use pointsman_core::ids::WorkerRank;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::cursor::{Cursor, Verdict};
use super::endpoint::Attach;
use super::intake::{CacheSink, Intake};
use super::sources::Source;
use super::stats::{FeedSnapshot, FeedState, FeedStats, add, add_all};
use super::zmtp::{Connection, Listener, Socket, ZmtpError};

mod apply;
mod losses;
mod pace;
mod replay;
mod trouble;
mod watch;

#[cfg(test)]
pub(crate) mod tests;

/// Batches that are applied before other tasks get their turn.
const AT_ONCE: u32 = 32;

/// The number that ends a replay.
const END: u64 = u64::MAX;

/// How long a feed waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a connection, with its handshake.
    pub connect: Duration,
    /// Before the second try to connect; then twice as long each time.
    pub first_retry: Duration,
    /// Before any further try, at most.
    pub last_retry: Duration,
    /// For the next batch of a replay. Wrong requests are never answered.
    pub replay_silence: Duration,
    /// For the whole of a replay.
    pub replay: Duration,
    /// From a connection to the moment when all that is published must arrive.
    pub settle: Duration,
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// For a sign of life from an engine that can give one.
    pub silence: Duration,
    /// Before the log is told that the feed doesn't work.
    pub trouble: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_retry: Duration::from_millis(100),
            last_retry: Duration::from_secs(5),
            replay_silence: Duration::from_secs(5),
            replay: Duration::from_secs(30),
            settle: Duration::from_secs(1),
            heartbeat: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            trouble: Duration::from_secs(10),
        }
    }
}

/// What a feed is of, and how it behaves.
#[derive(Clone, Debug)]
pub struct FeedConfig {
    /// The rank that the blocks are credited to.
    pub rank: WorkerRank,
    /// The worker's block size; learnt from the first blocks if it isn't known.
    pub block_size: Option<u32>,
    /// Where the engine is.
    pub source: Source,
    /// How long it waits.
    pub timing: Timing,
    /// Of the random part of its waits, so that not all feeds try again at once.
    pub seed: u64,
}

/// A running feed. Dropping it ends it; what it has put in the index stays there.
#[derive(Debug)]
pub struct Feed {
    stats: Arc<FeedStats>,
    resync: Arc<Notify>,
    /// The task that watches over it, which ends with the set.
    _tasks: JoinSet<()>,
}

impl Feed {
    /// Starts a feed. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(config: FeedConfig, sink: Arc<dyn CacheSink>) -> Self {
        let (stats, resync) = (Arc::new(FeedStats::default()), Arc::new(Notify::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(watch::run(config, Arc::clone(&stats), Arc::clone(&resync), sink));
        Self { stats, resync, _tasks: tasks }
    }

    /// What is known of it now.
    #[must_use]
    pub fn snapshot(&self) -> FeedSnapshot {
        self.stats.snapshot()
    }

    /// What is known of it, as it goes on.
    #[must_use]
    pub fn stats(&self) -> &Arc<FeedStats> {
        &self.stats
    }

    /// Clears the rank and begins anew: someone else has learnt that the engine restarted, or
    /// dropped its cache without a word.
    pub fn resync(&self) {
        self.resync.notify_one();
    }
}

/// Why a connection is left.
#[derive(Debug)]
enum Left {
    /// It can't go on.
    Broken(String),
    /// Somebody wants to begin anew.
    Resync,
}

struct Subscriber {
    config: FeedConfig,
    intake: Intake,
    cursor: Cursor,
    chance: Chance,
    stats: Arc<FeedStats>,
    resync: Arc<Notify>,
    /// Where the engine connects to, if it does.
    listener: Option<Listener>,
    /// Since when there is a connection.
    connected: Option<Instant>,
    /// How often old batches are asked for.
    pace: pace::Pace,
    /// Bytes of batches that were applied since other tasks had their turn.
    in_a_row: usize,
    /// What the log is told of losses.
    log: losses::Log,
    sink: Arc<dyn CacheSink>,
}

impl Subscriber {
    fn new(
        config: FeedConfig,
        stats: Arc<FeedStats>,
        resync: Arc<Notify>,
        sink: Arc<dyn CacheSink>,
    ) -> Self {
        Self {
            intake: Intake::new(config.rank, config.block_size),
            cursor: Cursor::new(config.source.replay_endpoint.is_some()),
            chance: Chance::new(config.seed),
            pace: pace::Pace::new(&config.timing),
            stats,
            resync,
            listener: None,
            connected: None,
            in_a_row: 0,
            log: losses::Log::default(),
            sink,
            config,
        }
    }

    async fn run(mut self) {
        let timing = self.config.timing;
        let resync = Arc::clone(&self.resync);
        let mut wait = timing.first_retry;
        loop {
            self.connected = None;
            let left = self.session().await;
            // What has held for a while may be back soon.
            if self.connected.is_some_and(|since| since.elapsed() > timing.last_retry) {
                wait = timing.first_retry;
            }
            let Left::Broken(error) = left else { continue };
            tracing::debug!(rank = %self.config.rank, %error, "event feed is down");
            self.stats.fail(error);
            self.stats.enter(FeedState::Down);
            // Between half of it and all of it.
            let pause = wait.mul_f64(0.5 + 0.5 * self.chance.unit());
            tokio::select! {
                () = tokio::time::sleep(pause) => {
                    wait = wait.saturating_mul(2).min(timing.last_retry);
                }
                () = resync.notified() => self.begin_anew(),
            }
        }
    }

    /// From a connection to its end.
    async fn session(&mut self) -> Left {
        let resync = Arc::clone(&self.resync);
        let connected = tokio::select! {
            connected = self.connect() => connected,
            () = resync.notified() => {
                self.begin_anew();
                return Left::Resync;
            }
        };
        let mut live = match connected {
            Ok(connection) => connection,
            Err(left) => return left,
        };
        self.connected = Some(Instant::now());
        add(&self.stats.counters.connections, 1);
        let due = self.cursor.opened();
        self.catch_up(due).await;
        live.forgive();
        let mut heartbeat = tokio::time::interval(self.config.timing.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A subscription takes a moment to get through; what was published meanwhile shows as a gap
        // with the next batch, but the next batch may be long in coming.
        let settle = tokio::time::sleep(self.config.timing.settle);
        tokio::pin!(settle);
        let mut settled = false;
        let mut in_a_row = 0_u32;
        loop {
            let message = tokio::select! {
                message = live.next() => message,
                _ = heartbeat.tick() => {
                    if let Err(error) = live.beat(self.config.timing.silence) {
                        return self.broken(&error);
                    }
                    in_a_row = 0;
                    continue;
                }
                () = &mut settle, if !settled => {
                    settled = true;
                    let due = self.cursor.settle();
                    self.catch_up(due).await;
                    live.forgive();
                    continue;
                }
                () = resync.notified() => {
                    self.begin_anew();
                    return Left::Resync;
                }
            };
            match message {
                Ok(frames) => {
                    self.take_live(&frames).await;
                    live.forgive();
                }
                Err(error) => return self.broken(&error),
            }
            in_a_row = in_a_row.wrapping_add(1);
            if in_a_row.is_multiple_of(AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn begin_anew(&mut self) {
        self.intake.restart(&*self.sink);
        self.cursor = Cursor::new(self.config.source.replay_endpoint.is_some());
    }

    fn broken(&self, error: &ZmtpError) -> Left {
        Left::Broken(format!("events from {}: {error}", self.config.source.endpoint))
    }

    async fn connect(&mut self) -> Result<Connection, Left> {
        let Source { endpoint, topic, attach, .. } = &self.config.source;
        let (socket, patience) = (Socket::Sub { topic }, self.config.timing.connect);
        if *attach == Attach::Connect {
            return Connection::connect(endpoint, socket, patience)
                .await
                .map_err(|error| self.broken(&error));
        }
        let listener = match &mut self.listener {
            Some(listener) => listener,
            none => match Listener::bind(endpoint).await {
                Ok(listener) => none.insert(listener),
                Err(error) => {
                    return Err(Left::Broken(format!(
                        "can't wait for the engine at {endpoint}: {error}; the engine's publisher \
                         connects there, so it must be an address of this host"
                    )));
                }
            },
        };
        Connection::accept(listener, socket, patience)
            .await
            .map_err(|error| Left::Broken(format!("events to {endpoint}: {error}")))
    }

    /// Takes a message of the live connection.
    async fn take_live(&mut self, frames: &[Bytes]) {
        let Some((seq, payload)) = parse(frames).filter(|&(seq, _)| seq != END) else {
            self.stats.malformed(format!(
                "a message of {} frames that aren't topic, number and events; check the endpoint",
                frames.len()
            ));
            return;
        };
        let read = self.read(payload).await;
        let ts = read.as_ref().ok().copied();
        let mut judged = self.cursor.live(seq, ts);
        if judged.clear {
            self.intake.restart(&*self.sink);
        }
        if let Verdict::Recover { from } = judged.verdict {
            self.catch_up(Some(from)).await;
            judged = self.cursor.live(seq, ts);
        }
        self.tally();
        if judged.verdict == Verdict::Duplicate {
            return;
        }
        if !self.apply(seq, payload, read).await {
            self.intake.clear(&*self.sink);
            let due = self.cursor.refill();
            self.catch_up(due).await;
        }
    }

    /// Passes on what the cursor has counted.
    fn tally(&mut self) {
        let (tally, counters) = (self.cursor.take_tally(), &self.stats.counters);
        for (counter, count) in [
            (&counters.gaps, tally.gaps),
            (&counters.lost, tally.lost),
            (&counters.duplicates, tally.duplicates),
            (&counters.restarts, tally.restarts),
        ] {
            add_all(counter, count);
        }
        self.log.note(tally, self.config.rank, self.cursor.can_replay(), self.stats.now_ms());
    }
}

/// A batch's number and its payload. They stand at the end: what stands before differs by version.
fn parse(frames: &[Bytes]) -> Option<(u64, &Bytes)> {
    let [.., seq, payload] = frames else { return None };
    Some((u64::from_be_bytes(seq.as_ref().try_into().ok()?), payload))
}
