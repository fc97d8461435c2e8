//! Two workers that share a request: what each is told, what the client sees, and what is left behind.
//!
//! The engines are strict: a prefill engine refuses what isn't a prefill, and a decode engine a prompt that
//! no prefill engine has for it.

mod adapters;
mod classified;
mod conditional;
mod failures;
mod pins;

use anyhow::{Context, Result};
use http::Method;
use pointsman::load_client::{Answer, Ask, AskError};
use pointsman::mock_engine::{MockProtocol, MockRole};
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId, WorkerTarget};
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::request::RouteRequest;
use pointsman_tests::rig::{MODEL, Plan, Rig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use MockProtocol::{Sglang, Vllm};
use MockRole::{Decode, Prefill};

/// Engines of these roles; worker n is the nth.
fn plan(protocol: MockProtocol, roles: &[MockRole]) -> Plan {
    let mut plan = Plan::new(roles.len());
    for (at, &role) in roles.iter().enumerate() {
        plan.engines[at].role = role;
        plan.engines[at].protocol = protocol;
        let speaks = match (protocol, role) {
            (_, MockRole::Aggregated) => "",
            (Sglang, Prefill) => ", disaggregation: { protocol: sglang, bootstrap_port: {port} }",
            (Sglang, _) => ", disaggregation: { protocol: sglang }",
            (Vllm, _) => ", disaggregation: { protocol: vllm }",
        };
        let role = format!("{role:?}").to_lowercase();
        plan.worker_keys[at] = format!(", role: {role}{speaks}");
    }
    plan
}

/// A request on its way, for as long as this is kept.
fn sent(rig: &Rig, ask: Ask) -> JoinSet<Result<Answer, AskError>> {
    let client = rig.public.clone();
    JoinSet::from_iter([async move { client.ask(&ask).await }])
}

/// Its answer.
async fn answer_to(mut sent: JoinSet<Result<Answer, AskError>>) -> Result<Answer> {
    Ok(sent.join_next().await.context("it was sent")???)
}

fn prefill_worker(answer: &Answer) -> &str {
    answer.header("x-pointsman-prefill-worker")
}

fn ask(stream: bool) -> Ask {
    Ask { stream, ..Ask::new(MODEL, "a question of some length, and then some") }
}

async fn receipts(rig: &Rig, count: usize) -> Result<Vec<Value>> {
    let all = rig.admin_json(&format!("/v1/receipts?limit={count}")).await?;
    Ok(all["receipts"].as_array().context("there are no receipts")?.clone())
}

async fn counted(rig: &Rig, series: &str) -> Result<f64> {
    let text = rig.admin.get("/metrics").await?.text();
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(found.with_context(|| format!("{series} is not in\n{text}"))?.parse()?)
}

/// Load of so many tokens on a worker, for as long as this is kept.
async fn load(rig: &Rig, role: Role, worker: u64, tokens: u64) -> Result<Decision> {
    let partition = PartitionKey { model: MODEL.into(), routing_group: DEFAULT_GROUP.into(), role };
    let mut request = RouteRequest::new("load", partition, tokens);
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(worker), dp_rank: None });
    Ok(rig.server.app().dispatcher.decide(request.into(), Mode::Book).await?)
}

