//! Facts, table by table.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use http::{HeaderName, HeaderValue};
use pointsman_core::ids::Role;
use pointsman_core::request::InputTrigger;
use serde_json::{Value, json};

use super::*;
use crate::prompts::Prompt;

/// Its name and value.
type Header<'a> = (&'static str, &'a str);

/// A session's id, and its parent's.
type Named<'a> = (&'a str, Option<&'a str>);

fn facts(headers: &[(&'static str, &str)], body: &Value) -> Result<RouteRequest, ApiError> {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        })
        .collect();
    let facts = Facts::read(&headers, body.to_string().as_bytes(), true)?;
    let partition = PartitionKey {
        model: facts.model.clone().unwrap_or_default().into(),
        routing_group: facts.group.clone().unwrap_or_default().into(),
        role: Role::Aggregated,
    };
    let prompt = Prompt::unread(facts.length);
    let mut request = facts.into_request("id".into(), partition);
    prompt.describe(&mut request);
    Ok(request)
}

fn good(headers: &[(&'static str, &str)], body: Value) -> RouteRequest {
    facts(headers, &body).unwrap()
}

#[test]
fn a_prompts_length_is_exact_for_token_ids_and_an_estimate_for_text() {
    for (body, tokens, exact) in [
        (json!({}), 0, false),
        (json!({ "prompt": "" }), 0, false),
        (json!({ "prompt": "12345" }), 2, false),
        (json!({ "prompt": "é" }), 1, false),
        (json!({ "prompt": ["1234", "1234"] }), 2, false),
        (json!({ "prompt": [7, 8, 9] }), 3, true),
        (json!({ "prompt": [[7, 8], [9]] }), 3, true),
        (json!({ "prompt": [[7, 8], "1234"] }), 3, false),
        (json!({ "input": "1234" }), 1, false),
        (json!({ "input": [1, 2] }), 2, true),
        (json!({ "messages": [{ "role": "user", "content": "12345678" }] }), 2, false),
        (
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "text", "text": "1234" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAAAAAAAAAA" } },
            ] }] }),
            1,
            false,
        ),
        (
            json!({ "messages": [{ "role": "assistant", "content": null, "tool_calls": [
                { "id": "call", "type": "function",
                  "function": { "name": "look", "arguments": "1234" } },
            ] }] }),
            1,
            false,
        ),
        (json!({ "tools": [{}], "prompt": "" }), 1, false),
        // Not ours to refuse.
        (json!({ "messages": "x", "prompt": { "a": 1 }, "input": 3.5 }), 1, false),
        (json!({ "messages": [1.5, -1, true, null, { "role": 5, "type": [] }] }), 0, false),
    ] {
        let request = good(&[], body.clone());
        assert_eq!((request.prompt_tokens, request.prompt_tokens_exact), (tokens, exact), "{body}");
    }
}

#[test]
fn the_last_message_tells_what_caused_the_request() {
    let user = json!({ "role": "user", "content": "x" });
    let tool = json!({ "role": "tool", "content": "x" });
    let calls = json!({ "role": "assistant", "tool_calls": [{ "type": "function" }] });
    let result = json!({ "role": "user", "content": [
        { "type": "tool_result", "content": "x" }, { "type": "text", "text": "x" } ] });
    for (messages, trigger) in [
        (json!([]), None),
        (json!([user]), Some(InputTrigger::UserMessage)),
        (json!([user, calls, tool]), Some(InputTrigger::ToolResult)),
        (json!([tool, user]), Some(InputTrigger::UserMessage)),
        (json!([tool, calls]), Some(InputTrigger::Other)),
        (json!([user, result]), Some(InputTrigger::ToolResult)),
        (json!([{ "role": "system", "content": "x" }]), Some(InputTrigger::Other)),
    ] {
        let body = json!({ "messages": messages });
        let request = good(&[], body.clone());
        assert_eq!(request.trigger, trigger, "{body}");
    }
    let headers = [("x-pointsman-input-trigger", "tool_result")];
    let request = good(&headers, json!({ "messages": [user] }));
    assert_eq!(request.trigger, Some(InputTrigger::ToolResult));
    let items = json!({ "input": [user, { "type": "function_call_output", "output": "1234" }] });
    let request = good(&[], items);
    assert_eq!(request.trigger, Some(InputTrigger::ToolResult));
}

