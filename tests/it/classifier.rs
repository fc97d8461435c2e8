//! Request classifiers in a running router: sessions one at a time, over a reload and over a trap.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use http::StatusCode;
use pointsman::load_client::Ask;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::guests::guest;

const ONE_AT_A_TIME: &str =
    "request_classifier: { type: session-admission, parameters: { most_in_flight: 100 } }\n";

fn session_admission() -> Result<Vec<u8>> {
    Ok(std::fs::read(guests::session_admission())?)
}

/// A router with a classifier before one engine.
async fn start(policy_type: &str, component: Vec<u8>, section: &str) -> Result<Rig> {
    let mut plan = Plan::new(1);
    // A frozen engine answers no probe either, and isn't to be left out for that.
    plan.more = "health: { interval: 30s, timeout: 30s }\n".to_owned();
    plan.policies.push((format!("{policy_type}.wasm"), component));
    plan.more.push_str(section);
    plan.start().await
}

async fn counts(rig: &Rig) -> Result<Value> {
    Ok(rig.admin_json("/v1/policies").await?["request_classifier"]["partitions"][0].take())
}

async fn held(rig: &Rig) -> Result<Value> {
    Ok(counts(rig).await?["held_now"].take())
}

async fn wait_for_held(rig: &Rig, held_now: u64) -> Result<()> {
    rig.wait_for(&format!("{held_now} to be held"), async || Ok(held(rig).await? == held_now)).await
}

fn of_session(prompt: &str, session: &str) -> Ask {
    Ask { session: Some(session.to_owned()), ..Ask::new(MODEL, prompt) }
}

/// Has the engine keep its answers back, or let them go.
fn freeze(rig: &Rig, frozen: bool) -> Result<()> {
    Ok(rig.engines[0].control().update(|control| control.frozen = frozen)?)
}

/// Questions on their way; the order in which they are answered is kept.
struct Asked {
    tasks: JoinSet<Result<()>>,
    answered: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    fn none() -> Self {
        Self { tasks: JoinSet::new(), answered: Arc::default() }
    }

    fn ask(&mut self, rig: &Rig, prompt: &str, session: &str) {
        let (client, answered) = (rig.public.clone(), self.answered.clone());
        let (ask, prompt) = (of_session(prompt, session), prompt.to_owned());
        self.tasks.spawn(async move {
            let answer = client.ask(&ask).await?;
            anyhow::ensure!(answer.is_good(), "{prompt}: {} {}", answer.status, answer.text());
            answered.lock().unwrap().push(prompt);
            Ok(())
        });
    }

    async fn all(mut self) -> Result<Vec<String>> {
        while let Some(done) = self.tasks.join_next().await {
            done??;
        }
        Ok(std::mem::take(&mut *self.answered.lock().unwrap()))
    }
}

