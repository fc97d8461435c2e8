//! Workers: an answer to each request, as large as its `max_tokens`, at once or paced.
//!
//! The field `user` paces: `"pace-F-T"` has the first token come after F milliseconds, and each further one
//! after T. Every token of a stream is a write of its own.

use std::io;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::framing::{Body, Inbox, number};

const MODELS: &str = r#"{"object":"list","data":[{"id":"mock","object":"model","created":1760000000,"owned_by":"vllm","root":"mock","parent":null,"max_model_len":131072}]}"#;
const INFO: &str = r#"{"model_path":"mock","tokenizer_path":"mock","served_model_name":"mock","is_generation":true,"tp_size":1,"dp_size":1,"disaggregation_mode":"null","max_total_num_tokens":1000000,"context_length":131072}"#;
const FIRST: &str = r#"data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1760000000,"model":"mock","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const TOKEN: &str = r#"data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1760000000,"model":"mock","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}"#;
const LAST: &str = r#"data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1760000000,"model":"mock","choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":256,"completion_tokens":64,"total_tokens":320}}"#;
const WHOLE: &str = r#"{"id":"chatcmpl-0123456789","object":"chat.completion","created":1760000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":" token"},"finish_reason":"length"}],"usage":{"prompt_tokens":256,"completion_tokens":1,"total_tokens":257}}"#;

/// Where they are.
#[derive(Debug, Parser)]
pub struct Args {
    /// One for each.
    #[arg(required = true)]
    ports: Vec<u16>,
}

/// What a request asks for.
#[derive(Debug)]
struct Wish {
    streams: bool,
    tokens: u64,
    first: Duration,
    each: Duration,
}

impl Wish {
    fn read(body: &[u8]) -> Self {
        let pace = |nth: usize| {
            let at = memmem::find(body, b"\"pace-")?;
            let text =
                std::str::from_utf8(body[at + 6..].split(|&byte| byte == b'"').next()?).ok()?;
            text.split('-').nth(nth)?.parse().ok()
        };
        let after = |nth| Duration::from_millis(pace(nth).unwrap_or(0));
        let streams = ["\"stream\":true", "\"stream\": true"];
        Self {
            streams: streams.iter().any(|text| memmem::find(body, text.as_bytes()).is_some()),
            tokens: number(body, b"\"max_tokens\"").unwrap_or(1).max(1),
            first: after(0),
            each: after(1),
        }
    }
}

/// Serves until it is ended.
pub async fn serve(args: Args) -> Result<()> {
    let mut accepting = JoinSet::new();
    for port in args.ports {
        accepting.spawn(accept(listen(port)?));
    }
    while accepting.join_next().await.is_some() {}
    Ok(())
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    socket.listen(4_096)
}

async fn accept(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(async move {
                // A client that hangs up is none of our business.
                let _ = answer_all(stream).await;
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn answer_all(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = Inbox::new();
    let whole = message("application/json", WHOLE);
    while let Some(head) = inbox.request(&mut stream).await? {
        inbox.skip(head.length);
        let wish = match head.body {
            Body::Length(length) => {
                inbox.at_least(&mut stream, length).await?;
                let wish = Wish::read(&inbox.unread()[..length]);
                inbox.skip(length);
                wish
            }
            Body::Chunked => {
                let mut body = Vec::new();
                inbox.body(&mut stream, head.body, |data| body.extend_from_slice(data)).await?;
                Wish::read(&body)
            }
        };
        if head.method == "POST" && head.path.starts_with("/v1/") {
            if wish.streams {
                answer_in_events(&mut stream, &wish).await?;
            } else {
                pause(wish.first).await;
                stream.write_all(&whole).await?;
            }
            continue;
        }
        let answer = match head.path.as_str() {
            "/v1/models" => message("application/json", MODELS),
            path if path.contains("info") => message("application/json", INFO),
            "/metrics" => {
                message("text/plain", "vllm:num_requests_running{model_name=\"mock\"} 0\n")
            }
            _ => message("text/plain", "ok"),
        };
        stream.write_all(&answer).await?;
    }
    Ok(())
}

async fn answer_in_events(stream: &mut TcpStream, wish: &Wish) -> io::Result<()> {
    pause(wish.first).await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}{}", chunk(&[FIRST])).as_bytes()).await?;
    let token = chunk(&[TOKEN]);
    for nth in 0..wish.tokens {
        if nth > 0 {
            // A write for each, which others can come between.
            tokio::task::yield_now().await;
            pause(wish.each).await;
        }
        stream.write_all(token.as_bytes()).await?;
    }
    stream.write_all(format!("{}0\r\n\r\n", chunk(&[LAST, "data: [DONE]"])).as_bytes()).await
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

fn chunk(events: &[&str]) -> String {
    let text: String = events.iter().flat_map(|event| [*event, "\n\n"]).collect();
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn message(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    (head + body).into_bytes()
}