#[test]
fn sessions_come_under_many_names() {
    let long = "x".repeat(257);
    let just = "x".repeat(256);
    let none = json!({});
    let cases: Vec<(Vec<Header<'_>>, Value, Option<Named<'_>>)> = vec![
        (vec![], none.clone(), None),
        (vec![("x-session-id", "a")], none.clone(), Some(("a", None))),
        (vec![("x-session-id", "")], none.clone(), None),
        (vec![("x-session-id", &long)], none.clone(), None),
        (vec![("x-session-id", &just)], none.clone(), Some((&just, None))),
        (
            vec![("x-session-id", "a"), ("x-dynamo-session-id", "b"), ("x-parent-session-id", "p")],
            none.clone(),
            Some(("b", Some("p"))),
        ),
        (vec![("x-claude-code-session-id", "c")], none.clone(), Some(("c", None))),
        (
            vec![("x-claude-code-session-id", "c"), ("x-claude-code-agent-id", "g")],
            none.clone(),
            Some(("g", Some("c"))),
        ),
        (vec![("thread-id", "t"), ("x-codex-parent-thread-id", "p")], none, Some(("t", Some("p")))),
        (vec![], json!({ "session_id": "v" }), Some(("v", None))),
        (vec![], json!({ "session_id": 5 }), None),
        (
            vec![],
            json!({ "nvext": { "session_context": {
                "session_id": "n", "parent_session_id": "p" } } }),
            Some(("n", Some("p"))),
        ),
        (vec![("x-session-id", "h")], json!({ "session_id": "v" }), Some(("h", None))),
    ];
    for (headers, body, wanted) in cases {
        let session = good(&headers, body.clone()).session;
        let got = session.as_ref().map(|s| (&*s.id, s.parent_id.as_deref()));
        assert_eq!(got, wanted, "{headers:?} {body}");
    }
    let last = [("x-session-id", "s"), ("x-dynamo-session-final", "true")];
    assert_eq!(good(&last, json!({})).session.unwrap().is_final, Some(true));
}

#[test]
fn a_pin_comes_from_headers_first_and_may_leave_the_rank_open() {
    let both = json!({ "nvext": { "backend_instance_id": 5, "dp_rank": 1 } });
    for (headers, body, wanted) in [
        (vec![], json!({}), None),
        (vec![("x-worker-instance-id", "7")], json!({}), Some((7, None))),
        (
            vec![("x-dynamo-worker-instance-id", "7"), ("x-data-parallel-rank", "0")],
            json!({}),
            Some((7, Some(0))),
        ),
        (
            vec![("x-dynamo-worker-instance-id", "7"), ("x-dp-rank", "4294967295")],
            json!({}),
            Some((7, None)),
        ),
        (vec![("x-dp-rank", "4294967295")], json!({}), None),
        (vec![], both.clone(), Some((5, Some(1)))),
        (vec![("x-worker-instance-id", "7")], both, Some((7, Some(1)))),
        (
            vec![],
            json!({ "nvext": { "backend_instance_id": 5, "decode_worker_id": 6 } }),
            Some((6, None)),
        ),
        (vec![], json!({ "nvext": { "backend_instance_id": null } }), None),
        (vec![], json!({ "nvext": null }), None),
    ] {
        let pin = good(&headers, body.clone()).constraints.pinned;
        let got = pin.map(|pin| (pin.worker_id.0, pin.dp_rank.map(|rank| rank.0)));
        assert_eq!(got, wanted, "{headers:?} {body}");
    }
}

#[test]
fn hints_taints_and_the_group_are_read() {
    let body = json!({ "model": "m", "nvext": {
        "agent_hints": { "priority": 5, "strict_priority": 2, "osl": 100, "unknown": [] },
        "routing_constraints": {
            "required_taints": ["a"], "preferred_taints": { "b": 0.5, "c": -1 } },
        "annotations": ["x"],
    } });
    let request = good(&[], body.clone());
    assert_eq!((request.priority_jump, request.strict_priority), (5.0, 2));
    assert_eq!(request.expected_output_tokens, Some(100));
    assert_eq!(request.constraints.preferred_taints.len(), 2);
    let headers = [
        ("x-dynamo-request-priority", "-3"),
        ("x-dynamo-request-strict-priority", "9"),
        ("x-pointsman-required-taints", "d, ,e"),
        ("x-pointsman-routing-group", "g"),
    ];
    let request = good(&headers, body);
    assert_eq!((request.priority_jump, request.strict_priority), (0.0, 9));
    assert_eq!(request.constraints.required_taints, ["a", "d", "e"].map(str::to_owned).into());
    assert_eq!(request.partition.to_string(), "m/g/aggregated");
    let old = json!({ "nvext": { "agent_hints": { "latency_sensitivity": 1.5 } } });
    assert!((good(&[], old).priority_jump - 1.5).abs() < f64::EPSILON);
}

