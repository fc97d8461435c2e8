//! The promises, against a real HTTP server on loopback that does as it is told.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod server;

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use pointsman_core::policy::RouterSettings;
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing::builtin;
use serde_json::{Value, json};

use super::*;
use crate::clock::RouterClock;
use crate::serve::testing::partition;
use server::{Manner, Server, eventually};

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// What never comes in time is waited for no longer than this.
const SHORT: Duration = Duration::from_millis(20);
/// A time at which every rest is over.
const LATER: u64 = 1_000_000;

struct Rig {
    cache: SharedCache,
    metrics: Arc<Metrics>,
}

fn hicache(multiplier: Option<f64>) -> RouterSettings {
    let mut settings = RouterSettings::default();
    settings.share(SharedCacheType::Hicache, multiplier);
    settings
}

impl Rig {
    /// A cache at a place, asked for the default policy of one worker.
    fn new(url: Option<String>, timeout: Duration) -> Self {
        Self::decided(url, timeout, hicache(None), "default")
    }

    fn decided(
        url: Option<String>,
        timeout: Duration,
        settings: RouterSettings,
        policy: &str,
    ) -> Self {
        let policies = Policies { settings: Arc::new(settings), ..builtin(policy) };
        let router = Arc::new(Router::new(policies, 1));
        router.upsert_worker(WorkerSpec::new(WorkerId(1), "http://w:1", partition())).unwrap();
        let dispatcher = Arc::new(Dispatcher::new(router, Arc::new(RouterClock::with_seed(1))));
        let metrics = Arc::new(Metrics::new());
        let config = SharedCacheConfig { url, timeout };
        let cache = SharedCache::new(dispatcher, metrics.clone(), &config);
        Self { cache, metrics }
    }

    async fn hits(&self, prompt: &Prompt) -> Option<Vec<[u32; 2]>> {
        self.cache.ask(&partition(), prompt).hits().await.map(pairs)
    }

    /// As [`Rig::hits`], at a time of the test's own.
    async fn hits_at(&self, prompt: &Prompt, now_ms: u64) -> Option<Vec<[u32; 2]>> {
        self.cache.ask_at(prompt, now_ms).hits().await.map(pairs)
    }

