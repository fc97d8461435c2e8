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

/// Workers of the picker: all of them one engine, at an address of its own each.
const WORKERS: usize = 64;

/// Requests of each size that the picker's own time is taken from.
const PICKS: usize = 2_000;

/// Clients at once, and for how long, in each of the turns of either.
const CLIENTS: usize = 32;
const TURN: Duration = Duration::from_secs(3);
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

    println!("| prompt | picks | own time p50 | p99 |\n| --- | --- | --- | --- |");
    for bytes in [1_000, 220_000] {
        own_time(&server, &picked.client, bytes).await?;
    }
    println!("\n| turn | with the picker | round robin | share |\n| --- | --- | --- | --- |");
    for turn in 1..=TURNS {
        let (with, without) = (rate(&picked.client).await?, rate(&round_robin.client).await?);
        println!("| {turn} | {with:.0}/s | {without:.0}/s | {:.0}% |", 100.0 * with / without);
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
    let before = buckets(server);
    for number in 0..PICKS {
        let prompt = format!("{number} {}", "a word ".repeat(bytes / 7));
        let answer =
            client.ask(&Ask { stream: false, max_tokens: 1, ..Ask::new(MODEL, prompt) }).await?;
        ensure!(answer.is_good(), "{}: {}", answer.status, answer.text());
    }
    let counts: Vec<(f64, f64)> = buckets(server)
        .into_iter()
        .zip(before)
        .map(|((bound, after), (_, before))| (bound, after - before))
        .collect();
    let [p50, p99] = [0.5, 0.99].map(|share| below(&counts, share));
    println!("| {bytes} bytes | {PICKS} | {p50} | {p99} |");
    Ok(())
}

/// The histogram of picks: upper bounds in seconds, and how many took no longer.
fn buckets(server: &Server) -> Vec<(f64, f64)> {
    let metrics = server.app().metrics.encode();
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("pointsman_epp_pick_seconds_bucket{le=\""));
    lines
        .filter_map(|line| {
            let (bound, count) = line.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        })
        .collect()
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
async fn rate(client: &LoadClient) -> Result<f64> {
    let watch = Stopwatch::start();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = client.clone();
        clients.spawn(async move {
            let (watch, mut answered) = (Stopwatch::start(), 0_u64);
            let prompt = format!("{number} {}", "a word ".repeat(140));
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