#[test]
fn what_is_not_what_it_should_be_is_refused_with_its_name_its_value_and_what_to_send() {
    let bodies = [
        json!({ "model": 5 }),
        json!({ "nvext": [] }),
        json!({ "nvext": { "backend_instance_id": "x" } }),
        json!({ "nvext": { "decode_worker_id": -1 } }),
        json!({ "nvext": { "dp_rank": 0 } }),
        json!({ "nvext": { "agent_hints": { "priority": 3e9 } } }),
        json!({ "nvext": { "agent_hints": { "osl": -1 } } }),
        json!({ "nvext": { "routing_constraints": { "preferred_taints": { "a": "b" } } } }),
        json!({ "nvext": { "session_context": { "input_trigger": "cosmic ray" } } }),
    ];
    let none = json!({});
    let headers = [
        ("x-dynamo-worker-instance-id", "seven"),
        ("x-dp-rank", "-1"),
        ("x-data-parallel-rank", "3"),
        ("x-dynamo-request-priority", "high"),
        ("x-dynamo-session-final", "perhaps"),
        ("x-pointsman-input-trigger", "tool"),
        ("x-pointsman-routing-group", "é"),
    ];
    let from_bodies = bodies.iter().map(|body| facts(&[], body));
    let from_headers = headers.iter().map(|header| facts(&[*header], &none));
    let errors: Vec<_> =
        from_bodies.chain(from_headers).map(|facts| facts.unwrap_err().json()).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn what_is_quoted_back_stays_on_one_line() {
    for body in
        [&b"f\0\x1b[2J\n"[..], b"{\"model\":\n\t[\r\n5 ]}", b"{\"nvext\":{\"dp_rank\":{\n}}}"]
    {
        let refused = Facts::read(&HeaderMap::new(), body, true).map(drop).unwrap_err();
        assert!(!refused.message().contains(char::is_control), "{}", refused.message());
    }
}

#[test]
fn a_list_of_values_is_no_object() {
    let read = |body: &[u8]| Facts::read(&HeaderMap::new(), body, true).map(drop);
    for body in [
        r#"["m", [{ "role": "user", "content": "x" }]]"#,
        r#"{ "nvext": [null, 7] }"#,
        r#"{ "nvext": { "agent_hints": [5] } }"#,
        r#"{ "nvext": { "routing_constraints": [["a"]] } }"#,
        r#"{ "nvext": { "session_context": ["s"] } }"#,
        r#"{ "nvext": { "session_context": { "session_id": ["s"] } } }"#,
        r#"{ "nvext": { "routing_constraints": { "required_taints": { "a": 1 } } } }"#,
        r#"{ "model": ["m"] }"#,
        r#"[]"#,
        r#""x""#,
        "5",
        "true",
        "null",
        " ",
        "",
    ] {
        let error = read(body.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), "invalid_request", "{body}");
    }
}

