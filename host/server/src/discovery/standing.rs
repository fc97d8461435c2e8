//! How one worker stands: probes, overload, conduct, lease, farewell, and the availability that
//! follows.
//!
//! Owns the rules, and nothing that runs: time comes in, decisions come out. The keeper holds one
//! [`Standing`] per worker under its lock.

use std::time::Duration;

use pointsman_core::fleet::Availability;
use tokio::time::Instant;

use super::conduct::Conduct;
use crate::config::HealthConfig;

/// How soon a worker is probed after a connection to it failed. Long enough for a process to be
/// back at its port, short enough that one refused connection costs it little traffic.
const SOON: Duration = Duration::from_millis(200);

/// The longest text of a failure that is kept.
const MOST_WORDS: usize = 200;

/// A worker may be left alone for no longer than this, whatever it asks for: what it says
/// describes a moment, and a router that believes it for longer loses the worker.
pub(super) const LONGEST_OVERLOAD: Duration = Duration::from_secs(2);

/// A lease: how long it lasts from each heartbeat, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) length: Duration,
    pub(super) until: Instant,
}

/// Why a worker leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Somebody deleted it.
    Deleted,
    /// No heartbeat came.
    LeaseRanOut,
    /// It is no longer in the file.
    LeftFile,
    /// Nobody lists it any longer.
    Unlisted,
}

/// The last probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probed {
    pub(super) at: Instant,
    pub(super) error: Option<String>,
}

/// What makes a worker unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    since: Instant,
    why: String,
}

/// How one worker stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    failure: Option<Failure>,
    /// Probes in a row, since the last of the other kind.
    bad: u32,
    good: u32,
    /// Probes since it became unhealthy.
    attempts: u32,
    /// How often it failed again right after it had come back.
    relapses: u32,
    recovered: Option<Instant>,
    last_probe: Option<Probed>,
    overloaded_until: Option<Instant>,
    /// Clients in a row that were told that they ask too much.
    pub(super) declined: u32,
    pub(super) conduct: Conduct,
    term: Option<Term>,
    farewell: Option<(Farewell, Instant)>,
}

impl Standing {
    /// A newcomer is ready: its first request must not wait for its first probe.
    pub(super) fn new(lease: Option<Duration>, now: Instant) -> Self {
        let mut standing = Self::default();
        standing.set_lease(lease, now);
        standing
    }

    /// What the fleet is to be told.
    pub(super) fn availability(&self) -> Availability {
        if self.farewell.is_some() {
            Availability::Draining
        } else if self.failure.is_some() {
            Availability::Unhealthy
        } else if self.rests_until().is_some() {
            // A worker that is left out for its failures needs a pause, too.
            Availability::Overloaded
        } else {
            Availability::Ready
        }
    }

    /// Why it isn't ready; none when it is.
    pub(super) fn why(&self) -> Option<&str> {
        match (&self.farewell, &self.failure) {
            (Some((Farewell::Deleted, _)), _) => Some("deleted"),
            (Some((Farewell::LeaseRanOut, _)), _) => Some("its lease ran out"),
            (Some((Farewell::LeftFile, _)), _) => Some("no longer in the configuration file"),
            (Some((Farewell::Unlisted, _)), _) => Some("listed no longer"),
            (None, Some(failure)) => Some(&failure.why),
            (None, None) => match self.conduct.why() {
                Some(why) => Some(why),
                None => self.overloaded_until.map(|_| "said that it has too much to do"),
            },
        }
    }

    /// Whether it is there for requests, at the latest when it has rested.
    pub(super) fn is_usable(&self) -> bool {
        self.farewell.is_none() && self.failure.is_none()
    }

    /// It registered again, in the same life: that takes back its farewell, and nothing else. A
    /// worker that doesn't answer isn't healthy because somebody described it anew.
    pub(super) fn registered_again(&mut self, lease: Option<Duration>, now: Instant) {
        self.farewell = None;
        self.set_lease(lease, now);
    }

    /// Renews its lease; false if it has none.
    pub(super) fn heartbeat(&mut self, now: Instant) -> bool {
        let Some(term) = &mut self.term else { return false };
        term.until = now + term.length;
        true
    }

