//! Bodies, events and errors have the shape of the recordings of a real vLLM (in `recorded/`).

use http::{Method, StatusCode};
use serde_json::Value;

use super::client::{Client, chat, chat_stream, request};
use super::{engine, engine_with};

/// All keys in the order of their appearance: no recorded text holds a quote followed by a colon.
fn keys(text: &str) -> Vec<&str> {
    let quotes: Vec<usize> = text.match_indices("\":").map(|(at, _)| at).collect();
    quotes.into_iter().map(|end| &text[text[..end].rfind('"').unwrap() + 1..end]).collect()
}

/// The same value with each scalar replaced by the name of its type.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), shape(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(shape).collect()),
        Value::String(_) => "string".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "bool".into(),
        Value::Null => Value::Null,
    }
}

fn assert_same_shape(recorded: &str, answered: &str) {
    let parsed = |text: &str| shape(&serde_json::from_str(text).unwrap());
    assert_eq!(parsed(recorded), parsed(answered), "shape of {answered}");
    assert_eq!(keys(recorded), keys(answered), "order of keys of {answered}");
}

fn events(text: &str) -> Vec<&str> {
    assert!(text.ends_with("\n\n"), "{text}");
    text.trim_end().split("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect()
}

/// Each recorded event has its like; those in the middle of a longer stream are like the recorded token event.
fn assert_same_events(recorded: &str, answered: &str, opening: usize) {
    let (recorded, answered) = (events(recorded), events(answered));
    let token = opening;
    let closing = recorded.len() - opening - 1;
    for (index, event) in answered.iter().enumerate() {
        let from_end = answered.len() - index;
        let like = if index < opening {
            recorded[index]
        } else if from_end <= closing {
            recorded[recorded.len() - from_end]
        } else {
            recorded[token]
        };
        if like == "[DONE]" {
            assert_eq!(*event, "[DONE]");
        } else {
            assert_same_shape(like, event);
        }
    }
}

#[tokio::test]
async fn whole_answers_have_the_recorded_shape() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let chat = client.whole(chat(2)).await.unwrap();
    assert_same_shape(include_str!("../recorded/chat.json"), &chat.text);
    assert_eq!(chat.header("content-type"), Some("application/json"));
    let chat = chat.json();
    assert_eq!(chat["choices"][0]["message"]["content"], " one two");
    assert_eq!(chat["choices"][0]["finish_reason"], "length");

    let completion = client
        .post("/v1/completions", r#"{"prompt":["one prompt","and one more"],"max_tokens":6}"#)
        .await;
    assert_same_shape(include_str!("../recorded/completion.json"), &completion.text);
    assert_same_shape(
        include_str!("../recorded/models.json"),
        &client.get("/v1/models").await.text,
    );
}

#[tokio::test]
async fn streams_have_the_recorded_events_in_the_recorded_order() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let answer = client.whole(chat_stream(5)).await.unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    assert_eq!(events(&answer.text).len(), 1 + 5 + 1);
    assert_same_events(include_str!("../recorded/chat_stream.sse"), &answer.text, 1);

    let usage = r#""stream":true,"stream_options":{"include_usage":true}"#;
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"max_tokens":5,{usage}}}"#);
    let answer = client.post("/v1/chat/completions", &body).await;
    assert_same_events(include_str!("../recorded/chat_stream_usage.sse"), &answer.text, 1);

    let answer = client
        .post("/v1/completions", &format!(r#"{{"prompt":"hi","max_tokens":5,{usage}}}"#))
        .await;
    assert_same_events(include_str!("../recorded/completion_stream_usage.sse"), &answer.text, 0);
}

#[tokio::test]
async fn a_stream_brings_every_token_in_order_and_then_done() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let answer = client.whole(chat_stream(10)).await.unwrap();
    let parsed = events(&answer.text);
    let (done, chunks) = parsed.split_last().unwrap();
    assert_eq!(*done, "[DONE]");
    let mut text = String::new();
    let mut finishes = Vec::new();
    for chunk in chunks {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap());
        finishes.push(chunk["choices"][0]["finish_reason"].clone());
    }
    assert_eq!(text, " one two three four five six seven eight one two");
    assert!(finishes[..finishes.len() - 1].iter().all(Value::is_null));
    assert_eq!(finishes[finishes.len() - 1], "length");
}

#[tokio::test]
async fn several_choices_are_interleaved_and_each_finishes() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let body = r#"{"prompt":[[1,2,3],[4,5]],"n":2,"max_tokens":3,"stream":true}"#;
    let answer = client.post("/v1/completions", body).await;
    let mut texts = vec![String::new(); 4];
    let mut finished = 0;
    for chunk in events(&answer.text).iter().filter(|event| **event != "[DONE]") {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        let choice = &chunk["choices"][0];
        texts[usize::try_from(choice["index"].as_u64().unwrap()).unwrap()]
            .push_str(choice["text"].as_str().unwrap());
        finished += usize::from(choice["finish_reason"] == "length");
    }
    assert_eq!(texts, [" one two three", " two three four", " three four five", " four five six"]);
    assert_eq!(finished, 4);
}

