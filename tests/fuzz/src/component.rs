//! Bytes as a component: looked at from outside, compiled, started, described, configured, and asked
//! to decide about made-up rows. What must hold, whatever they are:
//!
//! * What is refused is refused in one bounded sentence that names the file, by its outside as by all
//!   of it.
//! * What is taken says of itself what fits a page, and what it fails is told in a bounded sentence.
//! * Each load is counted once, and each place in the pool comes back.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use pointsman_core::policy::{Limits, PolicyEnvironment, PolicyProvider};
use pointsman_wasm::{ComponentPolicy, Description, EngineConfig, LoadError, PolicyEngine};

use super::words::sentence;

/// The largest component that is taken here.
const MOST_BYTES: u64 = 64 << 10;

/// The longest sentence about a component, in bytes.
const MOST_WORDS: usize = 2_500;

fn engine() -> &'static PolicyEngine {
    static ENGINE: OnceLock<PolicyEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let config = EngineConfig {
            pooled_instances: 8,
            most_component_bytes: MOST_BYTES,
            // Some are large, so that both ways to make instances are gone.
            large_component_bytes: 48 << 10,
            ..EngineConfig::default()
        };
        PolicyEngine::new(config).expect("this machine compiles components")
    })
}

fn environment() -> PolicyEnvironment {
    // Fuel ends what loops; the deadline is for nothing but a machine that stands still.
    let limits = Limits {
        fuel: Some(500_000),
        deadline: Some(Duration::from_secs(20)),
        ..Limits::default()
    };
    PolicyEnvironment { limits, ..pointsman_core::testing::environment() }
}

/// Takes bytes as a component.
pub(crate) fn run(bytes: &[u8]) {
    let (engine, path) = (engine(), Path::new("fuzz.wasm"));
    let outside = ComponentPolicy::check_outside(path, bytes);
    let before = engine.counters();
    let loaded = ComponentPolicy::load(engine, "fuzz", path, bytes);
    let after = engine.counters();
    let counted =
        |counts: &pointsman_wasm::CountersSnapshot| counts.compiles + counts.compile_failures;
    assert_eq!(counted(&after), counted(&before) + 1, "a load is counted once");
    match (loaded, outside) {
        (Ok(policy), Ok(())) => taken(&policy, bytes),
        (Ok(_), Err(error)) => panic!("taken, though its outside is refused: {error}"),
        (Err(error), outside) => refused(&error, outside.err().as_ref()),
    }
    let exhausted = engine.counters().pool_exhausted;
    assert_eq!(exhausted, 0, "two instances at once fill a pool of eight: some did not end");
}

fn refused(error: &LoadError, outside: Option<&LoadError>) {
    let text = error.to_string();
    sentence(&text, MOST_WORDS);
    assert!(text.starts_with("fuzz.wasm: "), "{text}");
    match (error, outside) {
        (LoadError::TooLarge { .. }, _) | (_, None) => {}
        (_, Some(outside)) => assert_eq!(text, outside.to_string(), "seen from outside"),
    }
}

fn taken(policy: &ComponentPolicy, bytes: &[u8]) {
    assert_eq!(policy.size(), bytes.len() as u64);
    assert!(policy.imports().is_sorted());
    if let Some(description) = policy.describe() {
        described(&description);
    }
    let environment = environment();
    match policy.instantiate(&environment) {
        Ok(instance) => drop(instance),
        Err(error) => sentence(&error.to_string(), MOST_WORDS),
    }
    match policy.probe(&environment) {
        Ok(report) => {
            assert!(report.most_fuel <= 500_000, "{report:?}");
            assert!(report.most_fuel <= report.most_fuel_per_decision);
            report.refusals.iter().for_each(|refusal| sentence(refusal, MOST_WORDS));
        }
        Err(error) => sentence(&error.to_string(), MOST_WORDS),
    }
}

/// What a guest says of itself is cut where it is too long, with a mark of three bytes.
fn described(description: &Description) {
    let Description { name, version, summary, parameters_schema } = description;
    let all = [(name, 100), (version, 100), (summary, 500), (parameters_schema, 64 << 10)];
    for (text, most) in all {
        assert!(text.len() <= most + 3, "{} bytes of {most}", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
