//! One streamed answer in the making: queue, prefill, then an event a token, at the engine's speed.
//!
//! Polled by the connection that sends it, so a client that goes away drops it, and with it the visit and its seats. It has one
//! timer. Tokens are due at fixed times from the start of decoding: a late wake-up is made up for instead of slowing the stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

use super::chunks::{BROKEN, Chunks, DONE, ERROR, Usage};
use super::connection::{Ending, Link};
use super::control::{FaultKind, StreamFault};
use super::engine::{Engine, THAW_CHECK};
use super::error::Broken;
use super::request::{Job, Kind};
use super::visit::Visit;

type Turn = Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>;

/// What is sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Role(usize),
    Token { step: u32, choice: usize },
    Usage,
    Done,
    Nothing,
}

/// A streamed answer.
pub(super) struct Generation {
    engine: Arc<Engine>,
    link: Arc<Link>,
    visit: Visit,
    job: Job,
    chunks: Chunks,
    fault: Option<StreamFault>,
    /// Its place in the queue, until its turn comes.
    turn: Option<Turn>,
    /// When the next token is due.
    due: Instant,
    interval: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer has yet to fire before the next event.
    waiting: bool,
    next: Next,
    sent: u32,
    /// Prompt tokens that were in the prefix cache.
    cached: u64,
    /// An event was broken on purpose, so the answer doesn't count as completed.
    spoiled: bool,
    /// What was sent has been flushed, so the connection may now be cut.
    flushed: bool,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("next", &self.next)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Generation {
    pub(super) fn new(
        engine: Arc<Engine>,
        link: Arc<Link>,
        mut visit: Visit,
        job: Job,
        id: &str,
        fault: Option<StreamFault>,
    ) -> Self {
        visit.wait();
        let now = Instant::now();
        Self {
            chunks: Chunks::new(&engine, &job, id),
            turn: Some(Box::pin(engine.turn(job.choices))),
            due: now,
            interval: engine.config.decode_interval(),
            timer: Box::pin(sleep_until(now)),
            waiting: false,
            next: if job.kind == Kind::Chat {
                Next::Role(0)
            } else {
                Next::Token { step: 0, choice: 0 }
            },
            sent: 0,
            cached: 0,
            spoiled: false,
            flushed: false,
            engine,
            link,
            visit,
            job,
            fault,
        }
    }

    /// Whether everything has been sent.
    pub(super) fn is_over(&self) -> bool {
        self.next == Next::Nothing
    }

    /// The next event; `None` at the end.
    pub(super) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(turn) = &mut self.turn {
            let seats = ready!(turn.as_mut().poll(cx));
            self.turn = None;
            self.start(seats);
        }
        if let Some(fault) = &self.fault
            && self.sent >= fault.after_chunks
            && !self.is_over()
        {
            let kind = fault.kind;
            if let Some(outcome) = ready!(self.break_off(kind, cx)) {
                return Poll::Ready(outcome);
            }
        }
        if self.is_over() {
            return Poll::Ready(None);
        }
        ready!(self.poll_due(cx));
        self.sent = self.sent.saturating_add(1);
        Poll::Ready(Some(Ok(self.event())))
    }

    fn start(&mut self, seats: OwnedSemaphorePermit) {
        let prompt = self.job.prompt_tokens();
        let blocks =
            self.job.prompts.iter().map(|prompt| self.engine.blocks(prompt.tokens.len())).sum();
        self.visit.run(seats, prompt, blocks);
        self.cached = self.engine.compute(&self.job);
        let prefill = self.engine.config.prefill_time(prompt);
        self.due = Instant::now();
        self.wait(prefill);
    }

    /// The next event is due so much later than the one before.
    fn wait(&mut self, time: Duration) {
        if !time.is_zero() {
            self.due += time;
            self.timer.as_mut().reset(self.due);
            self.waiting = true;
        }
    }

    /// Waits for the time of the next event, and as long as the engine is frozen.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.waiting {
                ready!(self.timer.as_mut().poll(cx));
                self.waiting = false;
            }
            if !self.engine.control.frozen() {
                return Poll::Ready(());
            }
            // Time doesn't pass for a frozen engine: the tokens that follow are due from now on.
            self.due = Instant::now();
            self.wait(THAW_CHECK);
        }
    }

    fn event(&mut self) -> Bytes {
        match self.next {
            Next::Role(choice) => {
                let further = choice + 1 < self.job.choices;
                self.next = if further {
                    Next::Role(choice + 1)
                } else {
                    Next::Token { step: 0, choice: 0 }
                };
                self.chunks.role(choice)
            }
            Next::Token { step, choice } => self.token(step, choice),
            Next::Usage => {
                self.next = Next::Done;
                self.chunks.usage(Usage::of(&self.job, self.cached))
            }
            Next::Done | Next::Nothing => {
                self.next = Next::Nothing;
                if self.spoiled {
                    self.visit.fail()
                } else {
                    self.visit.complete(self.job.finish)
                }
                DONE
            }
        }
    }

    fn token(&mut self, step: u32, choice: usize) -> Bytes {
        self.visit.generated(1);
        self.grow(step, choice);
        let last = step + 1 == self.job.tokens;
        let event = if last {
            self.chunks.last_token(choice, step)
        } else {
            self.chunks.token(choice, step)
        };
        if choice + 1 < self.job.choices {
            self.next = Next::Token { step, choice: choice + 1 };
        } else if !last {
            self.next = Next::Token { step: step + 1, choice: 0 };
            self.wait(self.interval);
        } else {
            self.next = if self.job.include_usage { Next::Usage } else { Next::Done };
        }
        event
    }

    /// Takes a further block when the choice's tokens have filled the last one.
    fn grow(&mut self, step: u32, choice: usize) {
        let per_prompt = (self.job.choices / self.job.prompts.len().max(1)).max(1);
        let prompt =
            self.job.prompts.get(choice / per_prompt).map_or(0, |prompt| prompt.tokens.len());
        if (prompt + step as usize).is_multiple_of(self.engine.config.block_size as usize) {
            self.visit.grow(1);
        }
    }

    /// Breaks the answer. `None`: go on after all.
    fn break_off(
        &mut self,
        kind: FaultKind,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Option<Result<Bytes, Broken>>>> {
        match kind {
            // Nothing wakes this up again but the client's going away.
            FaultKind::Hang => return Poll::Pending,
            FaultKind::Reset | FaultKind::Close | FaultKind::MalformedChunk => {
                // One turn of the connection first, in which it writes out what was sent before.
                if !std::mem::replace(&mut self.flushed, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.link.end_with(Ending::of(kind));
                self.visit.fail();
                self.next = Next::Nothing;
                return Poll::Ready(Some(Some(Err(Broken))));
            }
            FaultKind::End => {
                self.visit.fail();
                self.next = Next::Nothing;
                return Poll::Ready(Some(None));
            }
            FaultKind::MalformedEvent => {
                self.fault = None;
                self.spoiled = true;
                return Poll::Ready(Some(Some(Ok(BROKEN))));
            }
            FaultKind::ErrorEvent => {
                self.fault = None;
                self.spoiled = true;
                self.next = Next::Done;
            }
        }
        Poll::Ready(Some(Some(Ok(ERROR))))
    }
}