#[test]
fn an_error_is_a_sentence_about_the_field_and_has_no_words_of_our_language() {
    let bodies = [
        "",
        "[1, 2]",
        "\"text\"",
        "12",
        "{",
        "{}}",
        "{\"model\": 1, \"model\": 2}",
        "{\"model\": {\"a\": 1}}",
        "{\"session_id\": \"\\ud800\"}",
        "{\"nvext\": 5}",
        "{\"nvext\": {\"dp_rank\": 1, \"dp_rank\": 2}}",
        "{\"nvext\": {\"agent_hints\": \"x\"}}",
        "{\"nvext\": {\"agent_hints\": {\"strict_priority\": \"high\"}}}",
        "{\"nvext\": {\"routing_constraints\": {\"required_taints\": \"a\"}}}",
        "{\"nvext\": {\"routing_constraints\": {\"preferred_taints\": [1]}}}",
        "{\"nvext\": {\"session_context\": {\"session_final\": \"yes\"}}}",
        "{\"nvext\": {\"session_context\": {\"parent_session_id\": 5}}}",
        "{\"nvext\": {\"backend_instance_id\": \"-7\"}}",
    ];
    let errors = bodies.map(|body| {
        let read = Facts::read(&HeaderMap::new(), body.as_bytes(), true);
        let words = read.map(drop).unwrap_err().json();
        for ours in ["struct", "RequestBody", "NvExt", "invalid type", "u64", "i32", "expected a"] {
            assert!(!words.contains(ours), "{body}: {words}");
        }
        format!("{body}\n    {words}")
    });
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn half_a_surrogate_pair_in_a_prompt_is_an_engines_to_judge() {
    let read = |body: &str| Facts::read(&HeaderMap::new(), body.as_bytes(), true);
    for (body, tokens) in [
        (r#"{ "prompt": "1\ud800" }"#, 1),
        (r#"{ "prompt": "\udc00\ud800\ud83d\ude00" }"#, 3),
        (r#"{ "messages": [{ "role": "user", "content": "\ud83d and more" }] }"#, 3),
        (r#"{ "messages": [{ "role": "us\ud800er", "co\ud800": 1, "content": "1234" }] }"#, 1),
        (r#"{ "input": ["\udfff"], "x\ud800": "\ud800" }"#, 1),
    ] {
        assert_eq!(read(body).unwrap().length.tokens(4), tokens, "{body}");
    }
    // What is no JSON besides stays refused.
    for body in
        [r#"{ "prompt": "\ud800" "#, r#"{ "prompt": "\ud80" }"#, r#"{ "prompt": "\ud800", }"#]
    {
        assert_eq!(read(body).unwrap_err().kind(), "invalid_request", "{body}");
    }
}

#[test]
fn a_workers_id_is_taken_as_a_number_and_as_its_digits() {
    let largest = u64::MAX;
    for id in [json!(largest), json!(largest.to_string())] {
        for field in ["backend_instance_id", "decode_worker_id"] {
            let request = good(&[], json!({ "nvext": { field: id } }));
            assert_eq!(request.constraints.pinned.unwrap().worker_id.0, largest, "{field} {id}");
        }
    }
}

#[test]
fn a_body_of_another_api_names_what_it_can() {
    let read = |body: &[u8]| Facts::read(&HeaderMap::new(), body, false).unwrap();
    assert_eq!(read(b"--form\r\n").model, None);
    assert_eq!(read(b"").model, None);
    assert_eq!(read(b"{\"model\":\"m\",\"input\":{\"x\":[1]}}").model.as_deref(), Some("m"));
}

/// Tells which fields a structure reads.
struct FieldsOf(&'static [&'static str]);

impl<'de> serde::Deserializer<'de> for &mut FieldsOf {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0 = fields;
        Err(serde::de::Error::custom("that is all"))
    }

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("no structure"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<'de, T: serde::Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields = FieldsOf(&[]);
    let _ = T::deserialize(&mut fields);
    assert!(!fields.0.is_empty());
    fields.0
}

#[test]
fn every_field_that_is_read_is_described() {
    let clients = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/CLIENTS.md"));
    for (place, fields) in [
        ("", fields_of::<RequestBody<'_>>()),
        ("nvext.", fields_of::<body::NvExt<'_>>()),
        ("nvext.agent_hints.", fields_of::<body::Hints<'_>>()),
        ("nvext.session_context.", fields_of::<body::SessionContext<'_>>()),
        ("nvext.routing_constraints.", fields_of::<body::Taints<'_>>()),
    ] {
        for field in fields {
            let name = format!("`{place}{field}`");
            assert!(clients.contains(&name), "CLIENTS.md says nothing of {name}");
        }
    }
}

#[test]
fn blocks_are_kept_apart_by_adapter_and_namespace_the_header_first() {
    let scope = |headers: &[Header<'_>], body: Value| {
        let names = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        Facts::read(&names.collect(), body.to_string().as_bytes(), true).map(|facts| facts.scope())
    };
    let tenant = [("x-tenant-id", "a")];
    for (headers, body, adapter, namespace) in [
        (&[][..], json!({}), None, None),
        (
            &tenant[..],
            json!({ "cache_salt": "b", "nvext": { "cache_salt": "c" } }),
            None,
            Some("a"),
        ),
        (&[], json!({ "cache_salt": "b", "nvext": { "cache_salt": "c" } }), None, Some("b")),
        (&[], json!({ "nvext": { "cache_salt": "c" } }), None, Some("c")),
        (
            &[("x-tenant-id", " ")],
            json!({ "cache_salt": "", "nvext": { "cache_salt": "c" } }),
            None,
            Some("c"),
        ),
        (&[], json!({ "cache_salt": null, "nvext": { "cache_salt": null } }), None, None),
        (&[], json!({ "lora_name": "l" }), Some("l"), None),
        (&tenant, json!({ "lora_name": "l" }), Some("l"), Some("a")),
        // An engine's to refuse.
        (&[], json!({ "lora_name": 5, "cache_salt": [] }), None, None),
    ] {
        assert_eq!(scope(headers, body.clone()).unwrap(), Scope::new(adapter, namespace), "{body}");
    }
    let refused = scope(&[], json!({ "nvext": { "cache_salt": 5 } })).unwrap_err();
    assert!(refused.json().contains("nvext.cache_salt is 5; send a text"), "{}", refused.json());
}
