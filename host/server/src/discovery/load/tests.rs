//! Engines that are asked for their load: real ones (mock engines), and a page that is anything.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::sync::Arc;

use pointsman_core::policy::Catalog;
use pointsman_core::router::{Policies, Router};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::clock::RouterClock;
use crate::config::HealthConfig;
use crate::discovery::{KeeperConfig, Origin, Registration, WorkerKeeper};
use crate::mock_engine::{MockConfig, MockEngine, MockProtocol};

const ONE: WorkerId = WorkerId(1);

struct Fixture {
    keeper: WorkerKeeper,
    dispatcher: Arc<Dispatcher>,
}

impl Fixture {
    /// A worker at an endpoint, with further fields, whose engine is asked ten times a second.
    async fn new(endpoint: &str, more: serde_json::Value) -> Self {
        Self::patient(endpoint, more, Duration::from_secs(10)).await
    }

    /// The same, with so much time for an answer.
    async fn patient(endpoint: &str, more: serde_json::Value, limit: Duration) -> Self {
        let policies = Policies { catalog: Catalog::builtin(), ..Policies::default() };
        let router = Arc::new(Router::new(policies, 1));
        let dispatcher = Arc::new(Dispatcher::new(router, Arc::new(RouterClock::with_seed(1))));
        let config = KeeperConfig {
            health: HealthConfig {
                interval: Duration::from_secs(3_600),
                ..HealthConfig::default()
            },
            load_reports: Some(LoadReportsConfig {
                interval: Duration::from_millis(100),
                timeout: limit,
                ..LoadReportsConfig::default()
            }),
            drain_timeout: Duration::from_secs(10),
            worker_token: None,
        };
        let keeper = WorkerKeeper::new(dispatcher.clone(), config);
        let mut worker = json!({ "worker_id": 1, "endpoint": endpoint });
        worker.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keeper.register(Registration::read(&worker).unwrap(), Origin::Api).await.unwrap();
        Self { keeper, dispatcher }
    }

    fn count(&self, outcome: Scraped) -> u64 {
        self.keeper.load_scrapes()[&ONE][outcome as usize]
    }

    fn problem(&self) -> Option<String> {
        self.keeper.worker(ONE).unwrap().load_report_problem
    }

    fn reports(&self) -> Vec<(u32, LoadReport)> {
        let partition = self.dispatcher.router().partitions().swap_remove(0);
        let reports = partition.load_reports().into_iter();
        reports.map(|(rank, report)| (rank.dp_rank.0, report)).collect()
    }

    async fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let wait = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "{what}: {:?} {:?}", self.problem(), self.keeper.load_scrapes());
    }
}

/// An engine whose every answer is this.
async fn engine(answer: impl Into<Vec<u8>>) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer: Vec<u8> = answer.into();
    let serve = async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut head = [0; 4096];
            // Whoever asks may be gone.
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(&answer).await;
        }
    };
    (url, JoinSet::from_iter([serve]))
}

