//! More clients than the engines can serve, over HTTP: what each class gets, who goes first, and what
//! becomes of those who can't wait for long. Answers are counted, and nothing is timed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use http::StatusCode;
use pointsman::load_client::{Answer, Ask};
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;
use tokio::task::JoinSet;

/// Each class with its share, in hundredths; a request costs several of these tokens.
const CLASSES: [(&str, u64); 3] = [("gold", 50), ("silver", 30), ("bronze", 20)];
const ENGINES: u64 = 4;
/// Of each class: so many that some of them always wait.
const CLIENTS: u64 = 32;

/// A worker with any prompt to compute is busy, and is so for a moment.
async fn start() -> Result<Rig> {
    let mut plan = Plan::new(ENGINES as usize);
    for engine in &mut plan.engines {
        engine.prefill_ms = Some(2.0);
    }
    let classes: String = CLASSES
        .iter()
        .map(|(name, quantum)| {
            format!("  - {{ name: {name}, quantum: {quantum}, prefill_busy_threshold: 0 }}\n")
        })
        .collect();
    // A frozen engine answers no probe either.
    plan.more = format!(
        "health: {{ interval: 1h }}\ndefault_policy_family: gold\npolicy_classes:\n{classes}"
    );
    plan.start().await
}

fn freeze(rig: &Rig, frozen: bool) -> Result<()> {
    for engine in &rig.engines {
        engine.control().update(|control| control.frozen = frozen)?;
    }
    Ok(())
}

/// A request of a class whose prompt begins as no other does.
fn question(class: &str, number: u64) -> Ask {
    let mut ask = Ask::new(MODEL, format!("{number:08} a question, as long as all the others"));
    ask.max_tokens = 1;
    ask.headers.push(("x-pointsman-policy-class", class.to_owned()));
    ask
}

async fn pending(rig: &Rig) -> Result<BTreeMap<String, u64>> {
    let loads = rig.admin_json("/v1/loads").await?;
    let classes = loads["partitions"][0]["pending"].as_array().context("classes")?.clone();
    let read = |class: &Value| {
        Some((class["policy_class"].as_str()?.to_owned(), class["requests"].as_u64()?))
    };
    classes.iter().map(|class| read(class).context("a class")).collect()
}

