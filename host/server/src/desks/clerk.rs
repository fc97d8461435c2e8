//! The task that works at one partition's desk.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::classifier::{Arrived, Desk, Released};
use pointsman_core::clock::Stopwatch;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::sleep;

use super::{Answer, Caller};
use crate::clock::RouterClock;

/// A turn longer than this belongs on a blocking thread.
const SLOW: Duration = Duration::from_micros(200);

/// How a slow turn weighs, in quick ones, and from where on the clerk is slow: as the gates of
/// decisions have it.
const SLOW_WEIGHS: u32 = 100;
const SLOW_FROM: u32 = 200;
const MOST_SLOWNESS: u32 = 1_000;

/// Requests that one turn takes in, so that events aren't kept waiting by a crowd.
const MOST_AT_ONCE: usize = 64;

/// How often a clerk with nothing to do looks whether there is still a partition.
const IDLE: Duration = Duration::from_secs(30);

/// Works at a desk.
#[derive(Debug)]
pub(super) struct Clerk {
    desk: Arc<Desk>,
    clock: Arc<RouterClock>,
    callers: mpsc::UnboundedReceiver<Caller>,
    bell: Arc<Notify>,
    /// Those whose requests are held, by their lifecycle.
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    slowness: u32,
}

/// What one turn came to.
#[derive(Debug)]
struct Turn {
    held: Vec<(u64, oneshot::Sender<Answer>)>,
    released: Vec<Released>,
    held_now: u64,
    /// When there is something to do by itself, in how long.
    due_in: Option<Duration>,
}

impl Clerk {
    pub(super) fn new(
        desk: Arc<Desk>,
        clock: Arc<RouterClock>,
        callers: mpsc::UnboundedReceiver<Caller>,
    ) -> Self {
        let bell = Arc::new(Notify::new());
        let rung = bell.clone();
        desk.on_mail(move || rung.notify_one());
        Self { desk, clock, callers, bell, waiting: HashMap::new(), slowness: 0 }
    }

    /// Works until nobody can call any more. `retire` is asked now and then, and shuts the counter
    /// if the partition is gone.
    pub(super) async fn work(mut self, retire: impl Fn(&Arc<Desk>)) {
        let mut due_in = None;
        loop {
            let mut callers = Vec::new();
            let idle = pin!(sleep(due_in.map_or(IDLE, |due: Duration| due.min(IDLE))));
            tokio::select! {
                caller = self.callers.recv() => match caller {
                    Some(caller) => callers.push(caller),
                    None => return,
                },
                () = self.bell.notified() => {}
                () = idle => retire(&self.desk),
            }
            while callers.len() < MOST_AT_ONCE
                && let Ok(caller) = self.callers.try_recv()
            {
                callers.push(caller);
            }
            let Some(turn) = self.turn(callers).await else { return };
            due_in = turn.due_in;
            self.answer(turn);
        }
    }

    /// None if the thread died.
    async fn turn(&mut self, callers: Vec<Caller>) -> Option<Turn> {
        let (desk, clock) = (self.desk.clone(), self.clock.clone());
        let upheaval = self.desk.is_in_upheaval();
        let watch = Stopwatch::start();
        let turn = if upheaval || self.slowness > SLOW_FROM {
            // Its callers go with it: whoever asked is answered, or told that nobody is there.
            tokio::task::spawn_blocking(move || take(&desk, &clock, callers)).await.ok()
        } else {
            Some(take(&desk, &clock, callers))
        };
        let now = self.slowness;
        self.slowness = match watch.elapsed() > SLOW && !upheaval {
            true => (now + SLOW_WEIGHS).min(MOST_SLOWNESS),
            false => now.saturating_sub(1),
        };
        turn
    }

    fn answer(&mut self, Turn { held, released, held_now, .. }: Turn) {
        self.waiting.extend(held);
        for Released { generation, result } in released {
            if let Some(answer) = self.waiting.remove(&generation) {
                // Who left meanwhile says so by its lifecycle.
                drop(answer.send(result));
            }
        }
        // Those who left while they were held.
        if self.waiting.len() as u64 > held_now {
            self.waiting.retain(|_, answer| !answer.is_closed());
        }
    }
}

/// One turn at the desk: what happened, then who calls.
fn take(desk: &Desk, clock: &RouterClock, callers: Vec<Caller>) -> Turn {
    desk.catch_up(clock.now_ms());
    let mut held = Vec::new();
    for Caller { arrival, ticket, answer } in callers {
        let generation = ticket.generation();
        let admitted = match desk.arrive(arrival, ticket, clock.now_ms()) {
            Ok(Arrived::Held) => {
                held.push((generation, answer));
                continue;
            }
            Ok(Arrived::Admitted(admitted)) => Ok(admitted),
            Err(error) => Err(error),
        };
        drop(answer.send(admitted));
    }
    let now_ms = clock.now_ms();
    let due_in = desk.due_at_ms(now_ms);
    Turn {
        held,
        released: desk.take_released(),
        held_now: desk.counts().held_now,
        due_in: due_in.map(|at| Duration::from_millis(at.saturating_sub(now_ms))),
    }
}
