//! Asking an engine for batches that it has published before.
//!
//! Owns the replay connection, which is made for each answer and dropped with it, and what follows
//! from the answer: a restart leads to asking again, from the first batch on. How soon an engine may
//! be asked again is [`super::pace`]'s to say.

use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{AT_ONCE, END, Subscriber, parse};
use crate::feeds::cursor::Replayed;
use crate::feeds::endpoint::Address;
use crate::feeds::stats::{FeedState, add};
use crate::feeds::zmtp::{Connection, Socket, ZmtpError};

/// Answers to one need that are asked for, at most: each restart found in one asks for another.
const MOST_REPLAYS: u32 = 4;

/// Times that the replay socket is tried, if it refuses.
const MOST_REFUSALS: u32 = 4;

/// What an answer to a replay request came to.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It ended, whole or given up.
    Ended { complete: bool },
    /// Another engine answered.
    Restarted,
    /// What was known of the rank is wrong.
    Misled,
}

impl Subscriber {
    /// Asks for batches from `due` on, if any are due, and again as long as answers ask for it.
    pub(super) async fn catch_up(&mut self, mut due: Option<u64>) {
        for _ in 0..MOST_REPLAYS {
            let Some(from) = due else { break };
            due = self.replay(from).await;
        }
        if due.is_some() {
            self.cursor.replay_ended(false);
        }
        self.tally();
        self.stats.enter(FeedState::Live);
        self.sink.live(self.config.rank);
    }

    /// Asks for batches once. Returns from where on to ask again.
    async fn replay(&mut self, from: u64) -> Option<u64> {
        let address = self.config.source.replay_endpoint.clone()?;
        self.stats.enter(FeedState::Recovering);
        add(&self.stats.counters.replays, 1);
        sleep_until(self.pace.next(Instant::now())).await;
        let answer = self.ask(&address, from).await;
        let answer = answer.unwrap_or_else(|error| {
            add(&self.stats.counters.replays_failed, 1);
            self.stats.fail(format!("replay from {address}: {error}"));
            Answer::Ended { complete: false }
        });
        match answer {
            Answer::Restarted => {
                self.intake.restart(&*self.sink);
                Some(0)
            }
            Answer::Misled => {
                self.intake.clear(&*self.sink);
                self.cursor.refill()
            }
            Answer::Ended { complete } => self.cursor.replay_ended(complete).restarted.then(|| {
                self.intake.restart(&*self.sink);
                0
            }),
        }
    }

    /// Connects to where old batches are. An engine that comes up may open its sockets one after
    /// another, so what refuses is tried a few times.
    async fn connect_to_ask(&self, address: &Address) -> Result<Connection, ZmtpError> {
        let timing = self.config.timing;
        let mut wait = timing.first_retry;
        for _ in 1..MOST_REFUSALS {
            match Connection::connect(address, Socket::Dealer, timing.connect).await {
                Err(ZmtpError::Io(_)) => tokio::time::sleep(wait).await,
                connected => return connected,
            }
            wait *= 2;
        }
        Connection::connect(address, Socket::Dealer, timing.connect).await
    }

    async fn ask(&mut self, address: &Address, from: u64) -> Result<Answer, ZmtpError> {
        let timing = self.config.timing;
        // Only what we wait for is given up: a batch that is being applied is applied to its end.
        let deadline = Instant::now() + timing.replay;
        let late = |_| ZmtpError::TimedOut(timing.replay);
        let mut connection =
            timeout_at(deadline, self.connect_to_ask(address)).await.map_err(late)??;
        // The other side sees our identity before these: three frames, as it wants them.
        let request = [&b""[..], &from.to_be_bytes()];
        timeout_at(deadline, connection.send(&request)).await.map_err(late)??;
        for count in 1_u32.. {
            if Instant::now() >= deadline {
                return Err(ZmtpError::TimedOut(timing.replay));
            }
            let frames = timeout(timing.replay_silence, connection.next())
                .await
                .map_err(|_| ZmtpError::TimedOut(timing.replay_silence))??;
            let Some((seq, payload)) = parse(&frames) else {
                self.stats.malformed(format!(
                    "a replay of {} frames that don't end in number and events",
                    frames.len()
                ));
                continue;
            };
            if seq == END {
                break;
            }
            let read = self.read(payload).await;
            match self.cursor.replayed(seq, read.as_ref().ok().copied()) {
                Replayed::Known => {}
                Replayed::Restarted => return Ok(Answer::Restarted),
                Replayed::Apply => {
                    add(&self.stats.counters.replayed, usize::from(read.is_ok()));
                    if !self.apply(seq, payload, read).await {
                        return Ok(Answer::Misled);
                    }
                }
            }
            if count.is_multiple_of(AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
        Ok(Answer::Ended { complete: true })
    }
}