    fn counted(&self, series: &str) -> f64 {
        let text = self.metrics.encode();
        let name = format!("pointsman_shared_cache_{series} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&name));
        found.unwrap_or_else(|| panic!("{name}\nin\n{text}")).parse().unwrap()
    }

    fn errors(&self, reason: &str) -> f64 {
        self.counted(&format!("errors_total{{reason=\"{reason}\"}}"))
    }

    fn unasked(&self, reason: &str) -> f64 {
        self.counted(&format!("unasked_total{{reason=\"{reason}\"}}"))
    }
}

fn pairs(hits: SharedHits) -> Vec<[u32; 2]> {
    hits.iter().map(|hit| [hit.start, hit.end]).collect()
}

fn prompt(chain: &[u64]) -> Prompt {
    let source = Some(Source::Client);
    Prompt { chain: chain.into(), block_size: 16, source, ..Prompt::default() }
}

#[tokio::test]
async fn what_is_there_is_answered_as_ranges_with_holes() {
    let chain = [10, 20, 30, 40, 50, u64::MAX];
    let server = Server::start(Manner::Holds([10, 20, 30, u64::MAX].into())).await;
    let rig = Rig::new(Some(server.url()), LONG);
    assert_eq!(rig.hits(&prompt(&chain)).await, Some(vec![[0, 3], [5, 6]]));
    assert_eq!(rig.hits(&prompt(&[40, 50])).await, Some(vec![]));
    assert_eq!(rig.hits(&prompt(&[7, 30])).await, Some(vec![[1, 2]]));
    let seen = server.seen();
    assert_eq!(seen[0].head.lines().next(), Some("POST /check_blocks HTTP/1.1"));
    assert!(seen[0].head.contains("content-type: application/json"), "{}", seen[0].head);
    let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!(body, json!({ "block_hashes": chain }));
    assert_eq!((rig.counted("asked_blocks_total"), rig.counted("hit_blocks_total")), (10.0, 5.0));
    assert_eq!(rig.counted("query_seconds_count"), 3.0);
    assert!(!rig.cache.rests());
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_question() {
    let server = Server::start(Manner::Holds([1].into())).await;
    let rig = Rig::new(Some(server.url()), LONG);
    for _ in 0..20 {
        assert_eq!(rig.hits(&prompt(&[1])).await, Some(vec![[0, 1]]));
        // It goes back to the others a moment after its answer.
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().len(), 20);
    let connections = server.connections();
    assert!(connections < 20, "a connection for each of them");
}

#[tokio::test]
async fn what_is_no_answer_is_no_hits_and_counted_by_reason() {
    let json = |body: &str| Manner::Body(200, body.to_owned());
    let huge = format!("{{\"ranges\":[{}[0,1]]}}", " ".repeat(10_000));
    for (manner, reason) in [
        (Manner::Body(500, r#"{"ranges":[[0,2]]}"#.to_owned()), "status"),
        (Manner::Body(404, String::new()), "status"),
        (Manner::Body(204, String::new()), "status"),
        (json(""), "bad_answer"),
        (json("no JSON"), "bad_answer"),
        (json(r#"{"not_ranges":[[0,2]]}"#), "bad_answer"),
        (json(r#"{"ranges":[[0,2],[1,3]]}"#), "bad_answer"),
        (json(r#"{"ranges":[[0,4]]}"#), "bad_answer"),
        (json(&huge), "too_long"),
        (Manner::Raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{"), "too_long"),
        (Manner::Raw("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"), "unreachable"),
        (Manner::Raw("HTTP/1.1 200 OK\r\n"), "unreachable"),
        (Manner::Raw("220 mail.example ready\r\n"), "unreachable"),
        (Manner::Raw(""), "unreachable"),
    ] {
        let words = format!("{manner:?}");
        let server = Server::start(manner).await;
        let rig = Rig::new(Some(server.url()), LONG);
        assert_eq!(rig.hits(&prompt(&[1, 2, 3])).await, None, "{words}");
        assert_eq!(rig.errors(reason), 1.0, "{words}: {}", rig.metrics.encode());
        assert_eq!(rig.counted("asked_blocks_total"), 0.0, "{words}");
    }
}

#[tokio::test]
async fn a_server_that_is_dead_is_left_alone_until_it_lives() {
    let server = Server::start(Manner::Holds([1].into())).await;
    let port = server.port();
    server.stop().await;
    let rig = Rig::new(Some(format!("http://127.0.0.1:{port}")), LONG);
    for _ in 0..5 {
        assert!(!rig.cache.rests());
        assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    }
    assert!(rig.cache.rests());
    assert_eq!((rig.errors("unreachable"), rig.unasked("resting")), (5.0, 0.0));
    for _ in 0..3 {
        assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    }
    assert_eq!((rig.errors("unreachable"), rig.unasked("resting")), (5.0, 3.0));
    // One tries it, in vain: the others wait for twice as long.
    assert_eq!(rig.hits_at(&prompt(&[1]), LATER).await, None);
    assert_eq!(rig.hits_at(&prompt(&[1]), LATER + 1_500).await, None);
    assert_eq!((rig.errors("unreachable"), rig.unasked("resting")), (6.0, 4.0));

    let _server = Server::on(port, Manner::Holds([1].into())).await;
    assert_eq!(rig.hits_at(&prompt(&[1]), LATER + 2_000).await, Some(vec![[0, 1]]));
    assert!(!rig.cache.rests());
    assert_eq!(rig.hits_at(&prompt(&[1]), LATER + 2_000).await, Some(vec![[0, 1]]));
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_time_that_is_allowed() {
    let server = Server::start(Manner::Silent).await;
    let rig = Rig::new(Some(server.url()), SHORT);
    for _ in 0..8 {
        assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    }
    // Five that had their time each, and three that weren't asked.
    assert_eq!((rig.errors("timeout"), rig.unasked("resting")), (5.0, 3.0));
    assert_eq!(rig.counted("query_seconds_count"), 5.0);
    // What still hangs there ends with the cache.
    rig.cache.stop().await;
    assert!(rig.cache.tasks.is_empty());
}

#[tokio::test]
async fn a_late_answer_is_nobodys_but_its_connection_is_kept() {
    let server = Server::start(Manner::Silent).await;
    let rig = Rig::new(Some(server.url()), SHORT);
    assert_eq!(rig.hits(&prompt(&[1])).await, None);
    assert_eq!(rig.errors("timeout"), 1.0);
    server.turn(Manner::Holds([1].into()));
    eventually(|| rig.cache.tasks.is_empty()).await;
    rig.cache.take_up(&SharedCacheConfig { url: Some(server.url()), timeout: LONG });
    // Had it been cut when its time was up, the first connection would carry no other question.
    let is_kept = async || {
        // More of them than there are connections, so that all are used that are free.
        let questions = 0..=server.connections();
        let asked: Vec<_> = questions.map(|_| rig.cache.ask_anyway(&prompt(&[1]))).collect();
        for one in asked {
            assert!(one.hits().await.is_some());
        }
        server.seen().iter().filter(|one| one.connection == 0).count() > 1
    };
    let mut tries = 0..10;
    while !is_kept().await {
        tries.next().unwrap();
    }
}

#[tokio::test]
async fn only_so_many_questions_are_on_their_way() {
    let server = Server::start(Manner::Silent).await;
    let rig = Rig::new(Some(server.url()), LONG);
    let asked: Vec<_> =
        (0..AT_ONCE + 3).map(|_| rig.cache.ask(&partition(), &prompt(&[1]))).collect();
    assert_eq!(rig.unasked("busy"), 3.0);
    eventually(|| server.seen().len() == AT_ONCE).await;
    server.turn(Manner::Holds([1].into()));
    let mut answered = 0;
    for one in asked {
        answered += usize::from(one.hits().await.is_some());
    }
    assert_eq!(answered, AT_ONCE);
    eventually(|| rig.cache.room.available_permits() == AT_ONCE).await;
    assert!(rig.hits(&prompt(&[1])).await.is_some());
}

#[tokio::test]
async fn who_does_not_wait_for_the_answer_leaves_nothing_behind() {
    let server = Server::start(Manner::Holds([1].into())).await;
    let rig = Rig::new(Some(server.url()), LONG);
    for _ in 0..100 {
        drop(rig.cache.ask(&partition(), &prompt(&[1])));
        eventually(|| rig.cache.room.available_permits() > 0).await;
    }
    eventually(|| rig.cache.tasks.is_empty()).await;
    assert_eq!((rig.counted("hit_blocks_total"), rig.unasked("busy")), (100.0, 0.0));
}

#[tokio::test]
async fn nobody_is_asked_for_nothing() {
    let server = Server::start(Manner::Holds([1].into())).await;
    let known = prompt(&[1]);
    let text = Prompt { source: Some(Source::Text), ..known.clone() };
    let unread = Prompt { source: None, ..known.clone() };
    let cases = [
        ("no cache is shared", RouterSettings::default(), "default", &known),
        ("a block in it weighs nothing", hicache(Some(0.0)), "default", &known),
        ("the policy doesn't read it", hicache(None), "least-loaded", &known),
        ("the tokens aren't known", hicache(None), "default", &text),
        ("nobody looked for tokens", hicache(None), "default", &unread),
        ("the prompt is shorter than a block", hicache(None), "default", &prompt(&[])),
    ];
    for (case, settings, policy, prompt) in cases {
        let rig = Rig::decided(Some(server.url()), LONG, settings, policy);
        assert_eq!(rig.hits(prompt).await, None, "{case}");
        assert_eq!(rig.counted("query_seconds_count"), 0.0, "{case}");
    }
    let rig = Rig::new(None, LONG);
    assert_eq!(rig.hits(&known).await, None, "there is no place");
    let strange = pointsman_core::ids::PartitionKey { model: "nobody's".into(), ..partition() };
    let rig = Rig::new(Some(server.url()), LONG);
    assert_eq!(rig.cache.ask(&strange, &known).hits().await, None, "nobody serves it");
    assert_eq!(server.seen().len(), 0);
    // For display it doesn't matter who reads it.
    let rig = Rig::decided(Some(server.url()), LONG, hicache(None), "least-loaded");
    assert!(rig.cache.ask_anyway(&known).hits().await.is_some());
}

#[tokio::test]
async fn of_a_very_long_prompt_the_beginning_is_asked_for() {
    let chain: Vec<u64> = (1..=exchange::MOST_BLOCKS as u64 + 500).collect();
    let server = Server::start(Manner::Holds(chain.iter().copied().collect())).await;
    let rig = Rig::new(Some(server.url()), LONG);
    assert_eq!(rig.hits(&prompt(&chain)).await, Some(vec![[0, exchange::MOST_BLOCKS as u32]]));
    assert_eq!(rig.counted("asked_blocks_total"), exchange::MOST_BLOCKS as f64);
}

#[tokio::test]
async fn a_changed_place_is_asked_from_then_on_and_begins_with_a_clean_slate() {
    let old = Server::start(Manner::Raw("")).await;
    let new = Server::start(Manner::Holds([1].into())).await;
    let rig = Rig::new(Some(old.url()), LONG);
    for _ in 0..5 {
        assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    }
    let at = |url: String| SharedCacheConfig { url: Some(url), timeout: LONG };
    rig.cache.take_up(&at(old.url()));
    assert!(rig.cache.rests(), "it is the same one");
    rig.cache.take_up(&at(new.url()));
    assert!(!rig.cache.rests());
    assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, Some(vec![[0, 1]]));
    rig.cache.take_up(&SharedCacheConfig::default());
    assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    rig.cache.take_up(&at("no URL".to_owned()));
    assert_eq!(rig.hits_at(&prompt(&[1]), 0).await, None);
    assert_eq!((old.seen().len(), new.seen().len()), (5, 1));
}