#[tokio::test]
async fn two_workers_share_a_request_and_the_client_sees_one_answer() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode]).start().await?;
        let mut served = 0;
        for stream in [true, false] {
            let mut with_id = ask(stream);
            with_id.headers.push(("x-request-id", format!("mine-{stream}")));
            let answer = rig.public.ask(&with_id).await?;
            assert!(answer.is_good(), "{protocol:?} {stream}: {}", answer.text());
            assert_eq!((answer.worker(), prefill_worker(&answer)), ("2", "1"), "{protocol:?}");
            assert!(answer.text().contains("eight"), "all its tokens came: {}", answer.text());
            served += 1;

            let both = receipts(&rig, 2).await?;
            let mut roles: Vec<_> = both.iter().map(|r| r["partition"]["role"].clone()).collect();
            roles.sort_by_key(ToString::to_string);
            assert_eq!(roles, ["decode", "prefill"]);
            for receipt in &both {
                assert_eq!(receipt["request_id"], format!("mine-{stream}"));
            }
            for engine in &rig.engines {
                let last = engine.last_request().context("it was asked")?;
                let ids: Vec<_> = last.values("x-request-id").collect();
                assert_eq!(ids, [format!("mine-{stream}")]);
            }
            let body = json!({ "model": MODEL, "prompt": [1, 2, 3, 4], "max_tokens": 3, "stream": stream });
            let answer = rig.public.post("/v1/completions", &body).await?;
            assert!(answer.is_good(), "{protocol:?} {stream}: {}", answer.text());
            served += 1;
        }
        rig.wait_for_idle().await?;
        assert_eq!(rig.engines[0].stats().handed_over, served, "{protocol:?}");
        assert_eq!(rig.engines[1].stats().fetched, served);
        assert_eq!(rig.engines[0].stats().kept, 0, "nothing is left behind");
        for role in ["prefill", "decode"] {
            let labels = format!("model=\"{MODEL}\",outcome=\"completed\",role=\"{role}\"");
            let series = format!("pointsman_legs_total{{{labels}}}");
            let all = async || Ok(counted(&rig, &series).await.unwrap_or(0.0) == served as f64);
            rig.wait_for(role, all).await?;
        }
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_batch_has_a_room_for_each_prompt() -> Result<()> {
    for protocol in [Vllm, Sglang] {
        let rig = plan(protocol, &[Prefill, Decode]).start().await?;
        let body = json!({ "model": MODEL, "prompt": ["one two", "three", "four five six"], "max_tokens": 2 });
        let answer = rig.public.post("/v1/completions", &body).await?;
        assert!(answer.is_good(), "{protocol:?}: {}", answer.text());
        assert_eq!(answer.json()["choices"].as_array().map(Vec::len), Some(3));
        rig.wait_for_idle().await?;
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_body_is_changed_in_nothing_but_what_the_workers_tell_each_other() -> Result<()> {
    let rig = plan(Vllm, &[Prefill, Decode]).start().await?;
    let body = format!(
        "{{ \"model\" : \"{MODEL}\",\n\"kv_transfer_params\": {{\"remote_host\":\"evil\"}}, \"temperature\": 0.50,\
         \"prompt\":\"caf\\u00e9 }}\" , \"max_tokens\": 3 }}"
    );
    let sent = rig.public.send_bytes(Method::POST, "/v1/completions", &[], body.into()).await?;
    assert!(sent.is_good(), "{}", sent.text());
    let got = rig.engines[1].last_request().context("it was asked")?.body;
    let got = String::from_utf8(got.to_vec())?;
    let (before, params) = got.split_once(",\"kv_transfer_params\":").context("it has them")?;
    assert_eq!(
        before,
        format!(
            "{{ \"model\" : \"{MODEL}\",\n \"temperature\": 0.50,\"prompt\":\"caf\\u00e9 }}\" , \"max_tokens\": 3 "
        )
    );
    assert!(
        params.contains("\"remote_host\":\"127.0.0.1\"") && !params.contains("evil"),
        "{params}"
    );
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn prompts_are_spread_over_prefill_workers_when_they_are_chosen() -> Result<()> {
    let roles = [Prefill, Prefill, Prefill, Prefill, Prefill, Decode];
    let rig = plan(Vllm, &roles).start().await?;
    for engine in &rig.engines[..5] {
        engine.control().update(|control| control.hang_before_headers = true)?;
    }
    let mut running = JoinSet::new();
    for request in 0..25_u32 {
        let client = rig.public.clone();
        let ids: Vec<u32> = (0..32_768).map(|at| request * 40_000 + at).collect();
        let body = json!({ "model": MODEL, "prompt": ids, "max_tokens": 1 });
        running.spawn(async move { client.post("/v1/completions", &body).await });
        // Nothing has been answered: only what was booked can spread them.
        let booked = u64::from(request + 1);
        let waiting = async || -> Result<Vec<u64>> {
            let rows = rig.load_rows().await?;
            let of =
                |row: &Value| row["active_requests"].as_u64().filter(|_| row["worker_id"] != 6);
            Ok(rows.iter().filter_map(of).collect())
        };
        rig.wait_for("the booking", async || Ok(waiting().await?.iter().sum::<u64>() == booked))
            .await?;
        let waiting = waiting().await?;
        let (most, least) = (waiting.iter().max(), waiting.iter().min());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{waiting:?}");
    }
    drop(running);
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn aggregated_workers_stand_in_for_a_pair_that_is_not_whole() -> Result<()> {
    let rig = plan(Vllm, &[Prefill, Decode, MockRole::Aggregated]).start().await?;
    let shared = rig.public.ask(&ask(true)).await?;
    assert_eq!((shared.worker(), prefill_worker(&shared)), ("2", "1"), "{}", shared.text());
    // Who is pinned to one of them, gets that.
    let mut pinned = ask(true);
    pinned.headers.push(("x-worker-instance-id", "3".to_owned()));
    let alone = rig.public.ask(&pinned).await?;
    assert_eq!((alone.is_good(), alone.worker(), prefill_worker(&alone)), (true, "3", ""));
    // What can't be shared, too.
    let input = json!({ "model": MODEL, "input": "one two" });
    assert_eq!(rig.public.post("/v1/embeddings", &input).await?.worker(), "3");
    rig.admin.send(Method::DELETE, "/v1/workers/1", &[], None).await?;
    let alone = rig.public.ask(&ask(true)).await?;
    assert_eq!((alone.is_good(), alone.worker(), prefill_worker(&alone)), (true, "3", ""));
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_decode_worker_is_alone_with_a_prompt_only_where_that_is_wanted() -> Result<()> {
    for (mode, status) in [("auto", 200), ("enforce", 503), ("off", 404)] {
        let mut plan = plan(Vllm, &[Decode]);
        plan.engines[0].computes_prompts = true;
        plan.more += &format!("proxy: {{ disaggregation: {mode} }}\n");
        let rig = plan.start().await?;
        let answer = rig.public.ask(&ask(true)).await?;
        assert_eq!(answer.status.as_u16(), status, "{mode}: {}", answer.text());
        let models = rig.public.get("/v1/models").await?.json();
        let listed = (mode != "off").then_some(MODEL);
        assert_eq!(models["data"][0]["id"].as_str(), listed, "{mode}");
        rig.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_client_tells_a_decode_worker_that_is_alone_of_no_blocks_either() -> Result<()> {
    let mut plan = plan(Vllm, &[Decode]);
    plan.engines[0].computes_prompts = true;
    let rig = plan.start().await?;
    let body = json!({ "model": MODEL, "prompt": "one two", "max_tokens": 2, "kv_transfer_params": {
        "do_remote_prefill": true, "remote_host": "127.0.0.1", "remote_port": 9,
        "remote_engine_id": "another", "remote_block_ids": [1] } });
    // The engine would refuse it: nobody has them.
    let answer = rig.public.post("/v1/completions", &body).await?;
    assert!(answer.is_good(), "{}", answer.text());
    rig.wait_for_idle().await?;
    rig.stop().await;
    Ok(())
}

#[tokio::test]
async fn encode_workers_are_chosen_when_asked_for_and_sent_nothing() -> Result<()> {
    let mut plan = plan(Vllm, &[MockRole::Aggregated, MockRole::Aggregated]);
    plan.worker_keys[0] = ", role: encode".to_owned();
    plan.selection = "  encode: it\n  instances: [{ name: it, type: round-robin }]\n".to_owned();
    let rig = plan.start().await?;
    let picture = json!({ "model": MODEL, "max_tokens": 1, "messages": [{ "role": "user", "content": [
        { "type": "text", "text": "what is it?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
    ] }] });
    let answer = rig.public.post("/v1/chat/completions", &picture).await?;
    assert_eq!(answer.worker(), "2", "{}", answer.text());
    let facts = json!({ "model": MODEL, "role": "encode", "prompt_tokens": 10 });
    let told = rig.admin.post("/v1/route", &facts).await?;
    assert!(told.is_good(), "{}", told.text());
    assert_eq!(
        (&told.json()["worker_id"], &told.json()["policy"]["name"]),
        (&json!(1), &json!("it"))
    );
    assert_eq!(rig.engines[0].stats().received, 0);
    // Alone they serve nobody.
    rig.admin.send(Method::DELETE, "/v1/workers/2", &[], None).await?;
    assert_eq!(rig.public.post("/v1/chat/completions", &picture).await?.status.as_u16(), 503);
    rig.stop().await;
    Ok(())
}
