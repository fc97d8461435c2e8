//! What the fuzz targets begin with: real components, configurations, recordings and requests, out of
//! the files that other tests have.

use std::path::{Path, PathBuf};

use ct_codecs::{Base64, Decoder};
use pointsman_tests::{guests as built, recordings};
use serde_json::Value;

use super::Input;
use crate::guests;

/// The largest seed: mutations of anything larger take too long.
const MOST_BYTES: usize = 64 << 10;

/// The most bytes of messages in one stream.
const MOST_STREAM: usize = 8 << 10;

/// The most seeds out of one recording.
const MOST_OF_EACH: usize = 12;

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn small(seeds: Vec<Input>) -> Vec<Input> {
    seeds.into_iter().filter(|(_, bytes)| bytes.len() <= MOST_BYTES).collect()
}

/// A mode's seed: its byte, and what it is of.
fn of(mode: u8, name: impl Into<String>, parts: &[&[u8]]) -> Input {
    (name.into(), [&[mode][..], &parts.concat()].concat())
}

pub(super) fn components() -> Vec<Input> {
    let names = guests::all().into_iter().chain(["template".to_owned()]);
    let text = names.map(|name| (format!("{name}.wasm"), guests::guest(&name)));
    let built = [built::default_cost(), built::least_busy(), built::least_prefill()];
    let built = built.into_iter().map(|path| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
    });
    small(text.chain(built).collect())
}

