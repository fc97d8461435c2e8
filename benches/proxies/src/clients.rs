//! Clients: some connections, on each of which one request follows the answer to the one before it.
//!
//! Prompts have one of a few beginnings in common and an end of their own, as conversations do, so that
//! what a router remembers of prompts grows as it does in use.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hdrhistogram::Histogram;
use memchr::memmem;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::framing::Inbox;

const WORDS: [&str; 8] =
    ["alpha ", "router ", "cache ", "block ", "prefix ", "worker ", "token ", "stream "];

/// Nothing takes as long, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Where to.
    port: u16,
    /// At the same time.
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// For how long requests are begun.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Requests of each connection, at most.
    #[arg(long, default_value_t = u64::MAX)]
    requests: u64,
    /// Length of the prompt.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Answers are streams.
    #[arg(long)]
    stream: bool,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 1)]
    tokens: u64,
    /// How the workers pace their answers: `FIRST-EACH`, in milliseconds.
    #[arg(long)]
    pace: Option<String>,
    /// Beginnings that prompts have in common.
    #[arg(long, default_value_t = 16)]
    groups: usize,
    /// Where the numbers in prompts' ends begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How it went.
#[derive(Debug, Serialize)]
pub struct Report {
    requests: u64,
    errors: u64,
    seconds: f64,
    requests_per_second: f64,
    /// Events that came, without the last one, per second.
    tokens_per_second: f64,
    p50_us: u64,
    p99_us: u64,
    first_byte_p50_us: u64,
    first_byte_p99_us: u64,
    /// What went wrong first.
    error: Option<String>,
}

/// One connection's part.
#[derive(Debug)]
struct Tally {
    took: Histogram<u64>,
    first: Histogram<u64>,
    events: u64,
    errors: u64,
    error: Option<String>,
}

impl Tally {
    fn new() -> Result<Self> {
        let (took, first) = (Histogram::new(3)?, Histogram::new(3)?);
        Ok(Self { took, first, events: 0, errors: 0, error: None })
    }

    fn add(&mut self, other: Self) -> Result<()> {
        self.took.add(other.took)?;
        self.first.add(other.first)?;
        self.events += other.events;
        self.errors += other.errors;
        self.error = self.error.take().or(other.error);
        Ok(())
    }
}

/// Sends them all.
pub async fn run(args: Args) -> Result<Report> {
    let beginnings: Rc<[String]> =
        (0..args.groups).map(|group| beginning(group, args.bytes)).collect();
    let began = Instant::now();
    let tasks = LocalSet::new();
    let running: Vec<_> = (0..args.connections)
        .map(|nth| tasks.spawn_local(client(args.clone(), nth, beginnings.clone(), began)))
        .collect();
    let mut all = Tally::new()?;
    tasks
        .run_until(async {
            for one in running {
                all.add(one.await??)?;
            }
            anyhow::Ok(())
        })
        .await?;
    let (seconds, requests) = (began.elapsed().as_secs_f64(), all.took.len());
    Ok(Report {
        requests,
        errors: all.errors,
        seconds,
        requests_per_second: requests as f64 / seconds,
        tokens_per_second: all.events as f64 / seconds,
        p50_us: all.took.value_at_quantile(0.5),
        p99_us: all.took.value_at_quantile(0.99),
        first_byte_p50_us: all.first.value_at_quantile(0.5),
        first_byte_p99_us: all.first.value_at_quantile(0.99),
        error: all.error,
    })
}

async fn client(args: Args, nth: u64, beginnings: Rc<[String]>, began: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut connection = None;
    let end = Duration::from_secs_f64(args.seconds);
    for request in 0..args.requests {
        if began.elapsed() >= end {
            break;
        }
        let number = (args.seed << 40) + (nth << 24) + request;
        let text = text(&args, &beginnings, number);
        let asked = timeout(PATIENCE, ask(&args, &mut connection, text.as_bytes(), &mut tally));
        if let Err(error) = asked.await.context("no answer in time").flatten() {
            tally.errors += 1;
            tally.error.get_or_insert(format!("{error:#}"));
            connection = None;
        }
    }
    Ok(tally)
}

async fn ask(
    args: &Args,
    connection: &mut Option<(TcpStream, Inbox)>,
    text: &[u8],
    tally: &mut Tally,
) -> Result<()> {
    let (mut stream, mut inbox) = match connection.take() {
        Some(open) => open,
        None => {
            let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], args.port))).await?;
            stream.set_nodelay(true)?;
            (stream, Inbox::new())
        }
    };
    let began = Instant::now();
    stream.write_all(text).await?;
    let head = inbox.answer(&mut stream).await?;
    ensure!(head.status == 200, "status {}", head.status);
    inbox.skip(head.length);
    let (mut first, mut events, mut is_done) = (None, 0, !args.stream);
    let show = |data: &[u8]| {
        first.get_or_insert_with(|| began.elapsed());
        if args.stream {
            events += memmem::find_iter(data, b"data: ").count() as u64;
            is_done |= memmem::find(data, b"[DONE]").is_some();
        }
    };
    inbox.body(&mut stream, head.body, show).await?;
    ensure!(is_done, "a stream without its end");
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    tally.took.record(micros(began.elapsed()))?;
    tally.first.record(micros(first.unwrap_or_default()))?;
    tally.events += events.saturating_sub(1);
    *connection = Some((stream, inbox));
    Ok(())
}

/// What prompts of a group begin with.
fn beginning(group: usize, bytes: usize) -> String {
    let mut text = format!("system {group}: ");
    let mut random = group as u64 + 1;
    while text.len() + 40 < bytes {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(random >> 61) as usize]);
    }
    text
}

fn text(args: &Args, beginnings: &[String], number: u64) -> String {
    let beginning = &beginnings[(number.wrapping_mul(7_919) % beginnings.len() as u64) as usize];
    let pace =
        args.pace.as_ref().map(|pace| format!(r#""user":"pace-{pace}","#)).unwrap_or_default();
    let Args { stream, tokens, port, .. } = args;
    let before = format!(
        r#"{{"model":"mock","stream":{stream},"max_tokens":{tokens},{pace}"messages":[{{"role":"user","content":""#
    );
    let after = format!(r#" turn {number:016x} tell me more"}}]}}"#);
    let length = before.len() + beginning.len() + after.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_str(), &before, beginning, &after].concat()
}