    /// A connection to it failed. Returns whether that is news.
    pub(super) fn unreachable(&mut self, why: &str, now: Instant, config: &HealthConfig) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let relapsed = self.recovered.is_some_and(|at| now.duration_since(at) < config.interval);
        self.relapses = if relapsed { self.relapses.saturating_add(1) } else { 0 };
        self.fail(why, now);
        true
    }

    /// It said that it has too much to do.
    pub(super) fn overloaded(&mut self, for_: Duration, now: Instant) {
        let until = now + for_.min(LONGEST_OVERLOAD);
        self.overloaded_until = Some(self.overloaded_until.map_or(until, |old| old.max(until)));
    }

    /// A probe that began at `began` has ended.
    pub(super) fn probed(
        &mut self,
        answer: Result<(), String>,
        began: Instant,
        now: Instant,
        config: &HealthConfig,
    ) {
        self.attempts = self.attempts.saturating_add(1);
        match answer {
            Ok(()) => {
                self.last_probe = Some(Probed { at: now, error: None });
                self.bad = 0;
                // One that began before a connection failed says nothing about what came after.
                if self.failure.as_ref().is_some_and(|failure| began < failure.since) {
                    return;
                }
                self.good = self.good.saturating_add(1);
                if self.failure.is_some() && self.good >= config.healthy_after {
                    self.failure = None;
                    self.recovered = Some(now);
                }
            }
            Err(why) => {
                let why = bounded(&why);
                self.good = 0;
                self.bad = self.bad.saturating_add(1);
                if self.failure.is_none() && self.bad >= config.unhealthy_after {
                    self.relapses = 0;
                    self.fail(&format!("{} probes failed, the last: {why}", self.bad), now);
                }
                self.last_probe = Some(Probed { at: now, error: Some(why) });
            }
        }
    }

    /// A probe has ended with the word that the engine sleeps: it takes no requests until a probe
    /// finds it awake. Returns whether that is news.
    pub(super) fn fell_asleep(&mut self, now: Instant) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.good = 0;
        let why = "the engine says that it sleeps";
        self.last_probe = Some(Probed { at: now, error: Some(why.to_owned()) });
        let news = self.failure.is_none();
        if news {
            self.relapses = 0;
            self.fail(why, now);
        }
        news
    }

    /// How long until it is probed again, before jitter. One that just failed is probed soon, then
    /// less and less often, and never less often than the others.
    pub(super) fn next_probe_in(&self, config: &HealthConfig) -> Duration {
        if self.failure.is_none() {
            return config.interval;
        }
        let doublings = self.attempts.saturating_add(self.relapses).min(16);
        (SOON * (1 << doublings)).min(config.interval)
    }

    /// It is to leave by `until`. A farewell once said is not put off.
    pub(super) fn leave(&mut self, why: Farewell, until: Instant) {
        self.farewell.get_or_insert((why, until));
    }

    /// When its requests are cut off; none when it isn't leaving.
    pub(super) fn leaves_by(&self) -> Option<Instant> {
        self.farewell.map(|(_, until)| until)
    }

    /// Lets time pass: an overload or a pause ends, a lease runs out.
    pub(super) fn tick(&mut self, now: Instant, drain_timeout: Duration) {
        self.overloaded_until = self.overloaded_until.filter(|&until| until > now);
        self.conduct.tick(now);
        if self.term.is_some_and(|term| term.until <= now) {
            self.term = None;
            self.leave(Farewell::LeaseRanOut, now + drain_timeout);
        }
    }

    /// When [`Standing::tick`] has something to do next.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        let lease = self.term.map(|term| term.until);
        [self.overloaded_until, self.conduct.out_until(), lease].into_iter().flatten().min()
    }

    pub(super) fn term(&self) -> Option<Term> {
        self.term
    }

    pub(super) fn last_probe(&self) -> Option<&Probed> {
        self.last_probe.as_ref()
    }

    /// When its overload and its pause have both ended; none when there is neither.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.overloaded_until.max(self.conduct.out_until())
    }

    fn set_lease(&mut self, lease: Option<Duration>, now: Instant) {
        self.term = lease.map(|length| Term { length, until: now + length });
    }

    fn fail(&mut self, why: &str, now: Instant) {
        self.failure = Some(Failure { since: now, why: bounded(why) });
        self.good = 0;
        self.attempts = 0;
    }
}

fn bounded(words: &str) -> String {
    words.chars().take(MOST_WORDS).collect()
}

#[cfg(test)]
mod tests;