/// The blocks of a language in a Markdown file.
fn blocks(file: &Path, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

pub(super) fn configurations() -> Vec<Input> {
    let root = tests().join("..");
    let mut seeds = Vec::new();
    let mut files: Vec<PathBuf> = ["minimal", "composed", "full"]
        .map(|name| root.join("host/server/samples").join(name).with_extension("yaml"))
        .into();
    files.extend(
        ["default-cost", "least-busy", "least-prefill"]
            .map(|name| root.join("policies").join(name).join("policy.yaml")),
    );
    for (number, file) in files.iter().enumerate() {
        seeds.push((format!("file-{number}.yaml"), std::fs::read(file).unwrap()));
    }
    for document in ["README.md", "host/server/CONFIG.md", "host/server/SECURITY.md"] {
        for block in blocks(&root.join(document), "yaml") {
            seeds.push((format!("block-{}.yaml", seeds.len()), block.into_bytes()));
        }
    }
    // Each section of the sample that has every key, alone.
    let full = std::fs::read_to_string(root.join("host/server/samples/full.yaml")).unwrap();
    let mut sections: Vec<String> = Vec::new();
    for line in full.lines() {
        let begins = line.starts_with(|c: char| c.is_ascii_lowercase());
        match sections.last_mut() {
            Some(section) if !begins => section.push_str(&format!("{line}\n")),
            _ => sections.push(format!("{line}\n")),
        }
    }
    for (number, section) in sections.into_iter().enumerate() {
        seeds.push((format!("section-{number}.yaml"), section.into_bytes()));
    }
    seeds
}

/// Every folder of recordings that has events.
fn engines() -> Vec<String> {
    let folders = std::fs::read_dir(recordings::folder()).unwrap();
    let paths = folders.map(|folder| folder.unwrap().path());
    let with_events = paths.filter(|path| path.join("events.bin").is_file());
    let mut names: Vec<String> =
        with_events.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(super) fn events() -> Vec<Input> {
    let mut seeds = Vec::new();
    let matrix = recordings::folder().join("versions/vllm-struct-matrix.jsonl");
    for line in std::fs::read_to_string(matrix).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        for (shape, payload) in row["payloads"].as_object().unwrap() {
            let name = format!("vllm-{}-{shape}", row["version"].as_str().unwrap());
            let payload = Base64::decode_to_vec(payload.as_str().unwrap(), None).unwrap();
            seeds.push(of(b'0', name, &[&payload]));
        }
    }
    for engine in engines() {
        let messages = recordings::messages(&format!("{engine}/events.bin")).unwrap();
        for (number, message) in messages.iter().take(MOST_OF_EACH).enumerate() {
            seeds.push(of(b'0', format!("{engine}-{number}"), &[message.payload()]));
        }
        let mut stream = Vec::new();
        let mut connection = hello();
        for message in &messages {
            let payload = message.payload();
            let fits = stream.len() + payload.len() <= MOST_STREAM;
            let (Ok(length), Ok(seq)) = (u16::try_from(payload.len()), message.seq()) else {
                break;
            };
            if !fits {
                break;
            }
            stream.extend([0, seq as u8]);
            stream.extend(length.to_be_bytes());
            stream.extend(payload);
            frames(&mut connection, &message.frames);
        }
        seeds.push(of(b'1', format!("{engine}-stream"), &[&stream]));
        seeds.push(of(b'3', format!("{engine}-connection"), &[&[63], &connection]));
    }
    // As a dealer, who is greeted by a router.
    let dealer = [greeting(), ready("ROUTER"), b"\x04\x09\x04PING\0\x10ab".to_vec()].concat();
    seeds.push(of(b'3', "dealer", &[&[0x80], &dealer]));
    let pushed = tests().join("../host/server/ADMIN.md");
    let bodies = blocks(&pushed, "json").into_iter().filter(|block| block.contains("block_hashes"));
    for (number, body) in bodies.enumerate() {
        seeds.push(of(b'2', format!("pushed-{number}"), &[body.as_bytes()]));
    }
    for (number, body) in PUSHED.iter().enumerate() {
        seeds.push(of(b'2', format!("pushed-by-hand-{number}"), &[body.as_bytes()]));
    }
    for (number, (mode, answer)) in SOURCES.iter().enumerate() {
        seeds.push(of(*mode, format!("sources-{number}"), &[answer.as_bytes()]));
    }
    small(seeds)
}

/// What engines answer to where they publish.
const SOURCES: [(u8, &str); 5] = [
    (
        b'4',
        r#"{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5657","buffer_steps":10000,"topic":"kv-events"},"1":{"publisher":"zmq","endpoint":"tcp://10.0.0.1:5558","replay_endpoint":null,"topic":""}}"#,
    ),
    (b'4', r#"{"0":{"endpoint":"ipc:///run/engine.sock","topic":"kv"}}"#),
    (b'4', r#"{"0":{"endpoint":"tcp://:::5557"},"2":{"endpoint":"tcp://[::1]:5559"}}"#),
    (b'4', r#"{"0":{"publisher":"null"}}"#),
    (
        b'5',
        r#"{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"replay_endpoint_port_base":5657,"dp_size":2,"topic":"","bind":true,"block_size":16}}"#,
    ),
];

/// Bodies with every key, every kind of event, and orders that engines don't have.
const PUSHED: [&str; 3] = [
    r#"{"dp_rank":0,"events":[{"type":"stored","parent_hash":null,"block_hashes":[7,"18446744073709551615"],"token_ids":[1,2,3,4],"block_size":2,"medium":"GPU","lora_name":"a","cache_salt":"s","mm_hashes":[["cat.png"],[]]},{"type":"removed","block_hashes":[7],"medium":"GPU"},{"type":"cleared"}]}"#,
    r#"{"events":[{"type":"stored","parent_hash":-2,"block_hashes":[-1],"token_ids":[9],"block_size":1},{"type":"stored","block_hashes":[-2],"token_ids":[8],"block_size":1},{"type":"stored","block_hashes":[-2],"token_ids":[8],"block_size":1,"medium":"CPU"},{"type":"removed","block_hashes":[-2,-1]}]}"#,
    r#"{"events":[{"block_hashes":[1,2,3,4],"token_ids":[1,1,1,1],"block_size":1,"type":"stored"},{"block_hashes":[5],"parent_hash":2,"token_ids":[2],"block_size":1,"type":"stored"},{"block_hashes":[3,4],"type":"removed"}]}"#,
];

/// How a publisher greets.
fn greeting() -> Vec<u8> {
    let mut greeting = vec![0; 64];
    (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, 1);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// A handshake's command.
fn ready(socket: &str) -> Vec<u8> {
    let body = [b"\x05READY\x0bSocket-Type\0\0\0", &[socket.len() as u8][..], socket.as_bytes()];
    let body = body.concat();
    [&[4, body.len() as u8][..], &body].concat()
}

fn hello() -> Vec<u8> {
    [greeting(), ready("PUB")].concat()
}

/// A message as it travels.
fn frames(bytes: &mut Vec<u8>, frames: &[Vec<u8>]) {
    for (at, frame) in frames.iter().enumerate() {
        let more = u8::from(at + 1 < frames.len());
        match u8::try_from(frame.len()) {
            Ok(length) => bytes.extend([more, length]),
            Err(_) => {
                bytes.push(more | 2);
                bytes.extend((frame.len() as u64).to_be_bytes());
            }
        }
        bytes.extend(frame);
    }
}

/// The files of a folder that end so, below it too.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

pub(super) fn requests_and_answers() -> Vec<Input> {
    let mut seeds = Vec::new();
    let chats = std::fs::read(tests().join("tokens/chats.json")).unwrap();
    let chats: serde_json::Map<String, Value> = serde_json::from_slice(&chats).unwrap();
    for (name, mut body) in chats {
        body["model"] = "m".into();
        seeds.push(of(b'0', format!("chat-{name}"), &[b"\n", body.to_string().as_bytes()]));
    }
    let mut recorded = Vec::new();
    files(&recordings::folder(), "index.jsonl", &mut recorded);
    for (number, file) in recorded.iter().enumerate() {
        let rows = std::fs::read_to_string(file).unwrap();
        for (at, line) in rows.lines().take(MOST_OF_EACH).enumerate() {
            let row: Value = serde_json::from_str(line).unwrap();
            let mode = match row["path"].as_str() {
                Some("/v1/chat/completions") => b'0',
                Some("/v1/completions") => b'1',
                _ => continue,
            };
            let body = row["body"].to_string();
            seeds.push(of(mode, format!("recorded-{number}-{at}"), &[b"\n", body.as_bytes()]));
        }
    }
    for (number, (mode, request)) in REQUESTS.iter().enumerate() {
        seeds.push(of(*mode, format!("by-hand-{number}"), &[request.as_bytes()]));
    }
    let mut answers = Vec::new();
    let engine = tests().join("../host/server/src/mock_engine/recorded");
    files(&engine, ".sse", &mut answers);
    files(&engine, ".json", &mut answers);
    for (number, file) in answers.iter().enumerate() {
        let answer = std::fs::read(file).unwrap();
        seeds.push(of(b'3', format!("answer-{number}"), &[b"0", &answer]));
    }
    for (number, answer) in ANSWERS.iter().enumerate() {
        seeds.push(of(b'3', format!("answer-by-hand-{number}"), &[&[2], answer.as_bytes()]));
    }
    seeds.retain(|(_, bytes)| bytes.len() <= MOST_STREAM);
    seeds
}

/// Requests with every header and field that is read.
const REQUESTS: [(u8, &str); 9] = [
    (
        b'0',
        "x-dynamo-session-id: s\nx-dynamo-parent-session-id: p\nx-dynamo-session-final: true\nx-pointsman-input-trigger: tool_result\nx-pointsman-required-taints: a, b\nx-tenant-id: t\nx-dynamo-request-priority: 3\nx-dynamo-request-strict-priority: 1\nx-dynamo-worker-instance-id: 7\nx-dynamo-dp-rank: 0\nx-pointsman-routing-group: g\n\n{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
    ),
    (
        b'0',
        "\n{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"9\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],\"nvext\":{\"agent_hints\":{\"priority\":2,\"osl\":9,\"strict_priority\":1},\"routing_constraints\":{\"required_taints\":[\"a\"],\"preferred_taints\":{\"b\":0.5}},\"session_context\":{\"session_id\":\"s\",\"parent_session_id\":\"p\",\"session_final\":false,\"input_trigger\":\"other\"},\"decode_worker_id\":\"9\",\"dp_rank\":1,\"cache_salt\":\"x\"}}",
    ),
    (b'0', "\n{\"model\":\"m\",\"messages\":[],\"nvext\":{\"token_data\":[1,2,3]}}"),
    (
        b'0',
        "\n{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"half \\ud800 of a pair\"}],\"chat_template_kwargs\":{\"enable_thinking\":false},\"continue_final_message\":true,\"add_generation_prompt\":false}",
    ),
    (
        b'1',
        "\n{\"model\":\"m\",\"prompt\":[1,2,3],\"session_id\":\"s\",\"cache_salt\":\"x\",\"lora_name\":\"l\"}",
    ),
    (b'1', "\n{\"model\":\"m\",\"prompt\":[[1,2],[3]]}"),
    (
        b'1',
        "\n{\"model\":\"m\",\"prompt\":[\"one\",\"two\"],\"truncate_prompt_tokens\":3,\"truncation_side\":\"left\"}",
    ),
    (b'2', "\n{\"model\":\"m\",\"input\":\"The quick brown fox\",\"truncate_prompt_tokens\":2}"),
    (
        b'6',
        "\n{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"x\"},{\"type\":\"function_call_output\",\"output\":\"y\"}]}",
    ),
];

/// Answers with what is looked for, and what only looks like it.
const ANSWERS: [&str; 3] = [
    "{\"usage\":{\"prompt_tokens\":12,\"prompt_tokens_details\":{\"cached_tokens\":4}},\"text\":\"\\\"cached_tokens\\\": 9\"}",
    ": ping\n\nevent: x\ndata: {\"usage\": {\"prompt_tokens\" : 7 , \"prompt_tokens_details\": null}}\r\n\r\ndata: [DONE]\r\n\r\n",
    "data: {\"error\":{\"message\":\"no\",\"code\":\"429\"}}\n\ndata: {\"error\":{\"code\":500}}\n\ndata: [DONE]",
];
