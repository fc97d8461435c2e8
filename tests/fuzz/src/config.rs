//! Bytes as a configuration: read, resolved, and what is wrong with them told. What must hold,
//! whatever they are:
//!
//! * What is refused has a mistake or more, each at a place that is in the file, in the order of their
//!   places, each in one bounded sentence.
//! * What is taken can be shown and warned about, its parameters survive JSON, its workers can be
//!   registered, and its built-in policies decide; when all is over, nobody carries anything.
//! * Texts from the environment show nowhere.
//! * A byte order mark changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use pointsman::config::{Config, ConfigError, ConfigErrors, Strings};
use pointsman_core::clock::Moment;
use pointsman_core::fleet::{Fleet, WorkerSpec};
use pointsman_core::partition::Mode;
use pointsman_core::policy::Catalog;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, RegisterError, Router};

use super::words::sentence;

/// The longest sentence about a mistake, in bytes: some list all keys that there are, behind a path
/// of as many keys as may be nested.
const MOST_WORDS: usize = 16 << 10;

/// The most mistakes that are told.
const MOST_MISTAKES: usize = 50;

/// The most workers of a file that are given requests.
const MOST_WORKERS: usize = 16;

/// What stands in the environment under every name.
const SECRET: &str = "not-to-be-shown";

/// An environment that has every name.
#[derive(Debug)]
struct Everything;

impl Strings for Everything {
    fn get(&self, _: &str) -> Option<String> {
        Some(SECRET.to_owned())
    }
}

/// Takes bytes as a configuration.
pub(crate) fn run(bytes: &[u8]) {
    let told = outcome(bytes);
    assert!(!told.contains(SECRET) || contains(bytes, SECRET), "a secret is shown: {told}");
    let mark = "\u{feff}".as_bytes();
    if !bytes.starts_with(mark) {
        let marked = outcome(&[mark, bytes].concat());
        let alike = told == marked || is_about_bytes(bytes, &told);
        assert!(alike, "with a byte order mark:\n{marked}\nwithout:\n{told}");
    }
}

/// Whether what is told is of the bytes alone: their number, or that they are no text.
fn is_about_bytes(bytes: &[u8], told: &str) -> bool {
    std::str::from_utf8(bytes).is_err() || told.contains("bytes")
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// What becomes of bytes, as text.
fn outcome(bytes: &[u8]) -> String {
    match Config::from_bytes("fuzz.yaml", bytes, Path::new("/etc/pointsman"), &Everything) {
        Ok(config) => taken(&config),
        Err(errors) => refused(bytes, &errors),
    }
}

fn taken(config: &Config) -> String {
    let mut told = format!("{config:?}");
    for warning in config.warnings() {
        sentence(&warning, MOST_WORDS);
        told += &warning;
    }
    let catalog = Catalog::builtin();
    let known: BTreeSet<&str> = catalog.names().collect();
    for mistake in config.places.unknown_types(&known) {
        sentence(&mistake.to_string(), MOST_WORDS);
    }
    for instance in &config.selection.instances {
        for used in instance.recipe.types() {
            let text = serde_json::to_string(&used.parameters).expect("they are JSON");
            let read: serde_json::Map<_, _> = serde_json::from_str(&text).expect("they are JSON");
            assert_eq!(read, *used.parameters, "{text}");
        }
    }
    registered(&config.workers);
    decides(config);
    told
}

/// What is taken decides: of each partition some requests, after which nothing is carried. A type that
/// isn't built in can't be made here, and what a built-in says of its parameters is a sentence.
fn decides(config: &Config) {
    let Config { selection, settings, queue, .. } = config.clone();
    let catalog = Catalog::builtin();
    let policies = Policies { catalog, selection, settings, queue, ..Policies::default() };
    let router = Router::new(policies, 1);
    for worker in config.workers.iter().take(MOST_WORKERS) {
        match router.upsert_worker(worker.clone()) {
            Ok(()) => {}
            Err(RegisterError::Policy(error)) => {
                sentence(&config.places.explain(&error), MOST_WORDS)
            }
            Err(RegisterError::Fleet(error)) => panic!("the fleet refuses what is taken: {error}"),
        }
    }
    for partition in router.partitions() {
        let mut held = Vec::new();
        for round in 0..4 {
            let mut request = RouteRequest::new("fuzz", partition.key().clone(), 10_000 * round);
            request.chain = (0..round * 50).collect();
            request.priority_jump = round as f64;
            let moment = Moment { now_ms: round * 100_000, seed: round };
            let mode = [Mode::Book, Mode::Record, Mode::DryRun][round as usize % 3];
            match router.route(&request, moment, mode) {
                Ok(decision) => held.push(decision),
                Err(error) => sentence(&error.to_string(), MOST_WORDS),
            }
        }
        drop(held);
    }
    for worker in router.workers() {
        let carried = router.active_requests_of(worker.spec.worker_id);
        assert_eq!(carried, 0, "worker {} carries what has ended", worker.spec.worker_id);
    }
}

/// The workers of a file that is taken can all be registered, in any order.
fn registered(workers: &[WorkerSpec]) {
    let mut fleet = Fleet::default();
    for worker in workers {
        if let Err(error) = fleet.upsert(worker.clone()) {
            panic!("the fleet refuses a worker that the configuration takes: {error}");
        }
    }
}

fn refused(bytes: &[u8], errors: &ConfigErrors) -> String {
    let ConfigErrors::Invalid { mistakes, more } = errors else {
        panic!("bytes that are there can be read: {errors}");
    };
    assert!(!mistakes.is_empty(), "refused without a mistake");
    assert!(mistakes.len() <= MOST_MISTAKES, "{} mistakes", mistakes.len());
    assert!(*more == 0 || mistakes.len() == MOST_MISTAKES);
    assert!(mistakes.is_sorted_by(|a, b| a.at.place <= b.at.place), "{errors}");
    mistakes.iter().for_each(|mistake| placed(bytes, mistake));
    let text = errors.to_string();
    assert_eq!(text.lines().count(), mistakes.len() + usize::from(*more > 0), "{text}");
    text
}

/// A mistake is one sentence, at a place that there is.
fn placed(bytes: &[u8], mistake: &ConfigError) {
    let text = mistake.to_string();
    sentence(&text, MOST_WORDS);
    let place = &mistake.at.place;
    assert!(text.starts_with(&format!("fuzz.yaml:{}:{}: ", place.line, place.column)), "{text}");
    let breaks = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!((1..=breaks + 1).contains(&(place.line as usize)), "{text}");
    let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
    assert!((1..=longest + 2).contains(&(place.column as usize)), "{text}");
}
