//! What the endpoint picker takes: its own time for a request, by its own metric, and what Envoy serves with it
//! beside what the same Envoy serves without, sharing requests round robin.
//!
//! One process has the picker and the engine; Envoy is another. It needs Envoy's program: see
//! `pointsman_tests::envoy`.

#![expect(clippy::print_stdout, reason = "the tables are what it is run for")]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pointsman::config::Config;
use pointsman::load_client::{Ask, LoadClient};
use pointsman::mock_engine::{MockConfig, MockEngine};
use pointsman::serve::Server;
use pointsman_core::clock::Stopwatch;
use pointsman_tests::envoy::{Envoy, Sample, program};
use pointsman_tests::guests;
use pointsman_tests::rig::MODEL;
use tokio::task::JoinSet;

/// The program's own.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Workers of the picker: all of them one engine, at an address of its own each.
const WORKERS: usize = 64;

/// Requests of each size that the picker's own time is taken from.
const PICKS: usize = 2_000;

/// Clients at once, and for how long, in each of the turns of either.
const CLIENTS: usize = 32;
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 3;

/// Two workers' worth of Envoy that picks by itself.
const ROUND_ROBIN: &str = r#"
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
    - name: models
      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: models
                route_config:
                  virtual_hosts:
                    - { name: models, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: workers, timeout: 0s } }] }
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
    - name: workers
      type: STATIC
      lb_policy: ROUND_ROBIN
      load_assignment: { cluster_name: workers, endpoints: [{ lb_endpoints: [ENDPOINTS] }] }
"#;

fn main() -> Result<()> {
    // Cargo runs benches for tests, too, with this word.
    if std::env::args().any(|word| word == "--test") {
        return Ok(());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("a target folder")?;
    let Some(program) = program(target)? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&program))
}

async fn run(program: &Path) -> Result<()> {
    let engine = MockConfig {
        addr: ([0, 0, 0, 0], 0).into(),
        models: vec![MODEL.to_owned()],
        max_num_seqs: 1_024,
        ..MockConfig::default()
    };
    let engine = MockEngine::start(engine)?;
    let port = engine.addr().port();
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("policies"))?;
    std::fs::copy(guests::least_busy(), folder.path().join("policies/least-busy.wasm"))?;
    let file = folder.path().join("pointsman.yaml");
    std::fs::write(&file, yaml(port))?;
    let server = Server::start(Config::from_path(&file)?, None).await?;
    let picker = server.epp_addr().context("it is served")?;
    let picked = Envoy::start(program, &Sample::asking(picker)?).await?;
    pointsman_tests::looks::wait_for("Envoy to find the picker ready", async || {
        picked.picker_is_ready().await
    })
    .await?;
    let round_robin =
        Envoy::start(program, &Sample::of(ROUND_ROBIN.replace("ENDPOINTS", &endpoints(port))))
            .await?;

    println!(
        "| prompt | picks | own time p50 | p99 | mean | last byte to answer p50 | p99 | mean |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for bytes in [1_000, 220_000] {
        own_time(&server, &picked.client, bytes).await?;
    }
    println!("\n| prompt | turn | with the picker | round robin | share |");
    println!("| --- | --- | --- | --- | --- |");
    for bytes in [1_000, 220_000] {
        for turn in 1..=TURNS {
            let with = rate(&picked.client, bytes).await?;
            let without = rate(&round_robin.client, bytes).await?;
            let share = 100.0 * with / without;
            println!("| {bytes} bytes | {turn} | {with:.0}/s | {without:.0}/s | {share:.0}% |");
        }
    }
    picked.stop().await?;
    round_robin.stop().await?;
    server.shutdown().await;
    engine.shutdown().await;
    Ok(())
}

fn yaml(port: u16) -> String {
    let worker = |id: usize| {
        format!(
            "  - {{ worker_id: {id}, endpoint: \"http://127.0.1.{id}:{port}\", model: {MODEL} }}\n"
        )
    };
    let workers: String = (1..=WORKERS).map(worker).collect();
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nepp: 127.0.0.1:0\npolicies_dir: policies\n\
         worker_selection:\n  aggregated: it\n  instances: [{{ name: it, type: least-busy, parameters: \
         {{ min_device_overlap_blocks: 0 }} }}]\nworkers:\n{workers}"
    )
}

