//! Keeps what decisions were made from, so that they can be looked at, and made again; and the logs
//! of request classifiers, if somebody wants them.
//!
//! Owns which decisions are recorded, the latest of them in memory, and the file. What can't be written
//! is counted and told; no decision waits for it. It doesn't know how a decision is made again.

mod journal;
mod latest;
mod line;
mod logs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use pointsman_core::classifier::LogEntry;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::DecisionId;
use pointsman_core::partition::Mode;
use pointsman_core::policy::RouterSettings;
use pointsman_core::recording::Sample;
use serde_json::value::RawValue;

use crate::telemetry::Record;
use journal::Journal;
use latest::Latest;
use logs::Logs;

pub(crate) use journal::unfit;
pub use line::{BadLine, Read, ReadDecision, ReadPolicy, ReadSettings, read};

/// Between two lines in the log about a file that can't be written.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(60);

/// What is recorded, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingConfig {
    /// The share of decisions; 0 records none.
    pub share: f64,
    /// Bytes that the latest may take in memory.
    pub memory: usize,
    /// The file; none keeps them in memory only.
    pub file: Option<PathBuf>,
    /// Bytes of a file, before another one is begun.
    pub max_file_size: u64,
    /// Files that are kept, the one that is written included.
    pub files: u32,
    /// Whether the file has the logs of request classifiers, too.
    pub request_classifier: bool,
}

impl RecordingConfig {
    /// Whether anything goes into the file.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.share > 0.0 || self.request_classifier
    }
}

impl Default for RecordingConfig {
    fn default() -> Self {
        Self {
            share: 0.0,
            memory: 16 << 20,
            file: None,
            max_file_size: 64 << 20,
            files: 4,
            request_classifier: false,
        }
    }
}

/// What has become of decisions, or of entries of classifiers' logs, that were to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// They are.
    pub recorded: u64,
    /// Too many were waiting. Of a log, what came after one that was dropped is so, too.
    pub dropped: u64,
    /// They are not in the file: decisions are in memory.
    pub unwritten: u64,
}

#[derive(Debug, Default)]
struct Counters {
    recorded: AtomicU64,
    dropped: AtomicU64,
    unwritten: AtomicU64,
}

impl Counters {
    fn read(&self) -> RecordingCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecordingCounts {
            recorded: read(&self.recorded),
            dropped: read(&self.dropped),
            unwritten: read(&self.unwritten),
        }
    }
}

/// Keeps decisions.
#[derive(Debug)]
pub struct Recorder {
    share: f64,
    router_seed: u64,
    asked: AtomicU64,
    latest: Mutex<Latest>,
    writing: Mutex<Writing>,
    decisions: Counters,
    keeps_logs: bool,
    entries: Counters,
}

#[derive(Debug)]
struct Writing {
    journal: Option<Journal>,
    logs: Logs,
    /// The settings of the last decision, and their number.
    settings: Option<(u64, Arc<RouterSettings>)>,
    /// Since the log was told of it last.
    complained: Option<Stopwatch>,
}

impl Recorder {
    /// A recorder for a router with this seed.
    ///
    /// # Errors
    ///
    /// If the file can't be opened.
    pub fn open(config: &RecordingConfig, router_seed: u64) -> std::io::Result<Self> {
        let journal = match &config.file {
            Some(file) if config.writes() => {
                Some(Journal::open(file.clone(), config.max_file_size, config.files)?)
            }
            _ => None,
        };
        let keeps_logs = config.request_classifier && journal.is_some();
        let logs = Logs::default();
        Ok(Self {
            share: config.share,
            router_seed,
            asked: AtomicU64::new(0),
            latest: Mutex::new(Latest::new(config.memory)),
            writing: Mutex::new(Writing { journal, logs, settings: None, complained: None }),
            decisions: Counters::default(),
            keeps_logs,
            entries: Counters::default(),
        })
    }

