//! How components are taken up: beside each other, and with a word on those that are of no use.

use anyhow::Result;
use http::StatusCode;
use pointsman::cli::check::{Report, check};
use pointsman::load_client::Ask;
use pointsman_build::digest;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::Value;

use crate::guests::{guest, slow, varied};

/// Keeps no row, however many there are.
const KEEPS_NONE: &str = ";;; keep
(func $keep (result i32)
  (memory.fill (i32.const 2048) (i32.const 0) (i32.const 64))
  (call $ok-list (i32.const 2048)
    (i32.shr_u (i32.add (global.get $rows) (i32.const 63)) (i32.const 6))))
;;; end
";

async fn checked(rig: &Rig) -> Result<Report> {
    let file = rig.config_file();
    Ok(tokio::task::spawn_blocking(move || check(&file)).await?)
}

#[tokio::test]
async fn a_component_that_compiles_for_long_holds_up_neither_another_nor_requests() -> Result<()> {
    let rig = Plan::new(1).with_policy("guest", guest("template"), "{}").start().await?;
    rig.write_policy("slow", slow())?;
    for round in 0..3 {
        let bytes = varied(&format!(";;; data\n(data (i32.const 1400) \"{round}\")\n;;; end\n"));
        rig.write_policy("guest", &bytes)?;
        rig.wait_for_digest("guest", &digest(&bytes)).await?;
        assert!(rig.public.ask(&Ask::new(MODEL, "hello")).await?.is_good());
    }
    let types = rig.admin_json("/v1/policies").await?["types"].clone();
    let names: Vec<&Value> =
        types.as_array().into_iter().flatten().map(|shown| &shown["type"]).collect();
    assert_eq!(names, ["guest"], "the slow one isn't there yet");
    // Whoever asks for a reload is told when all is there.
    let answer = rig.admin.post("/v1/policies/reload", &serde_json::json!({})).await?;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    rig.wait_for_digest("slow", &digest(slow())).await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_policy_that_keeps_no_made_up_worker_is_taken_up_and_warned_of() -> Result<()> {
    let keeps_none = varied(KEEPS_NONE);
    let rig = Plan::new(1).with_policy("guest", guest("template"), "{}").start().await?;
    let report = checked(&rig).await?;
    assert!(!report.to_string().contains("made-up"), "{report}");
    rig.write_policy("guest", &keeps_none)?;
    rig.wait_for_digest("guest", &digest(&keeps_none)).await?;
    let shown = rig.admin_json("/v1/policies").await?;
    let told = shown["instances"][0]["warning"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("its filters keep no worker"), "{shown}");
    let report = checked(&rig).await?;
    assert!(report.is_good(), "{report}");
    let text = report.to_string();
    assert!(text.contains("warning: ") && text.contains("its filters keep no worker"), "{text}");
    assert!(text.contains("instance \"it\" for default: in all 6"), "{text}");
    // None of it was counted as if requests had met it.
    assert_eq!(shown["components"]["instances_lost"], 0);
    assert_eq!(shown["instances"][0]["partitions"][0]["all_filtered"], 0);
    rig.stop().await;
    Ok(())
}