/// Clients of each class, which ask again when they are answered, until somebody stops them. All
/// engines are frozen, and all that they haven't waits.
struct Crowd {
    rig: Rig,
    clients: JoinSet<Result<()>>,
    answers: tokio::sync::mpsc::UnboundedReceiver<(&'static str, Answer)>,
    asked: Arc<AtomicU64>,
}

impl Crowd {
    async fn gather(
        ask: impl Fn(&'static str, u64) -> Ask + Send + Sync + 'static,
    ) -> Result<Self> {
        let rig = start().await?;
        freeze(&rig, true)?;
        let (ask, asked) = (Arc::new(ask), Arc::new(AtomicU64::new(0)));
        let (answered, answers) = tokio::sync::mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for (class, _) in CLASSES {
            for _ in 0..CLIENTS {
                let (client, ask, asked) = (rig.public.clone(), ask.clone(), asked.clone());
                let answered = answered.clone();
                clients.spawn(async move {
                    loop {
                        let number = asked.fetch_add(1, Ordering::Relaxed);
                        let answer = client.ask(&ask(class, number)).await?;
                        if answered.send((class, answer)).is_err() {
                            return Ok(());
                        }
                    }
                });
            }
        }
        rig.wait_for("all clients to wait", async || {
            let waiting: u64 = pending(&rig).await?.values().sum();
            Ok(waiting + ENGINES == 3 * CLIENTS)
        })
        .await?;
        Ok(Self { rig, clients, answers, asked })
    }

    /// The next answers, in the order in which they come.
    async fn answers(&mut self, most: usize) -> Result<Vec<(&'static str, Answer)>> {
        let mut all = Vec::with_capacity(most);
        while all.len() < most {
            all.push(self.answers.recv().await.context("the clients are gone")?);
        }
        Ok(all)
    }

    /// All clients leave. Nothing of them stays.
    async fn leaves(mut self) -> Result<()> {
        self.clients.shutdown().await;
        self.rig.wait_for_idle().await?;
        assert_eq!(pending(&self.rig).await?.values().sum::<u64>(), 0);
        self.rig.stop().await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_class_gets_its_quantums_share_of_what_is_served() -> Result<()> {
    let mut crowd = Crowd::gather(question).await?;
    freeze(&crowd.rig, false)?;
    // Those that the engines had before.
    crowd.answers(ENGINES as usize).await?;
    let served = 1_500;
    let mut counts = BTreeMap::new();
    for (class, answer) in crowd.answers(served).await? {
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        *counts.entry(class).or_insert(0_u64) += 1;
    }
    for (class, share) in CLASSES {
        let (got, due) = (counts[class] as f64 / served as f64, share as f64 / 100.0);
        assert!((got / due - 1.0).abs() < 0.02, "{class}: {got} of {due}; {counts:?}");
    }
    assert!(crowd.asked.load(Ordering::Relaxed) > served as u64);
    let metrics = crowd.rig.admin.get("/metrics").await?.text().to_owned();
    for (class, _) in CLASSES {
        let count = format!(
            "pointsman_queue_wait_seconds_count{{model=\"{MODEL}\",outcome=\"decided\",policy_class=\"{class}\""
        );
        let line = metrics.lines().find(|line| line.starts_with(&count));
        let count: u64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
        assert!(count >= counts[class], "{class}: {line:?}");
        let last =
            format!("le=\"+Inf\",model=\"{MODEL}\",outcome=\"decided\",policy_class=\"{class}\"");
        assert!(metrics.contains(&last), "{class}");
    }
    crowd.leaves().await
}

/// What a receipt says of when a request was decided, and since when it had waited at the latest.
fn stay(receipt: &Value) -> Option<(u64, u64, u64)> {
    let (id, now_ms) = (receipt["decision_id"].as_u64()?, receipt["now_ms"].as_u64()?);
    Some((id, now_ms, now_ms - receipt["queued_ms"].as_u64()?))
}

/// Others that may have been taken out of the line, and be decided, when a request comes: as many as
/// threads that decide.
const MOST_TAKEN_OUT: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_priority_never_waits_behind_lower_whatever_its_class() -> Result<()> {
    let mut crowd = Crowd::gather(|class, number| {
        let mut ask = question(class, number);
        let urgent = u64::from(number.is_multiple_of(7));
        ask.headers.push(("x-dynamo-request-strict-priority", urgent.to_string()));
        ask.headers.push(("x-request-id", format!("{urgent}-{number}")));
        ask
    })
    .await?;
    freeze(&crowd.rig, false)?;
    for (_, answer) in crowd.answers(900).await? {
        assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    }
    let receipts = crowd.rig.admin_json("/v1/receipts?limit=1000").await?["receipts"].take();
    let receipts = receipts.as_array().context("there are receipts")?;
    let is_urgent =
        |receipt: &&Value| receipt["request_id"].as_str().is_some_and(|id| id.starts_with("1-"));
    let (urgent, usual): (Vec<&Value>, Vec<&Value>) = receipts.iter().partition(is_urgent);
    let usual: Vec<_> = usual.iter().filter_map(|receipt| stay(receipt)).collect();
    let mut waited = 0;
    for (id, _, since_ms) in urgent.iter().filter_map(|receipt| stay(receipt)) {
        waited += 1;
        let before: Vec<_> =
            usual.iter().filter(|(its, now_ms, _)| *its < id && *now_ms > since_ms).collect();
        assert!(before.len() <= MOST_TAKEN_OUT, "{before:?} before {id}, waiting since {since_ms}");
    }
    assert!(waited > 50 && usual.len() > 400, "{waited} urgent ones and {} others", usual.len());
    crowd.leaves().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_due_is_decided_before_that_or_told_that_it_was_too_late() -> Result<()> {
    const DUE_MS: u64 = 40;
    let is_due = |number: u64| number.is_multiple_of(3);
    let mut crowd = Crowd::gather(move |class, number| {
        let mut ask = question(class, number);
        // Those that the clients begin with are to wait.
        if is_due(number) && number >= 3 * CLIENTS {
            ask.headers.push(("x-pointsman-due-ms", DUE_MS.to_string()));
            ask.headers.push(("x-request-id", format!("due-{number}")));
        }
        ask
    })
    .await?;
    // Nothing is served, and so whoever is due now is late.
    let mut late = question("gold", 1);
    late.headers.push(("x-pointsman-due-ms", DUE_MS.to_string()));
    let answer = crowd.rig.public.ask(&late).await?;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{}", answer.text());
    freeze(&crowd.rig, false)?;
    for (_, answer) in crowd.answers(900).await? {
        if answer.status == StatusCode::GATEWAY_TIMEOUT {
            assert_eq!(answer.json()["error"]["type"], "deadline_exceeded");
        } else {
            assert!(answer.is_good(), "{} {}", answer.status, answer.text());
        }
    }
    let receipts = crowd.rig.admin_json("/v1/receipts?limit=1000").await?["receipts"].take();
    let receipts = receipts.as_array().context("there are receipts")?;
    let due = receipts
        .iter()
        .filter(|receipt| receipt["request_id"].as_str().is_some_and(|id| id.starts_with("due-")));
    let queued: Vec<u64> = due.filter_map(|receipt| receipt["queued_ms"].as_u64()).collect();
    assert!(queued.iter().all(|ms| *ms < DUE_MS), "{queued:?}");
    crowd.leaves().await
}
