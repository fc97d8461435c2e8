//! For how long an answer may stay silent, and last as a whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Which time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impatience {
    /// Between two chunks.
    Idle,
    /// For the whole request.
    Total,
}

impl Impatience {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "the worker fell silent",
            Self::Total => "the answer took longer than a request may",
        }
    }
}

/// Two clocks on one timer. The silent time counts from the last progress, or from when somebody
/// began to wait after it: a client that reads slowly isn't the worker's fault.
#[derive(Debug)]
pub(in crate::openai) struct Patience {
    idle: Duration,
    /// When the whole is over.
    end: Instant,
    /// When the present silence began; none while nobody waits.
    since: Option<Instant>,
    /// Made when somebody waits: most answers come in one piece.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(in crate::openai) fn new(idle: Duration, end: Instant) -> Self {
        Self { idle, end, since: None, timer: None }
    }

    /// Something came.
    pub(super) fn renew(&mut self) {
        self.since = None;
    }

    /// Waits for the end of patience. To be polled when nothing comes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Impatience> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let until = self.end.min(since + self.idle);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        // The timer is moved back only when it goes off too early: progress itself costs nothing.
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= until {
                let total = until == self.end;
                return Poll::Ready(if total { Impatience::Total } else { Impatience::Idle });
            }
            timer.as_mut().reset(until);
        }
    }
}
