//! What the log is told of feeds, and how often.

use std::io::Write;

use parking_lot::Mutex;

use super::engine::free_port;
use super::*;

/// What has been logged on this thread.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Those that have these words.
    fn with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

/// Runs a test on one thread, with the log at its usual level.
fn logged(test: impl AsyncFnOnce(&Lines)) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test(&lines));
}

#[test]
fn a_feed_that_does_not_work_is_told_once_with_its_endpoint_and_once_when_it_does() {
    logged(async |lines| {
        let port = free_port();
        let source = Source {
            endpoint: format!("tcp://127.0.0.1:{port}").parse().expect("an endpoint"),
            ..Engine::start((0, 0), 0, Frames::None).await.source(false)
        };
        let timing = Timing { trouble: Duration::from_millis(100), ..TIMING };
        let bench = Bench::with(source, timing);
        let told = || lines.with("no cache events come from a worker's engine");
        bench.until("told", |_| !told().is_empty()).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let warned = told();
        assert_eq!(warned.len(), 1, "{warned:?}");
        for words in ["WARN", &format!("tcp://127.0.0.1:{port}"), "refused", "kv_events_endpoint"] {
            assert!(warned[0].contains(words), "{words} isn't in {}", warned[0]);
        }
        let _engine = Engine::start((port, 0), 0, Frames::None).await;
        let works = || lines.with("come from a worker's engine again").len();
        bench.until("told that it works", |_| works() == 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!((works(), told().len()), (1, 1));
    });
}

#[test]
fn an_engine_that_loses_every_other_batch_is_told_once_with_what_helps() {
    logged(async |lines| {
        let mut engine = Engine::start((0, 0), 0, Frames::None).await;
        let bench = Bench::new(engine.source(false));
        bench.reached(&mut engine).await;
        for _ in 0..100 {
            engine.lose(&[cleared()]);
            engine.publish(&[cleared()]).await;
        }
        bench.until("all seen", |bench| bench.counts().lost == 100).await;
        let lost = lines.with("batches of cache events are lost");
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!(lost[0].contains("replay_endpoint") && !lost[0].contains("buffer_steps"));
    });
}