fn page(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

#[tokio::test]
async fn an_engine_says_how_much_it_has_to_do_under_either_name() {
    for protocol in [MockProtocol::Vllm, MockProtocol::Sglang] {
        let config = MockConfig {
            protocol,
            prefill_ms: Some(600_000.0),
            max_num_seqs: 1,
            total_kv_blocks: 8,
            ..MockConfig::default()
        };
        let engine = MockEngine::start(config).unwrap();
        let fixture = Fixture::new(&engine.url(), json!({ "data_parallel_start_rank": 3 })).await;
        let says = |running, waiting, usage| {
            move |fixture: &Fixture| {
                let reports = fixture.reports();
                reports.first().is_some_and(|(rank, report)| {
                    (*rank, report.running_requests, report.waiting_requests)
                        == (3, Some(running), Some(waiting))
                        && report.kv_cache_usage == Some(usage)
                        && report.used_kv_blocks.is_none()
                })
            }
        };
        fixture.wait_for("nothing to do", says(0, 0, 0.0)).await;
        let client = crate::load_client::LoadClient::new(engine.addr());
        let prompt: Vec<u32> = (0..64).collect();
        let body = json!({ "model": "mock-model", "prompt": prompt, "stream": true });
        let mut asked = JoinSet::new();
        for _ in 0..2 {
            let (client, body) = (client.clone(), body.clone());
            asked.spawn(async move { client.post("/v1/completions", &body).await });
        }
        fixture.wait_for("one runs and one waits", says(1, 1, 0.5)).await;
        assert_eq!(fixture.problem(), None);
        asked.shutdown().await;
        fixture.wait_for("nothing to do", says(0, 0, 0.0)).await;
        fixture.keeper.stop().await;
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_long_page_keeps_no_request_waiting() {
    let here = || std::thread::current().id();
    let on = async |bytes| aside(bytes, here).await.unwrap();
    assert_eq!(on(MOST_BYTES_AT_ONCE).await, here());
    assert_ne!(on(MOST_BYTES_AT_ONCE + 1).await, here());
    // And is read all the same.
    let long = format!("{}vllm:num_requests_running 3\n", "\n".repeat(MOST_BYTES_AT_ONCE));
    let (url, _engine) = engine(page(&long)).await;
    let fixture = Fixture::new(&url, json!({})).await;
    fixture.wait_for("it is good", |it| it.count(Scraped::Good) > 0).await;
    assert_eq!(fixture.reports()[0].1.running_requests, Some(3));
}

#[tokio::test]
async fn whatever_an_engine_answers_is_counted_and_named() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", MOST_BYTES + 1);
    let long = [long.into_bytes(), vec![b'#'; MOST_BYTES + 1]].concat();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let cases: [(Option<Vec<u8>>, Scraped, &str); 6] = [
        (
            Some(page("vllm:num_requests_running{engine=\"0\"} many\n").into()),
            Scraped::Malformed,
            "line 1 isn't what a metric of an engine should be: its value is no number",
        ),
        (Some(page("up 1\n").into()), Scraped::Useless, "--enable-metrics"),
        (
            Some(page("vllm:num_requests_running{engine=\"4\"} 1\nvllm:num_requests_running{engine=\"5\"} 1\n").into()),
            Scraped::Useless,
            "rank 4",
        ),
        (
            Some(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec()),
            Scraped::Status,
            "404",
        ),
        (Some(long), Scraped::Failed, "more than 4194304 bytes"),
        (None, Scraped::Late, "no answer within 100 ms"),
    ];
    for (answer, outcome, words) in cases {
        let served = match answer {
            Some(answer) => Some(engine(answer).await),
            None => None,
        };
        let url = served.as_ref().map_or(&silent_url, |(url, _)| url);
        let limit = Duration::from_millis(if served.is_some() { 10_000 } else { 100 });
        let fixture = Fixture::patient(url, json!({}), limit).await;
        fixture.wait_for(words, |it| it.count(outcome) >= 2).await;
        assert!(fixture.problem().unwrap().contains(words), "{:?}", fixture.problem());
        assert_eq!(fixture.count(Scraped::Good), 0);
        assert_eq!(fixture.reports(), []);
        fixture.keeper.stop().await;
    }
    let nobody = Fixture::new("http://127.0.0.1:9", json!({})).await;
    nobody.wait_for("nobody listens", |it| it.count(Scraped::Failed) >= 1).await;
    nobody.keeper.stop().await;
}

#[tokio::test]
async fn each_rank_has_its_own_report_and_another_life_none() {
    let text = "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n";
    let (url, _serves) = engine(page(text)).await;
    let fixture = Fixture::new(&url, json!({ "data_parallel_size": 2 })).await;
    let usages = |fixture: &Fixture| -> Vec<_> {
        fixture.reports().into_iter().map(|(rank, it)| (rank, it.kv_cache_usage)).collect()
    };
    fixture.wait_for("both", |it| usages(it) == [(0, Some(0.25)), (1, Some(0.75))]).await;
    // Another engine under the same id, which says nothing.
    let (other, _serves) = engine(page("up 1\n")).await;
    let worker = json!({ "worker_id": 1, "endpoint": other, "data_parallel_size": 2 });
    let registration = Registration::read(&worker).unwrap();
    fixture.keeper.register(registration, Origin::Api).await.unwrap();
    assert_eq!(fixture.reports(), []);
    assert_eq!(fixture.count(Scraped::Good), 0, "counted from its beginning");
    fixture.wait_for("it is asked", |it| it.count(Scraped::Useless) >= 1).await;
    fixture.keeper.stop().await;
}