fn endpoints(port: u16) -> String {
    let one = |id: usize| {
        format!(
            "{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.1.{id}, port_value: {port} }} }} }} }}"
        )
    };
    (1..=WORKERS).map(one).collect::<Vec<_>>().join(", ")
}

/// One request at a time; the picker's own count of what it took for these.
async fn own_time(server: &Server, client: &LoadClient, bytes: usize) -> Result<()> {
    let both = ["own", "pick"];
    let before = both.map(|which| Histogram::now(server, which));
    for number in 0..PICKS {
        let prompt = format!("{number} {}", "a word ".repeat(bytes / 7));
        let answer =
            client.ask(&Ask { stream: false, max_tokens: 1, ..Ask::new(MODEL, prompt) }).await?;
        ensure!(answer.is_good(), "{}: {}", answer.status, answer.text());
    }
    let mut cells = String::new();
    for (which, before) in both.into_iter().zip(before) {
        let its = Histogram::now(server, which).since(&before);
        let [p50, p99] = [0.5, 0.99].map(|share| below(&its.buckets, share));
        cells.push_str(&format!(" {p50} | {p99} | {:.0} us |", its.seconds * 1e6 / PICKS as f64));
    }
    println!("| {bytes} bytes | {PICKS} |{cells}");
    Ok(())
}

/// One of the picker's histograms.
struct Histogram {
    /// Upper bounds in seconds, and how many took no longer.
    buckets: Vec<(f64, f64)>,
    /// All of them together.
    seconds: f64,
}

impl Histogram {
    fn now(server: &Server, which: &str) -> Self {
        let metrics = server.app().metrics.encode();
        let name = format!("pointsman_epp_{which}_seconds_");
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(&*name));
        let bucket = |line: &str| {
            let (bound, count) = line.strip_prefix("bucket{le=\"")?.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        };
        let sum = |line: &str| line.strip_prefix("sum ")?.parse().ok();
        Self {
            buckets: lines.clone().filter_map(bucket).collect(),
            seconds: lines.clone().find_map(sum).unwrap_or_default(),
        }
    }

    fn since(self, before: &Self) -> Self {
        let buckets = self.buckets.into_iter().zip(&before.buckets);
        let buckets = buckets.map(|((bound, now), (_, then))| (bound, now - then)).collect();
        Self { buckets, seconds: self.seconds - before.seconds }
    }
}

/// Between which bounds a share of them lies.
fn below(counts: &[(f64, f64)], share: f64) -> String {
    let all = counts.last().map_or(0.0, |(_, count)| *count);
    let at = counts.iter().position(|(_, count)| *count >= all * share).unwrap_or(0);
    let micros = |at: usize| counts.get(at).map_or(0.0, |(bound, _)| bound * 1e6);
    let least = if at == 0 { 0.0 } else { micros(at - 1) };
    format!("{least:.0} to {:.0} us", micros(at))
}

/// Requests a second that clients at once get answered.
async fn rate(client: &LoadClient, bytes: usize) -> Result<f64> {
    let watch = Stopwatch::start();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = client.clone();
        clients.spawn(async move {
            let (watch, mut answered) = (Stopwatch::start(), 0_u64);
            let prompt = format!("{number} {}", "a word ".repeat(bytes / 7));
            let ask = Ask { stream: false, max_tokens: 1, ..Ask::new(MODEL, prompt) };
            while watch.elapsed() < TURN {
                let answer = client.ask(&ask).await?;
                ensure!(answer.is_good(), "{}: {}", answer.status, answer.text());
                answered += 1;
            }
            Ok(answered)
        });
    }
    let mut all = 0;
    while let Some(answered) = clients.join_next().await {
        all += answered??;
    }
    Ok(all as f64 / watch.elapsed().as_secs_f64())
}
