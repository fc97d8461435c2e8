//! Guests that loop, trap, hog and lie, before a real router: no request fails that need not, and
//! the next good version takes over.

use anyhow::{Context, Result};
use http::StatusCode;
use pointsman::load_client::{Answer, Ask};
use pointsman_build::digest;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;

use crate::guests::{guest, varied};

/// A prompt that the guests below misbehave at; dry runs at load are shorter.
pub(crate) const LONG: usize = 200_000;

/// Tokens from which on they do: the router estimates four bytes to a token.
const FROM: usize = LONG / 8;

/// A guest that does `what` in `call` when the prompt is long, and else as the template does.
pub(crate) fn at_long_prompts(call: &str, otherwise: &str, what: &str) -> Vec<u8> {
    let locals = if call == "keep" { "(local $rows i32)" } else { "" };
    varied(&format!(
        ";;; {call}\n\
         (func ${call} (result i32)\n\
           {locals}\n\
           (if (i64.gt_u (global.get $prompt) (i64.const {FROM}))\n\
             (then {what}))\n\
           {otherwise})\n\
         ;;; end\n"
    ))
}

/// Keeps every row, up to 127 of them.
const KEEP_ALL: &str = "
    (local.set $rows (global.get $rows))
    (i64.store (i32.const 2048) (select (i64.const -1)
      (i64.sub (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $rows))) (i64.const 1))
      (i32.ge_u (local.get $rows) (i32.const 64))))
    (i64.store (i32.const 2056)
      (i64.sub (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $rows))) (i64.const 1)))
    (call $ok-list (i32.const 2048)
      (i32.shr_u (i32.add (local.get $rows) (i32.const 63)) (i32.const 6)))";
pub(crate) const SCORE_LOAD: &str = "(call $ok-list (global.get $numbers) \
    (global.get $length))";
const PICK_FIRST: &str = "(call $ok-row (i32.const 0))";
const LOOP: &str = "(call $loop-for-ever)";

async fn start(component: Vec<u8>) -> Result<Rig> {
    let mut plan = Plan::new(2).with_policy("guest", component, "{}");
    // On a starved machine the wall clock may overtake the fuel; these tests tell the two apart.
    plan.selection =
        plan.selection.replace("parameters: {}", "parameters: {}, limits: { deadline: 20s }");
    plan.start().await
}

async fn ask_long(rig: &Rig) -> Result<Answer> {
    Ok(rig.public.ask(&Ask::new(MODEL, "x".repeat(LONG))).await?)
}

pub(crate) async fn last_receipt(rig: &Rig) -> Result<Value> {
    let receipts = rig.admin_json("/v1/receipts?limit=1").await?;
    receipts["receipts"].get(0).cloned().context("there is no receipt")
}

/// The template as a good version: what is written last.
fn good() -> Vec<u8> {
    varied("")
}

