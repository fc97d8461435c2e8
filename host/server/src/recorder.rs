//! Keeps what decisions were made from, so that they can be looked at, and made again.
//!
//! Owns which decisions are recorded, the latest of them in memory, and the file. What can't be written
//! is counted and told; no decision waits for it. It doesn't know how a decision is made again.

mod journal;
mod latest;
mod line;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::DecisionId;
use pointsman_core::partition::Mode;
use pointsman_core::policy::RouterSettings;
use pointsman_core::recording::Sample;
use serde_json::value::RawValue;

use crate::telemetry::Record;
use journal::Journal;
use latest::Latest;

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
}

impl Default for RecordingConfig {
    fn default() -> Self {
        Self { share: 0.0, memory: 16 << 20, file: None, max_file_size: 64 << 20, files: 4 }
    }
}

/// What has become of decisions that were to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// They are.
    pub recorded: u64,
    /// Too many were waiting.
    pub dropped: u64,
    /// They are in memory, and not in the file.
    pub unwritten: u64,
}

/// Keeps decisions.
#[derive(Debug)]
pub struct Recorder {
    share: f64,
    router_seed: u64,
    asked: AtomicU64,
    latest: Mutex<Latest>,
    writing: Mutex<Writing>,
    recorded: AtomicU64,
    dropped: AtomicU64,
    unwritten: AtomicU64,
}

#[derive(Debug)]
struct Writing {
    journal: Option<Journal>,
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
            Some(file) if config.share > 0.0 => {
                Some(Journal::open(file.clone(), config.max_file_size, config.files)?)
            }
            _ => None,
        };
        Ok(Self {
            share: config.share,
            router_seed,
            asked: AtomicU64::new(0),
            latest: Mutex::new(Latest::new(config.memory)),
            writing: Mutex::new(Writing { journal, settings: None, complained: None }),
            recorded: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
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
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let settings = line::settings(number, self.router_seed, &sample.settings);
        let written = writing.journal.as_mut().map(|journal| journal.write(&settings, &text));
        if let Some(Err(error)) = written {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            writing.complain(&error);
        }
        drop(writing);
        self.recorded.fetch_add(1, Ordering::Relaxed);
        self.latest.lock().push(record.receipt().decision_id, text);
    }

    /// A decision that was to be recorded is not: too many were waiting.
    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
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
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecordingCounts {
            recorded: read(&self.recorded),
            dropped: read(&self.dropped),
            unwritten: read(&self.unwritten),
        }
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
                "decisions can't be written to the file, and are kept in memory only"
            );
        }
    }
}

#[cfg(test)]
mod tests;