    /// How the next decision is to be made: evenly spread, the share of them that is recorded.
    pub fn mode(&self) -> Mode {
        if self.share <= 0.0 {
            return Mode::Book;
        }
        let nth = self.asked.fetch_add(1, Ordering::Relaxed) as f64;
        let records = ((nth + 1.0) * self.share).floor() > (nth * self.share).floor();
        if records { Mode::Record } else { Mode::Book }
    }

    /// The share of decisions that is recorded.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Keeps a decision.
    pub(crate) fn keep(&self, sample: &Sample, record: &Record) {
        let mut writing = self.writing.lock();
        let now = SystemTime::now();
        let number = writing.number(&sample.settings);
        let Ok(text) = line::decision(number, now, record, &sample.recording) else {
            // A number that isn't finite, which the core hands out nowhere.
            self.decisions.unwritten.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let settings = line::settings(number, self.router_seed, &sample.settings);
        let written = writing.journal.as_mut().map(|journal| journal.write(&settings, &text));
        if let Some(Err(error)) = written {
            self.decisions.unwritten.fetch_add(1, Ordering::Relaxed);
            writing.complain(&error);
        }
        drop(writing);
        self.decisions.recorded.fetch_add(1, Ordering::Relaxed);
        self.latest.lock().push(record.receipt().decision_id, text);
    }

    /// A decision that was to be recorded is not: too many were waiting.
    pub(crate) fn drop_one(&self) {
        self.decisions.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the logs of request classifiers are kept.
    #[must_use]
    pub fn keeps_logs(&self) -> bool {
        self.keeps_logs
    }

    /// Keeps an entry of a log, unless one before it is missing: then nothing is to be had of it.
    pub(crate) fn keep_entry(&self, entry: &LogEntry) {
        let mut writing = self.writing.lock();
        let counter = if writing.logs.follows(entry) {
            let line = line::classifier(SystemTime::now(), entry).map_err(std::io::Error::other);
            let journal = writing.journal.as_mut();
            match line.and_then(|line| journal.map_or(Ok(()), |its| its.write_alone(&line))) {
                Ok(()) => {
                    writing.logs.wrote(entry);
                    &self.entries.recorded
                }
                Err(error) => {
                    writing.complain(&error);
                    &self.entries.unwritten
                }
            }
        } else {
            &self.entries.dropped
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// An entry of a log is not kept: too many were waiting.
    pub(crate) fn drop_entry(&self) {
        self.entries.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// What has become of the entries of logs.
    #[must_use]
    pub fn entry_counts(&self) -> RecordingCounts {
        self.entries.read()
    }

    /// The latest, newest first, at most `most`.
    #[must_use]
    pub fn latest(&self, most: usize) -> Vec<Arc<RawValue>> {
        self.latest.lock().newest(most)
    }

    /// One of the latest.
    #[must_use]
    pub fn find(&self, id: DecisionId) -> Option<Arc<RawValue>> {
        self.latest.lock().find(id)
    }

    /// How many of the latest there are.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.latest.lock().len()
    }

    /// What has become of them.
    #[must_use]
    pub fn counts(&self) -> RecordingCounts {
        self.decisions.read()
    }
}

impl Writing {
    /// The number of settings: another one than before, if they are others.
    fn number(&mut self, settings: &Arc<RouterSettings>) -> u64 {
        let number = match &self.settings {
            Some((number, last)) if Arc::ptr_eq(last, settings) || last == settings => *number,
            Some((number, _)) => number + 1,
            None => 1,
        };
        self.settings = Some((number, settings.clone()));
        number
    }

    fn complain(&mut self, error: &std::io::Error) {
        if self.complained.is_none_or(|last| last.elapsed() >= BETWEEN_COMPLAINTS) {
            self.complained = Some(Stopwatch::start());
            let file = self.journal.as_ref().map(|journal| journal.file().display().to_string());
            tracing::warn!(
                file,
                %error,
                "nothing can be written to the file: decisions are kept in memory only, and a request \
                 classifier's log ends"
            );
        }
    }
}

#[cfg(test)]
mod tests;
