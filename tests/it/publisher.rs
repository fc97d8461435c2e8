//! Feeds of a publisher on real libzmq sockets, in a process of its own: `tests/engines/publisher.py`.
//!
//! It needs a Python with pyzmq and msgpack, which `POINTSMAN_TEST_PYTHON` names. Without that
//! variable, `python3` is tried, and what can't be tested there is said and left.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pointsman::feeds::sources::Configured;
use pointsman::feeds::{Attach, Feed, FeedConfig, FeedState, Timing};
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank};
use pointsman_core::index::{PrefixIndex, Tier};
use serde_json::{Value, json};

const RANK: WorkerRank = WorkerRank { worker_id: WorkerId(3), dp_rank: DpRank(0) };

/// A Python that can run the publisher.
fn python() -> Option<String> {
    let named = std::env::var("POINTSMAN_TEST_PYTHON").ok();
    let python = named.clone().unwrap_or_else(|| "python3".to_owned());
    let modules = Command::new(&python)
        .args(["-c", "import msgpack, zmq"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    assert!(modules || named.is_none(), "{python} has no pyzmq or no msgpack");
    if !modules {
        eprintln!("not tested: python3 has no pyzmq or no msgpack; set POINTSMAN_TEST_PYTHON");
    }
    modules.then_some(python)
}

struct Publisher {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    endpoint: String,
    replay_endpoint: String,
}

impl Publisher {
    fn start(python: &str, args: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/engines/publisher.py");
        let mut child = Command::new(python)
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (endpoint, replay_endpoint) = (String::new(), String::new());
        let mut publisher =
            Self { child, input, output: BufReader::new(output), endpoint, replay_endpoint };
        let ready = publisher.answer();
        publisher.endpoint = ready["endpoint"].as_str().unwrap().to_owned();
        publisher.replay_endpoint = ready["replay_endpoint"].as_str().unwrap().to_owned();
        publisher
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn tell(&mut self, command: &Value) -> Value {
        writeln!(self.input, "{command}").unwrap();
        self.answer()
    }

    fn publish(&mut self, events: Value) {
        self.tell(&json!({ "publish": events }));
    }

    /// Ends it as a crash would.
    fn kill(mut self) -> (String, String) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.endpoint.clone(), self.replay_endpoint.clone())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    index: Arc<PrefixIndex>,
    feed: Feed,
}

impl Bench {
    fn new(publisher: &Publisher, replay: bool) -> Self {
        let configured = Configured {
            endpoint: publisher.endpoint.parse().unwrap(),
            replay_endpoint: replay.then(|| publisher.replay_endpoint.parse().unwrap()),
            attach: Attach::Connect,
            topic: "kv".to_owned(),
        };
        let mut sources = configured.of_ranks("127.0.0.1", [0]).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let index = Arc::new(PrefixIndex::default());
        let timing = Timing {
            first_retry: Duration::from_millis(10),
            last_retry: Duration::from_millis(100),
            heartbeat: Duration::from_millis(20),
            silence: Duration::from_millis(2_000),
            settle: Duration::from_millis(50),
            ..Timing::default()
        };
        let source = sources.remove(0);
        let config = FeedConfig { rank: RANK, block_size: Some(2), source, timing, seed: 5 };
        let feed = {
            let _entered = runtime.enter();
            Feed::start(config, Arc::<PrefixIndex>::clone(&index) as Arc<_>)
        };
        Self { runtime, index, feed }
    }

    fn held(&self) -> usize {
        self.index.rank_stats(RANK).map_or(0, |stats| stats.held[Tier::Device as usize])
    }

    fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        let wait = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = async { tokio::time::timeout(Duration::from_secs(20), wait).await };
        if self.runtime.block_on(waited).is_err() {
            panic!("not {what}: held {}, {:?}", self.held(), self.feed.snapshot());
        }
    }

    fn live(&self) {
        self.until("live", |bench| bench.feed.snapshot().state == FeedState::Live);
    }
}

#[test]
fn a_publisher_on_libzmq_is_followed_through_loss_and_restart() {
    let Some(python) = python() else { return };
    for options in
        [["--encoding", "map", "--frames", "new"], ["--encoding", "array", "--frames", "old"]]
    {
        let mut publisher = Publisher::start(&python, &options);
        publisher.publish(json!([{"stored": [1, 3]}]));
        let bench = Bench::new(&publisher, true);
        bench.until("caught up", |bench| bench.held() == 3);
        publisher.publish(json!([{"stored": [7, 2]}, {"removed": [1]}]));
        bench.until("followed", |bench| bench.held() == 4);

        // Batches are lost.
        publisher.tell(&json!({"lose": [{"stored": [1, 1]}]}));
        publisher.tell(&json!({"lose": [{"stored": [11, 1]}]}));
        publisher.publish(json!([{"stored": [13, 1]}]));
        bench.until("filled", |bench| bench.held() == 7);
        let counts = bench.feed.snapshot().counts;
        assert_eq!((counts.lost, counts.restarts, counts.orphans), (0, 0, 0));

        // The connection breaks, the process lives on.
        publisher.tell(&json!({"disconnect": true}));
        publisher.publish(json!([{"removed": [13]}]));
        bench.until("caught up", |bench| bench.held() == 6);
        assert_eq!(bench.feed.snapshot().counts.restarts, 0);

        // It is told to forget all.
        bench.live();
        publisher.publish(json!(["cleared", {"stored": [1, 1]}]));
        bench.until("cleared", |bench| bench.held() == 1);

        // It is killed, and comes back empty on the same ports.
        let (endpoint, replay) = publisher.kill();
        let again = ["--endpoint", &endpoint, "--replay-endpoint", &replay];
        let mut publisher = Publisher::start(&python, &[&options[..], &again].concat());
        bench.until("forgotten", |bench| bench.held() == 0);
        publisher.publish(json!([{"stored": [1, 2]}]));
        bench.until("followed", |bench| bench.held() == 2);
        let counts = bench.feed.snapshot().counts;
        assert_eq!((counts.restarts, counts.malformed), (1, 0), "{:?}", bench.feed.snapshot());
    }
}

#[test]
fn a_publisher_that_is_idle_is_known_to_live_and_one_that_hangs_is_left() {
    let Some(python) = python() else { return };
    let publisher = Publisher::start(&python, &[]);
    let bench = Bench::new(&publisher, false);
    bench.live();
    // Heartbeats are answered: many times the limit pass in silence.
    bench.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(2_500)).await });
    assert_eq!(bench.feed.snapshot().counts.connections, 1);
    // A process that is stopped answers none, and closes nothing.
    let stop = Command::new("kill").args(["-STOP", &publisher.child.id().to_string()]).status();
    assert!(stop.unwrap().success());
    bench.until("left", |bench| bench.feed.snapshot().state == FeedState::Down);
    let error = bench.feed.snapshot().last_error.unwrap();
    assert!(error.contains("nothing was heard for 2s"), "{error}");
}
