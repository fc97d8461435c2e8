//! The demo's traffic: bursts and a steady flow, and what came of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::report::say;
use super::stage::MODEL;
use crate::load_client::{Answer, Ask, AskError, LoadClient};

/// What came of some requests.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Good answers by worker.
    pub(super) workers: BTreeMap<String, usize>,
    /// Good answers by policy.
    pub(super) policies: BTreeMap<String, usize>,
    /// What was wrong with the others.
    pub(super) failed: Vec<String>,
    /// Good answers that streamed.
    streamed: usize,
}

impl Tally {
    fn add(&mut self, answer: Result<Answer, AskError>) {
        match answer {
            Ok(answer) if answer.is_good() => {
                *self.workers.entry(answer.worker().to_owned()).or_default() += 1;
                *self.policies.entry(answer.policy().to_owned()).or_default() += 1;
                self.streamed += usize::from(answer.body.starts_with(b"data:"));
            }
            Ok(answer) => {
                let text: String = answer.text().chars().take(300).collect();
                self.failed.push(format!("{}: {text}", answer.status));
            }
            Err(error) => self.failed.push(error.to_string()),
        }
    }

    pub(super) fn print(&self, sent: usize) {
        let good = sent - self.failed.len();
        let spread: Vec<String> =
            self.workers.iter().map(|(worker, n)| format!("worker {worker}: {n}")).collect();
        say(
            false,
            &format!(
                "{good} of {sent} answered ({} streamed); {}",
                self.streamed,
                spread.join(", ")
            ),
        );
    }
}

/// The `n`th request of the demo: one in five plain, sessions of ten, one in seven a tool's result.
fn ask(n: usize) -> Ask {
    let mut ask = Ask::new(
        MODEL,
        format!("Question {n}: {}", "tell me more about the railway. ".repeat(n % 17 + 1)),
    );
    ask.stream = !n.is_multiple_of(5);
    ask.session = Some(format!("session-{}", n / 10));
    ask.tool_result = n.is_multiple_of(7);
    ask.max_tokens = 4 + (n % 13) as u32;
    ask
}

/// Sends `count` requests, `at_once` at a time.
pub(super) async fn burst(client: &LoadClient, count: usize, at_once: usize) -> Tally {
    let mut tally = Tally::default();
    let mut running = JoinSet::new();
    for n in 0..count {
        if running.len() >= at_once {
            join(&mut running, &mut tally).await;
        }
        start(&mut running, client, n);
    }
    while !running.is_empty() {
        join(&mut running, &mut tally).await;
    }
    tally
}

/// Requests of a flow that wait for an answer, at most: a machine that can't keep up isn't asked for
/// more and more at once.
const MOST_AT_ONCE: usize = 256;

/// Sends `rate` requests a second, or as many as are answered, until it is told to stop.
pub(super) async fn flow(client: LoadClient, rate: u32, stop: CancellationToken) -> Tally {
    let mut tally = Tally::default();
    let mut running = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for n in 0.. {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => start(&mut running, &client, n),
        }
        while let Some(done) = running.try_join_next() {
            tally.add(done.unwrap_or_else(|_| Err(AskError::Patience)));
        }
        while running.len() >= MOST_AT_ONCE {
            join(&mut running, &mut tally).await;
        }
    }
    while !running.is_empty() {
        join(&mut running, &mut tally).await;
    }
    tally
}

type Running = JoinSet<Result<Answer, AskError>>;

fn start(running: &mut Running, client: &LoadClient, n: usize) {
    let client = client.clone();
    running.spawn(async move { client.ask(&ask(n)).await });
}

async fn join(running: &mut Running, tally: &mut Tally) {
    if let Some(done) = running.join_next().await {
        tally.add(done.unwrap_or_else(|_| Err(AskError::Patience)));
    }
}
