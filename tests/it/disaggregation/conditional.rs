//! Prompts that aren't worth a second worker.

use super::*;

/// One prefill worker, one decode worker that can do it alone, and the rule.
async fn rig(rule: &str, decode_keys: &str) -> Result<Rig> {
    let mut plan = plan(Vllm, &[Prefill, Decode]);
    plan.engines[1].computes_prompts = true;
    plan.worker_keys[0] += ", max_num_batched_tokens: 1_000";
    plan.worker_keys[1] += decode_keys;
    plan.more +=
        &format!("router: {{ use_kv_events: false, router_conditional_disagg: true{rule} }}\n");
    plan.start().await
}

async fn complete(rig: &Rig, ids: &[u32]) -> Result<Answer> {
    let body = json!({ "model": MODEL, "prompt": ids, "max_tokens": 2 });
    let answer = rig.public.post("/v1/completions", &body).await?;
    assert!(answer.is_good(), "{}", answer.text());
    Ok(answer)
}

const SHORT: &str = ", router_conditional_disagg_eff_isl_threshold: 64";

#[tokio::test]
async fn a_prompt_that_its_decode_worker_knows_is_computed_there() -> Result<()> {
    let rig = rig(SHORT, "").await?;
    let ids: Vec<u32> = (1_000..1_200).collect();
    assert_eq!(prefill_worker(&complete(&rig, &ids).await?), "1", "it is new");
    let known = complete(&rig, &ids).await?;
    assert_eq!((known.worker(), prefill_worker(&known)), ("2", ""));
    assert_eq!(known.header("x-pointsman-cached-tokens"), "192");
    assert_eq!(rig.engines[0].stats().received, 1);
    let series = format!("pointsman_bypassed_prefills_total{{model=\"{MODEL}\",reason=\"short\"}}");
    assert_eq!(counted(&rig, &series).await?, 1.0);
    // 72 new tokens are too many.
    let longer: Vec<u32> = ids[..192].iter().copied().chain(5_000..5_072).collect();
    assert_eq!(prefill_worker(&complete(&rig, &longer).await?), "1");

    // The worker computes what is new to it, and that is booked until the first token.
    rig.engines[1].control().update(|control| control.hang_before_headers = true)?;
    let (client, body) =
        (rig.public.clone(), json!({ "model": MODEL, "prompt": ids, "max_tokens": 2 }));
    let running = JoinSet::from_iter([async move { client.post("/v1/completions", &body).await }]);
    rig.wait_for("the booking", async || {
        let rows = rig.load_rows().await?;
        let decode = rows.iter().find(|row| row["worker_id"] == 2).context("it is there")?;
        Ok(decode["active_requests"] == 1 && decode["active_prefill_tokens"] == 8)
    })
    .await?;
    drop(running);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_busy_prefill_worker_is_spared() -> Result<()> {
    let rule = ", router_conditional_disagg_policy: prefill_load, \
                router_conditional_disagg_prefill_busy_threshold: 0.5";
    let rig = rig(rule, "").await?;
    let prompt = |from: u32| -> Vec<u32> { (from..from + 100).collect() };
    // Exactly half of what it batches, and the request's own tokens don't count.
    let half = load(&rig, Role::Prefill, 1, 500).await?;
    assert_eq!(prefill_worker(&complete(&rig, &prompt(1_000)).await?), "1");
    let more = load(&rig, Role::Prefill, 1, 1).await?;
    assert_eq!(prefill_worker(&complete(&rig, &prompt(2_000)).await?), "");
    let series =
        format!("pointsman_bypassed_prefills_total{{model=\"{MODEL}\",reason=\"prefill_busy\"}}");
    assert_eq!(counted(&rig, &series).await?, 1.0);
    drop((half, more));
    assert_eq!(prefill_worker(&complete(&rig, &prompt(3_000)).await?), "1");
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_decode_worker_that_is_full_or_unknown_computes_no_prompt() -> Result<()> {
    let rule = format!("{SHORT}, router_conditional_disagg_decode_busy_threshold: 0.5");
    let ids: Vec<u32> = (1_000..1_200).collect();
    for (keys, load_blocks, prefill) in [
        ("", 0, "1"),
        (", total_kv_blocks: 1_000", 500, ""),
        (", total_kv_blocks: 1_000", 501, "1"),
    ] {
        let rig = rig(&rule, keys).await?;
        complete(&rig, &ids).await?;
        rig.wait_for_idle().await?;
        let full = load(&rig, Role::Decode, 2, load_blocks * 16).await?;
        let answer = complete(&rig, &ids).await?;
        assert_eq!(prefill_worker(&answer), prefill, "{keys} {load_blocks}");
        drop(full);
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}
