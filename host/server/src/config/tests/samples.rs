//! The samples and the reference say what the parser does.

use pointsman_core::ids::Role;
use saphyr_parser::{Event, Parser};

use super::*;
use crate::config::keys::ALL;
use crate::config::{EppConfig, SelectConfig, reference};
use crate::tokens::TokenSettings;

const MINIMAL: &str = include_str!("../../../samples/minimal.yaml");
const COMPOSED: &str = include_str!("../../../samples/composed.yaml");
const PREFILL_DECODE: &str = include_str!("../../../samples/prefill-decode.yaml");
const FULL: &str = include_str!("../../../samples/full.yaml");
const REFERENCE: &str = include_str!("../../../CONFIG.md");

#[test]
fn every_sample_is_taken() {
    assert_eq!(good(MINIMAL).workers.len(), 2);
    assert_eq!(good(COMPOSED).selection.instances.len(), 2);
    assert_eq!(good(FULL).selection.instances.len(), 2);
    let roles = good(PREFILL_DECODE).workers;
    let of = |role| roles.iter().filter(|worker| worker.partition.role == role).count();
    assert_eq!((of(Role::Prefill), of(Role::Decode), roles.len()), (3, 3, 6));
}

#[test]
fn the_full_sample_has_every_key() {
    let words: Vec<&str> = FULL.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for table in ALL {
        for key in table.keys {
            assert!(words.contains(&key.name), "{} of {}", key.name, table.path);
        }
    }
}

#[test]
fn the_full_sample_shows_the_defaults() {
    let (full, default) = (good(FULL), Config::default());
    let debug = |value: &dyn std::fmt::Debug| format!("{value:?}");
    assert_eq!(full.settings, default.settings);
    let mut proxy = full.proxy.clone();
    proxy.worker_token = None;
    assert_eq!(debug(&proxy), debug(&default.proxy));
    assert_eq!(debug(&full.health), debug(&default.health));
    assert_eq!(full.load_reports, Some(Default::default()), "with its defaults, if it is there");
    let mut wasm = full.wasm.clone();
    wasm.cache_dir = None;
    assert_eq!(debug(&wasm), debug(&default.wasm));
    let tokens = &full.tokenizers["default"];
    assert_eq!(debug(&tokens), debug(&&TokenSettings::default()));
    assert_eq!(full.drain_timeout, default.drain_timeout);
    assert_eq!(full.listen.address, default.listen.address);
    assert_eq!(full.admin.address, default.admin.address);
    assert_eq!(debug(&full.select), debug(&Some(SelectConfig::default())));
    assert_eq!(debug(&full.epp), debug(&Some(EppConfig::default())));
    let least_busy = full.selection.instances[0].recipe.types()[0].limits;
    assert_eq!(least_busy, pointsman_core::policy::Limits::small());
}

/// The reference's defaults, where they are values, are those of the full sample, and thereby those
/// of the code.
#[test]
fn the_references_defaults_are_the_samples_values() {
    let sections = ["router", "proxy", "health", "load_reports", "wasm", "limits"];
    let mut texts = Vec::new();
    let mut parser = Parser::new_from_str(FULL);
    while let Some(Ok((event, _))) = parser.next_event() {
        if let Event::Scalar(text, ..) = event {
            texts.push(text.into_owned());
        }
    }
    for table in ALL.iter().filter(|table| sections.iter().any(|s| table.path.ends_with(s))) {
        let values = [
            "none",
            "by size",
            "the class's",
            "the least for the fuel",
            "three quarters of the memory",
            "any content",
        ];
        for key in table.keys.iter().filter(|key| !values.contains(&key.default)) {
            let shown = texts.windows(2).any(|pair| pair[0] == key.name && pair[1] == key.default);
            assert!(shown, "{}.{}: {}", table.path, key.name, key.default);
        }
    }
}

#[test]
fn the_reference_has_every_key() {
    let tables = reference();
    assert!(
        REFERENCE.ends_with(&tables),
        "CONFIG.md is out of date; its tables should be:\n\n{tables}"
    );
    for table in ALL {
        for key in table.keys {
            assert!(REFERENCE.contains(&format!("| `{}` |", key.name)), "{}", key.name);
        }
    }
}

#[test]
fn every_yaml_in_the_reference_is_taken() {
    let mut blocks = REFERENCE.split("```yaml\n").skip(1).peekable();
    assert!(blocks.peek().is_some());
    for block in blocks {
        good(block.split("```").next().unwrap());
    }
}