async fn takes_over(rig: &Rig) -> Result<()> {
    rig.write_policy("guest", &good())?;
    rig.wait_for_digest("guest", &digest(&good())).await?;
    let answer = ask_long(rig).await?;
    assert!(answer.is_good(), "{}", answer.text());
    assert_eq!(answer.policy(), format!("it@{}", &digest(&good())[..12]));
    assert_eq!(last_receipt(rig).await?["fallback"], Value::Null);
    rig.wait_for_idle().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_guest_costs_no_request_and_its_cause_is_named() -> Result<()> {
    let nan = "(f64.store (global.get $numbers) (f64.const nan))";
    let cases = [
        ("loops in keep", at_long_prompts("keep", KEEP_ALL, LOOP), "fuel"),
        ("loops in score", at_long_prompts("score", SCORE_LOAD, LOOP), "fuel"),
        ("loops in pick", at_long_prompts("pick", PICK_FIRST, LOOP), "fuel"),
        ("traps", at_long_prompts("score", SCORE_LOAD, "unreachable"), "trap"),
        ("scores NaN", at_long_prompts("score", SCORE_LOAD, nan), "bad-output"),
        (
            "picks no row",
            at_long_prompts("pick", PICK_FIRST, "(return (call $ok-row (i32.const 7)))"),
            "bad-output",
        ),
        ("says no", at_long_prompts("score", SCORE_LOAD, "(return (call $refuse))"), "refused"),
    ];
    for (what, component, cause) in cases {
        let rig = start(component).await.context(what)?;
        let short = rig.public.ask(&Ask::new(MODEL, "short")).await?;
        assert!(short.is_good(), "{what}: {}", short.text());
        assert_eq!(last_receipt(&rig).await?["fallback"], Value::Null, "{what}");

        let answer = ask_long(&rig).await?;
        assert!(answer.is_good(), "{what}: {} {}", answer.status, answer.text());
        assert_eq!(answer.policy(), "default@builtin", "{what}");
        let receipt = last_receipt(&rig).await?;
        assert_eq!(receipt["fallback"]["cause"], cause, "{what}: {receipt}");
        for _ in 0..10 {
            let answer = ask_long(&rig).await?;
            assert!(answer.is_good(), "{what}: {} {}", answer.status, answer.text());
        }
        takes_over(&rig).await.context(what)?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_guest_that_is_bad_from_the_start_is_never_taken_up() -> Result<()> {
    let rig = start(good()).await?;
    for bad in [
        "loops-at-start",
        "loops-in-configure",
        "loops-in-keep",
        "loops-in-score",
        "loops-in-pick",
        "hogs-memory",
        "traps",
        "scores-nan",
        "scores-too-few",
        "picks-out-of-range",
        "imports-network",
        "core-module",
        "wrong-version",
    ] {
        rig.write_policy("guest", &guest(bad))?;
        let wanted = digest(&guest(bad));
        rig.wait_for(&format!("{bad} to be refused"), async || {
            let shown = rig.policy_type("guest").await?;
            Ok(shown["wanted_digest"] == wanted && shown["error"].is_string())
        })
        .await?;
        let shown = rig.policy_type("guest").await?;
        assert_eq!(shown["active_digest"], digest(&good()), "{bad}: {shown}");
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert!(answer.is_good(), "{bad}: {}", answer.text());
        assert!(answer.policy().ends_with(&digest(&good())[..12]), "{bad}: {}", answer.policy());
    }
    takes_over(&rig).await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_guest_of_another_contract_is_told_with_both_versions() -> Result<()> {
    let rig = start(good()).await?;
    for (name, sentence) in [
        (
            "older-contract",
            "built for pointsman:policy 0.0.9; this host takes 0.1.x; rebuild it with a current SDK",
        ),
        (
            "wrong-version",
            "built for pointsman:policy 0.2.0; this host takes 0.1.x; rebuild it with this host's \
             SDK, or take a newer host",
        ),
    ] {
        rig.write_policy("guest", &guest(name))?;
        let wanted = digest(&guest(name));
        rig.wait_for(&format!("{name} to be refused"), async || {
            let shown = rig.policy_type("guest").await?;
            Ok(shown["wanted_digest"] == wanted && shown["error"].is_string())
        })
        .await?;
        let shown = rig.policy_type("guest").await?;
        let error = shown["error"].as_str().unwrap_or_default();
        assert!(error.ends_with(&format!("guest.wasm: {sentence}")), "{name}: {shown}");
        assert_eq!(shown["active_digest"], digest(&good()), "{name}: {shown}");
    }
    takes_over(&rig).await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_guest_that_is_bad_when_the_router_starts_leaves_decisions_to_the_built_in() -> Result<()>
{
    for (bad, words) in [
        ("loops-at-start", "fuel"),
        ("loops-in-configure", "fuel"),
        ("loops-in-keep", "fuel"),
        ("loops-in-score", "fuel"),
        ("loops-in-pick", "fuel"),
        ("imports-network", "acme:net"),
        ("core-module", "component"),
    ] {
        let rig = start(guest(bad)).await.context(bad)?;
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        assert!(answer.is_good(), "{bad}: {}", answer.text());
        assert_eq!(answer.policy(), "default@builtin", "{bad}");
        let shown = rig.policy_type("guest").await?;
        assert!(shown["error"].as_str().is_some_and(|text| text.contains(words)), "{bad}: {shown}");
        takes_over(&rig).await.context(bad)?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn its_owner_may_want_a_failure_to_be_an_error() -> Result<()> {
    let component = at_long_prompts("score", SCORE_LOAD, "unreachable");
    let mut plan = Plan::new(2).with_policy("guest", component, "{}");
    plan.selection = plan.selection.replace("parameters: {}", "parameters: {}, on_failure: reject");
    let rig = plan.start().await?;
    let answer = ask_long(&rig).await?;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", answer.text());
    assert_eq!(answer.json()["error"]["type"], "worker_selection_policy", "{}", answer.text());
    assert!(rig.engines.iter().all(|engine| engine.stats().received == 0), "nothing was sent");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_loop_elsewhere_does_not_hold_up_the_others() -> Result<()> {
    // Two models: one decided by a guest that loops, one by the built-in.
    let component = at_long_prompts("score", SCORE_LOAD, LOOP);
    let mut plan = Plan::new(2).with_policy("guest", component, "{}");
    plan.worker_keys[1] = ", routing_group: calm".to_owned();
    let rig = plan.start().await?;
    let client = rig.public.clone();
    let noisy = async {
        for _ in 0..20 {
            let answer = client.ask(&Ask::new(MODEL, "x".repeat(LONG))).await?;
            assert!(answer.is_good(), "{}", answer.text());
            assert_eq!(answer.worker(), "1");
        }
        anyhow::Ok(())
    };
    let calm = async {
        for _ in 0..50 {
            let mut ask = Ask::new(MODEL, "short");
            ask.headers.push(("x-pointsman-routing-group", "calm".to_owned()));
            let answer = rig.public.ask(&ask).await?;
            assert!(answer.is_good(), "{}", answer.text());
            assert_eq!(answer.worker(), "2");
            assert_eq!(last_of(&rig, "calm").await?["fallback"], Value::Null);
        }
        anyhow::Ok(())
    };
    let (noisy, calm) = tokio::join!(noisy, calm);
    noisy?;
    calm?;
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

async fn last_of(rig: &Rig, group: &str) -> Result<Value> {
    let receipts = rig.admin_json("/v1/receipts?limit=100").await?;
    let all = receipts["receipts"].as_array().context("no receipts")?;
    let found = all.iter().find(|receipt| receipt["partition"]["routing_group"] == group);
    found.cloned().context("no receipt of the group")
}

#[tokio::test]
async fn whatever_is_written_into_the_folder_requests_are_answered() -> Result<()> {
    let rig = start(good()).await?;
    for name in crate::guests::all() {
        let component = guest(&name);
        rig.write_policy("guest", &component)?;
        let wanted = digest(&component);
        rig.wait_for(&format!("{name} to be taken up or refused"), async || {
            let shown = rig.policy_type("guest").await?;
            Ok(shown["active_digest"] == wanted
                || shown["wanted_digest"] == wanted && shown["error"].is_string())
        })
        .await?;
        let answer = rig.public.ask(&Ask::new(MODEL, "hello")).await?;
        // A filter that rejects every row has not failed: that is its answer.
        let filtered = name == "keeps-none" && answer.status == StatusCode::SERVICE_UNAVAILABLE;
        assert!(answer.is_good() || filtered, "{name}: {} {}", answer.status, answer.text());
    }
    takes_over(&rig).await?;
    rig.stop().await;
    Ok(())
}