#[tokio::test]
async fn usage_counts_prompt_and_generated_tokens() {
    let engine = engine_with(|config| config.output_tokens = 7);
    let mut client = Client::connect(engine.addr()).await;
    let usage = |answer: &Value| {
        let usage = &answer["usage"];
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
        ["prompt_tokens", "completion_tokens", "total_tokens"]
            .map(|key| usage[key].as_u64().unwrap())
    };
    let ids =
        client.post("/v1/completions", r#"{"prompt":[1,2,3,4],"max_tokens":2,"n":3}"#).await.json();
    assert_eq!(usage(&ids), [4, 6, 10]);

    let text = client.post("/v1/completions", r#"{"prompt":"no maximum is named"}"#).await.json();
    let tokens = client.post("/tokenize", r#"{"prompt":"no maximum is named"}"#).await.json();
    assert_eq!(usage(&text)[0], tokens["count"].as_u64().unwrap());
    assert_eq!(usage(&text)[1], 7);
    assert_eq!(text["choices"][0]["finish_reason"], "stop");

    let streamed = r#"{"prompt":[1,2,3],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}"#;
    let streamed = client.post("/v1/completions", streamed).await;
    let event = events(&streamed.text);
    assert_eq!(usage(&serde_json::from_str(event[event.len() - 2]).unwrap()), [3, 2, 5]);
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.generated_tokens), (4 + usage(&text)[0] + 3, 6 + 7 + 2));
}

#[tokio::test]
async fn every_answer_names_its_engine() {
    let engine = engine_with(|config| config.name = "worker-7".to_owned());
    let mut client = Client::connect(engine.addr()).await;
    for path in ["/health", "/v1/models", "/nowhere"] {
        assert_eq!(client.get(path).await.header("x-mock-engine"), Some("worker-7"), "{path}");
    }
    let answer = client.whole(chat(1)).await.unwrap();
    assert_eq!(answer.header("x-mock-engine"), Some("worker-7"));
    assert_eq!(answer.json()["system_fingerprint"], "vllm-0.32.0-worker-7");
}

#[tokio::test]
async fn a_request_id_becomes_the_answers_id_and_no_header() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let mut asked = chat(1);
    asked.headers_mut().insert("x-request-id", "my-req-0001".parse().unwrap());
    let answer = client.whole(asked).await.unwrap();
    assert_eq!(answer.json()["id"], "chatcmpl-my-req-0001");
    assert_eq!(answer.header("x-request-id"), None);
    let quoted = r#"a"b"#;
    let mut asked = chat_stream(1);
    asked.headers_mut().insert("x-request-id", quoted.parse().unwrap());
    let answer = client.whole(asked).await.unwrap();
    let first: Value = serde_json::from_str(events(&answer.text)[0]).unwrap();
    assert_eq!(first["id"], r#"chatcmpl-a"b"#);
}

#[tokio::test]
async fn errors_are_word_for_word_those_of_a_vllm() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let long = format!(r#"{{"prompt":"{}"}}"#, "word ".repeat(2000));
    let chat = |rest: &str| format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],{rest}}}"#);
    let (chats, completions) = ("/v1/chat/completions", "/v1/completions");
    let cases = [
        (
            completions,
            r#"{"model":"nope","prompt":"hi"}"#.to_owned(),
            include_str!("../recorded/error_unknown_model.json"),
        ),
        (completions, long, include_str!("../recorded/error_too_long.json")),
        (
            chats,
            chat(r#""max_tokens":5000"#),
            include_str!("../recorded/error_too_many_tokens.json"),
        ),
        (
            chats,
            r#"{"model": "tiny-llama", "messages": ["#.to_owned(),
            include_str!("../recorded/error_bad_json.json"),
        ),
        (
            chats,
            r#"{"model":"tiny-llama"}"#.to_owned(),
            include_str!("../recorded/error_missing_messages.json"),
        ),
        (
            completions,
            r#"{"model":"tiny-llama"}"#.to_owned(),
            include_str!("../recorded/error_missing_prompt.json"),
        ),
        (
            chats,
            chat(r#""temperature":-1"#),
            include_str!("../recorded/error_negative_temperature.json"),
        ),
        (
            chats,
            r#"{"messages":"hi"}"#.to_owned(),
            include_str!("../recorded/error_wrong_type.json"),
        ),
        (
            chats,
            chat(r#""cache_salt":"""#),
            include_str!("../recorded/error_empty_cache_salt.json"),
        ),
        ("/v1/nothing", r#"{"a":1}"#.to_owned(), include_str!("../recorded/error_not_found.json")),
    ];
    let count = cases.len() as u64;
    for (path, body, recorded) in cases {
        let answer = client.post(path, &body).await;
        assert_eq!(answer.text, recorded);
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        let status = recorded["error"]["code"].as_u64().unwrap_or(404);
        assert_eq!(u64::from(answer.status.as_u16()), status);
    }
    let answer = client.get("/v1/chat/completions").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("allow"), Some("POST"));
    assert_eq!(answer.text, include_str!("../recorded/error_wrong_method.json"));
    assert_eq!(engine.stats().failed, count);
    for impossible in [
        r#"{"prompt":"x","n":0}"#,
        r#"{"prompt":"x","n":99999999}"#,
        r#"{"prompt":[4294967295]}"#,
        r#"{"prompt":"x","max_tokens":0}"#,
        "[]",
        "",
        r#"{"prompt":[]}"#,
    ] {
        let answer = client.post(completions, impossible).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{impossible}");
        assert_eq!(answer.json()["error"]["code"], 400, "{impossible}");
    }
}

#[tokio::test]
async fn probes_answer_as_a_vllm_does() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let health = client.get("/health").await;
    assert_eq!(
        (health.status, health.text.as_str(), health.header("content-length")),
        (StatusCode::OK, "", Some("0"))
    );
    assert_eq!(client.get("/version").await.text, r#"{"version":"0.32.0"}"#);
    assert_eq!(client.get("/load").await.text, r#"{"server_load":0}"#);
    client.whole(chat(3)).await.unwrap();
    let metrics = client.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=1.0.0; charset=utf-8"));
    for line in [
        r#"vllm:num_requests_running{engine="0",model_name="tiny-llama"} 0.0"#,
        r#"vllm:num_requests_waiting{engine="0",model_name="tiny-llama"} 0.0"#,
        r#"vllm:kv_cache_usage_perc{engine="0",model_name="tiny-llama"} 0.0"#,
        r#"vllm:generation_tokens_total{engine="0",model_name="tiny-llama"} 3.0"#,
        r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny-llama"} 1.0"#,
        "# TYPE vllm:prompt_tokens_total counter",
    ] {
        assert!(
            metrics.text.lines().any(|found| found == line),
            "{line} is not in\n{}",
            metrics.text
        );
    }
    let paths = engine.stats().paths;
    assert_eq!(paths.get("/health"), Some(&1));
    assert_eq!(paths.get("/v1/chat/completions"), Some(&1));
}

#[tokio::test]
async fn tokens_turn_back_into_their_text() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    let text = "Wörter, tabs\tand   blanks\n\nand an emoji 🦀 at the end ";
    let asked = serde_json::json!({ "prompt": text, "return_token_strs": true }).to_string();
    let tokens = client.post("/tokenize", &asked).await.json();
    assert_eq!(
        tokens["count"].as_u64().unwrap(),
        tokens["token_strs"].as_array().unwrap().len() as u64
    );
    let asked = serde_json::json!({ "tokens": tokens["tokens"] }).to_string();
    assert_eq!(client.post("/detokenize", &asked).await.json()["prompt"], text);
}

#[tokio::test]
async fn embeddings_depend_on_the_text_alone() {
    let engine = engine_with(|config| config.embedding_dims = 3);
    let mut client = Client::connect(engine.addr()).await;
    let floats = client.post("/v1/embeddings", r#"{"input":["same","other","same"]}"#).await.json();
    let vector = |index: usize| floats["data"][index]["embedding"].as_array().unwrap().clone();
    assert_eq!(vector(0), vector(2));
    assert_ne!(vector(0), vector(1));
    let length: f64 = vector(0).iter().map(|number| number.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-6);
    assert_eq!(floats["usage"]["total_tokens"], floats["usage"]["prompt_tokens"]);
    let asked = r#"{"input":"same","encoding_format":"base64"}"#;
    let base64 = client.post("/v1/embeddings", asked).await.json();
    // Three floats are twelve bytes, which are sixteen digits.
    assert_eq!(base64["data"][0]["embedding"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn the_last_request_shows_what_arrived() {
    let engine = engine();
    let mut client = Client::connect(engine.addr()).await;
    assert_eq!(client.get("/mock/last-request").await.status, StatusCode::NOT_FOUND);
    let mut asked = request(Method::POST, "/v1/rerank?top=3", "{\"query\":1}");
    asked.headers_mut().append("x-twice", "a".parse().unwrap());
    asked.headers_mut().append("x-twice", "b".parse().unwrap());
    client.whole(asked).await.unwrap();
    client.get("/health").await;
    let last = client.get("/mock/last-request").await.json();
    assert_eq!(last["method"], "POST");
    assert_eq!(last["path"], "/v1/rerank?top=3");
    assert_eq!(last["body_len"], 11);
    let last = engine.last_request().unwrap();
    assert_eq!(last.values("x-twice").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(&last.body[..], b"{\"query\":1}");
    let names: Vec<&str> = last.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "content-type", "x-twice", "x-twice", "content-length"]);
}
