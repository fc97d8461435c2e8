//! Requests for LoRA adapters of models whose prompts are shared.

use super::*;

/// The engine and its worker have the adapter "sql".
fn with_adapter(plan: &mut Plan, at: usize) {
    plan.engines[at].models.push("sql".to_owned());
    plan.worker_keys[at] += ", lora_adapters: [sql]";
}

async fn by(rig: &Rig, model: &str, fields: Value) -> Result<Answer> {
    let mut body = json!({ "model": model, "max_tokens": 2, "prompt": "a question" });
    let more = fields.as_object().context("fields")?.clone();
    body.as_object_mut().context("an object")?.extend(more);
    Ok(rig.public.post("/v1/completions", &body).await?)
}

fn workers(answer: &Answer) -> (&str, &str) {
    (prefill_worker(answer), answer.worker())
}

#[tokio::test]
async fn an_adapters_prompts_and_answers_are_made_where_it_is_loaded() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let mut plan = plan(protocol, &[Prefill, Prefill, Decode, Decode]);
        with_adapter(&mut plan, 1);
        with_adapter(&mut plan, 3);
        let rig = plan.start().await?;
        for _ in 0..4 {
            let answer = by(&rig, "sql", json!({})).await?;
            assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
            assert_eq!(workers(&answer), ("2", "4"), "{protocol:?}");
            assert_eq!(answer.json()["model"], "sql", "the engine was asked for the adapter");
            let answer = by(&rig, MODEL, json!({ "lora_name": "sql" })).await?;
            assert_eq!((answer.is_good(), workers(&answer)), (true, ("2", "4")));
        }
        for engine in [&rig.engines[1], &rig.engines[3]] {
            let last = engine.last_request().context("it was asked")?;
            let body: Value = serde_json::from_slice(&last.body)?;
            assert_eq!((&body["model"], &body["lora_name"]), (&json!(MODEL), &json!("sql")));
        }
        // Which nobody has is for anybody; the model itself is, too.
        for fields in [json!({ "lora_name": "poems" }), json!({})] {
            let answer = by(&rig, MODEL, fields).await?;
            assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
        }
        let unknown = by(&rig, "poems", json!({})).await?;
        assert_eq!(unknown.status.as_u16(), 404);
        assert_eq!(unknown.json()["error"]["type"], "no_such_model");
        let models = rig.public.get("/v1/models").await?.json();
        let ids: Vec<_> = models["data"].as_array().context("a list")?.iter().collect();
        assert_eq!(ids.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["sql", MODEL]);
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn who_has_the_adapter_alone_is_preferred_to_two_of_whom_one_lacks_it() -> Result<()> {
    for lacks in [0, 1] {
        let mut plan = plan(Vllm, &[Prefill, Decode, MockRole::Aggregated]);
        with_adapter(&mut plan, 1 - lacks);
        with_adapter(&mut plan, 2);
        let rig = plan.start().await?;
        let answer = by(&rig, "sql", json!({})).await?;
        assert_eq!((answer.is_good(), workers(&answer)), (true, ("", "3")), "{}", answer.text());
        // The model itself is shared as ever.
        let answer = by(&rig, MODEL, json!({})).await?;
        assert_eq!((answer.is_good(), workers(&answer)), (true, ("1", "2")));
        // Nobody else is left: the engine says what it makes of it.
        rig.admin.send(Method::DELETE, "/v1/workers/3", &[], None).await?;
        let answer = by(&rig, "sql", json!({})).await?;
        assert_eq!(answer.status.as_u16(), 404, "{}", answer.text());
        let whose = if lacks == 0 { ("1", "") } else { ("1", "2") };
        assert_eq!(workers(&answer), whose, "{}", answer.text());
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn an_adapter_whose_workers_are_down_is_served_by_nobody_who_lacks_it() -> Result<()> {
    let mut plan = plan(Vllm, &[Prefill, Prefill, Decode]);
    with_adapter(&mut plan, 1);
    with_adapter(&mut plan, 2);
    let rig = plan.start().await?;
    rig.engines[1]
        .control()
        .update(|control| control.health = pointsman::mock_engine::Health::Unhealthy)?;
    rig.wait_for("it to be unhealthy", async || {
        Ok(rig.admin_json("/v1/workers/2").await?["availability"] == "unhealthy")
    })
    .await?;
    let answer = by(&rig, "sql", json!({})).await?;
    // The decode worker could compute the prompt, if its engine can: this one can't.
    assert_ne!(prefill_worker(&answer), "1", "{}", answer.text());
    assert_eq!(rig.engines[0].stats().received, 0, "it lacks the adapter");
    assert!(by(&rig, MODEL, json!({})).await?.is_good());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}