#[tokio::test]
async fn a_session_has_one_request_in_flight_and_the_next_follow_in_their_order() -> Result<()> {
    let rig = start("session-admission", session_admission()?, ONE_AT_A_TIME).await?;
    freeze(&rig, true)?;
    let mut asked = Asked::none();
    asked.ask(&rig, "a1", "a");
    rig.wait_for("a1 to be under way", async || Ok(rig.active_requests().await? == 1)).await?;
    for (waits, prompt) in [(1, "a2"), (2, "a3"), (3, "a4")] {
        asked.ask(&rig, prompt, "a");
        wait_for_held(&rig, waits).await?;
    }
    asked.ask(&rig, "b1", "b");
    rig.wait_for("b1 beside it", async || Ok(rig.active_requests().await? == 2)).await?;
    freeze(&rig, false)?;
    let answered = asked.all().await?;
    let of_a: Vec<_> = answered.iter().filter(|prompt| prompt.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3", "a4"]);
    rig.wait_for_idle().await?;
    rig.wait_for("all to have ended", async || Ok(counts(&rig).await?["live_now"] == 0)).await?;
    let counts = counts(&rig).await?;
    let seen: BTreeMap<_, _> =
        ["admitted", "held", "released", "let_go"].map(|name| (name, counts[name].clone())).into();
    assert_eq!(
        seen,
        [("admitted", 2), ("held", 3), ("released", 3), ("let_go", 0)]
            .map(|(name, count)| (name, Value::from(count)))
            .into()
    );
    let metrics = rig.admin.get("/metrics").await?.text();
    let line = metrics.lines().find(|line| {
        line.starts_with("pointsman_classifier_requests_total{") && line.contains("\"released\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 3")), "{line:?}");
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_held_makes_room() -> Result<()> {
    let rig = start("session-admission", session_admission()?, ONE_AT_A_TIME).await?;
    freeze(&rig, true)?;
    let mut asked = Asked::none();
    asked.ask(&rig, "a1", "a");
    rig.wait_for("a1 to be under way", async || Ok(rig.active_requests().await? == 1)).await?;
    let mut leaves = Asked::none();
    leaves.ask(&rig, "a2", "a");
    wait_for_held(&rig, 1).await?;
    drop(leaves);
    wait_for_held(&rig, 0).await?;
    assert_eq!(counts(&rig).await?["live_now"], 1);
    freeze(&rig, false)?;
    assert_eq!(asked.all().await?, ["a1"]);
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_hot_reload_keeps_the_order_of_what_is_held_and_what_is_under_way() -> Result<()> {
    let component = session_admission()?;
    let rig = start("session-admission", component.clone(), ONE_AT_A_TIME).await?;
    freeze(&rig, true)?;
    let mut asked = Asked::none();
    asked.ask(&rig, "a1", "a");
    rig.wait_for("a1 to be under way", async || Ok(rig.active_requests().await? == 1)).await?;
    for (waits, prompt) in [(1, "a2"), (2, "a3")] {
        asked.ask(&rig, prompt, "a");
        wait_for_held(&rig, waits).await?;
    }
    // The same program as another file: a custom section that nobody reads.
    let mut newer = component;
    newer.extend_from_slice(b"\0\x05\x04newr");
    rig.write_policy("session-admission", &newer)?;
    rig.wait_for("both to be asked about again", async || {
        let counts = counts(&rig).await?;
        Ok(counts["classified"] == 5 && counts["held_now"] == 2)
    })
    .await?;
    assert_eq!(rig.active_requests().await?, 1, "it knows of the one that is under way");
    freeze(&rig, false)?;
    assert_eq!(asked.all().await?, ["a1", "a2", "a3"]);
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_configuration_without_a_classifier_admits_what_is_held() -> Result<()> {
    let rig = start("session-admission", session_admission()?, ONE_AT_A_TIME).await?;
    freeze(&rig, true)?;
    let mut asked = Asked::none();
    asked.ask(&rig, "a1", "a");
    rig.wait_for("a1 to be under way", async || Ok(rig.active_requests().await? == 1)).await?;
    asked.ask(&rig, "a2", "a");
    wait_for_held(&rig, 1).await?;
    let text = std::fs::read_to_string(rig.config_file())?.replace(ONE_AT_A_TIME, "");
    std::fs::write(rig.config_file(), text)?;
    rig.wait_for("both to be under way", async || Ok(rig.active_requests().await? == 2)).await?;
    assert_eq!(rig.admin_json("/v1/policies").await?["request_classifier"], Value::Null);
    freeze(&rig, false)?;
    assert_eq!(asked.all().await?.len(), 2);
    rig.stop().await;
    Ok(())
}

/// Asks until a classifier traps that does so when it is asked about a prompt of 13 tokens, of four bytes
/// each. Returns with how many questions.
async fn trap(rig: &Rig, asked: &mut Asked) -> Result<usize> {
    let mut length = 0;
    while counts(rig).await?["lost"] == 0 {
        length += 1;
        anyhow::ensure!(length < 200, "no prompt has 13 tokens");
        let before = counts(rig).await?["classified"].as_u64().context("a count")?;
        asked.ask(rig, &"x".repeat(length), "s");
        rig.wait_for("it to be asked about", async || {
            Ok(counts(rig).await?["classified"].as_u64() > Some(before))
        })
        .await?;
    }
    Ok(length)
}

#[tokio::test]
async fn the_version_before_stands_in_for_a_new_one_that_traps_and_nobody_is_let_go() -> Result<()>
{
    // The one before admits everybody; the new one holds all until it traps.
    let section = "request_classifier: { type: gate, on_failure: last-good }\n";
    let rig = start("gate", guest("classifier"), section).await?;
    let answer = rig.public.ask(&of_session("first", "s")).await?;
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    let digest = async || {
        let mut counts = counts(&rig).await?;
        anyhow::Ok((
            counts["instance"]["digest"].take(),
            counts["instance"]["stands_in_for"].take(),
        ))
    };
    let (old, _) = digest().await?;
    rig.write_policy("gate", &guest("classifier-traps"))?;
    rig.wait_for("the new one to be there", async || Ok(digest().await?.0 != old)).await?;
    let (new, nobody) = digest().await?;
    assert_eq!(nobody, Value::Null);
    let mut asked = Asked::none();
    asked.ask(&rig, "one", "s");
    wait_for_held(&rig, 1).await?;
    let more = trap(&rig, &mut asked).await?;
    assert_eq!(asked.all().await?.len(), more + 1, "the one before admits them");
    let seen = counts(&rig).await?;
    assert_eq!((&seen["let_go"], &seen["unclassified"]), (&0.into(), &0.into()), "{seen:#}");
    assert!(seen["stood_in"].as_u64() >= Some(1), "{seen:#}");
    // The new one is tried again after a while, and traps at none of what is left.
    let there = digest().await?;
    assert!(there == (old, new.clone()) || there == (new, Value::Null), "{there:?}");
    let metrics = rig.admin.get("/metrics").await?.text();
    assert!(metrics.contains("why=\"last-good\""), "{metrics}");
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_trap_admits_what_is_held_and_costs_no_request() -> Result<()> {
    // It holds all others.
    let rig =
        start("holds", guest("classifier-traps"), "request_classifier: { type: holds }\n").await?;
    let mut asked = Asked::none();
    for (waits, prompt) in [(1, "one"), (2, "two")] {
        asked.ask(&rig, prompt, "s");
        wait_for_held(&rig, waits).await?;
    }
    let more = trap(&rig, &mut asked).await?;
    let counts = counts(&rig).await?;
    assert_eq!((&counts["lost"], &counts["failures"]["trap"]), (&Value::from(1), &Value::from(1)));
    assert!(counts["let_go"].as_u64() >= Some(2), "{counts}");
    assert_eq!(asked.all().await?.len(), more + 2);
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_classifier_that_loops_costs_no_request_unless_its_owner_wants_that() -> Result<()> {
    let looping = guest("classifier-loops-in-on-event");
    let refused = start(
        "loops",
        guest("classifier-loops-in-classify"),
        "request_classifier: { type: loops }\n",
    )
    .await;
    // The trial asks it about made-up requests: such a one never serves, and what stands in for it
    // fails as it did.
    let rig = refused?;
    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
    assert!(answer.is_good(), "{} {}", answer.status, answer.text());
    rig.stop().await;

    let section = "request_classifier: { type: loops, on_failure: reject }\n";
    let rig = start("loops", looping, section).await?;
    let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", answer.text());
    assert_eq!(answer.json()["error"]["type"], "request_classifier_failed");
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_classifier_is_no_policy_and_what_it_refuses_is_told_with_its_place() -> Result<()> {
    let component = session_admission()?;
    let bad =
        "request_classifier: { type: session-admission, parameters: { most_in_flight: 0 } }\n";
    let error =
        start("session-admission", component.clone(), bad).await.err().context("refused")?;
    let text = format!("{error:#}");
    assert!(text.contains("most_in_flight") && text.contains("pointsman.yaml:"), "{text}");
    let error =
        start("session-admission", component.clone(), "request_classifier: { type: nobody }\n")
            .await
            .err()
            .context("refused")?;
    assert!(format!("{error:#}").contains("known: session-admission"), "{error:#}");
    let error = Plan::new(1)
        .with_policy("session-admission", component, "{ most_in_flight: 1 }")
        .start()
        .await
        .err()
        .context("refused")?;
    assert!(format!("{error:#}").contains("selects no workers"), "{error:#}");
    Ok(())
}
