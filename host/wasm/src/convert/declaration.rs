//! A guest's declaration, checked: names, inputs, properties, sizes.

use std::collections::BTreeSet;

use pointsman_core::policy::input::UnknownInput;
use pointsman_core::policy::{Declaration, Input, Properties, Stage};
use thiserror::Error;

use crate::bindings::exports::pointsman::policy::worker_selection as raw;
use crate::component::Exports;
use crate::text::bounded;

/// Stages of one kind in one instance.
const MOST_STAGES: usize = 32;
/// The longest name of a stage.
const MOST_NAME_BYTES: usize = 64;
/// Block hashes that one call brings at most: a prompt of 64k tokens in blocks of 16.
const MOST_HASHES: u32 = 4096;

/// What is wrong with a declaration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum DeclarationError {
    #[error("it declares no stage; declare a filter, a scorer or a picker")]
    NoStage,
    #[error("it declares {found} {kind}s, at most {MOST_STAGES} are taken")]
    TooMany { kind: &'static str, found: usize },
    #[error("{kind} name {name:?}: wanted 1 to {MOST_NAME_BYTES} letters, digits, '.', '_' or '-'")]
    Name { kind: &'static str, name: String },
    #[error("two {kind}s are named {name:?}; names are unique among their kind")]
    Twice { kind: &'static str, name: String },
    #[error("{kind} {stage:?}: {unknown}")]
    Input { kind: &'static str, stage: String, unknown: UnknownInput },
    #[error("{kind} {stage:?} declares the input {input} twice")]
    InputTwice { kind: &'static str, stage: String, input: Input },
    #[error("unknown property {name:?}; this host knows: {known}", known = Properties::NAMES.join(", "))]
    Property { name: String },
    #[error("it declares {property:?}, but does not export the interface {interface:?}")]
    NotExported { property: &'static str, interface: &'static str },
    #[error("it asks for {found} block hashes, at most {MOST_HASHES} are given")]
    Hashes { found: u32 },
}

/// The core's declaration of a guest's.
pub(crate) fn declaration(
    raw: raw::Declaration,
    exports: Exports,
) -> Result<Declaration, DeclarationError> {
    let filters = stages("filter", raw.filters)?;
    let scorers = stages("scorer", raw.scorers)?;
    let picker = stages("picker", raw.picker.into_iter().collect())?.pop();
    if filters.is_empty() && scorers.is_empty() && picker.is_none() {
        return Err(DeclarationError::NoStage);
    }
    if raw.prefix_hash_blocks > MOST_HASHES {
        return Err(DeclarationError::Hashes { found: raw.prefix_hash_blocks });
    }
    let properties = properties(&raw.properties, exports)?;
    let prefix_hash_blocks = raw.prefix_hash_blocks;
    Ok(Declaration { filters, scorers, picker, prefix_hash_blocks, properties })
}

fn stages(kind: &'static str, raw: Vec<raw::Stage>) -> Result<Vec<Stage>, DeclarationError> {
    if raw.len() > MOST_STAGES {
        return Err(DeclarationError::TooMany { kind, found: raw.len() });
    }
    let mut names = BTreeSet::new();
    raw.into_iter()
        .map(|raw| {
            let stage = stage(kind, raw)?;
            if names.insert(stage.name.clone()) {
                Ok(stage)
            } else {
                Err(DeclarationError::Twice { kind, name: stage.name })
            }
        })
        .collect()
}

fn stage(kind: &'static str, raw: raw::Stage) -> Result<Stage, DeclarationError> {
    let raw::Stage { name, inputs } = raw;
    if !is_name(&name) {
        return Err(DeclarationError::Name { kind, name: bounded(&name, 80) });
    }
    let mut known = Vec::new();
    for input in inputs {
        let input = Input::from_name(&input).map_err(|unknown| DeclarationError::Input {
            kind,
            stage: name.clone(),
            unknown,
        })?;
        // So that a list of any length ends at the first repetition.
        if known.contains(&input) {
            return Err(DeclarationError::InputTwice { kind, stage: name, input });
        }
        known.push(input);
    }
    Ok(Stage { name, inputs: known })
}

fn properties(names: &[String], exports: Exports) -> Result<Properties, DeclarationError> {
    let mut properties = Properties::default();
    for name in names {
        if !properties.set(name) {
            return Err(DeclarationError::Property { name: bounded(name, 80) });
        }
    }
    let needs = [
        (properties.fused, exports.fused, "fused", "fused"),
        (properties.observes, exports.observer, "observes", "observer"),
        (properties.follows_fleet, exports.fleet, "follows-fleet", "fleet"),
        (properties.hands_over, exports.handover, "hands-over", "handover"),
    ];
    match needs.into_iter().find(|(declared, exported, ..)| *declared && !exported) {
        Some((_, _, property, interface)) => {
            Err(DeclarationError::NotExported { property, interface })
        }
        None => Ok(properties),
    }
}

/// Whether a text can be the name of a stage or of a type.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_stage(name: &str, inputs: &[&str]) -> raw::Stage {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        raw::Stage { name: name.to_owned(), inputs }
    }

    fn check(edit: impl FnOnce(&mut raw::Declaration), wanted: &str) {
        let mut raw = raw::Declaration {
            filters: vec![raw_stage("warm", &["identity", "device-overlap-blocks"])],
            scorers: vec![raw_stage("load", &["active-requests"])],
            picker: Some(raw_stage("lowest", &[])),
            prefix_hash_blocks: 0,
            properties: vec!["stateless".to_owned()],
        };
        edit(&mut raw);
        let got = match declaration(raw, Exports::default()) {
            Ok(_) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(wanted), "{got:?} should say {wanted:?}");
    }

    #[test]
    fn what_a_guest_declares_is_checked_to_the_last_name() {
        check(|_| {}, "fine");
        check(
            |raw| {
                raw.filters.clear();
                raw.scorers.clear();
                raw.picker = None;
            },
            "no stage",
        );
        check(|raw| raw.filters = vec![raw_stage("f", &[]); 33], "33 filters");
        check(|raw| raw.scorers.push(raw_stage("load", &[])), "two scorers");
        check(|raw| raw.picker = Some(raw_stage("", &[])), "picker name \"\"");
        check(|raw| raw.picker = Some(raw_stage("a b", &[])), "picker name \"a b\"");
        check(|raw| raw.picker = Some(raw_stage(&"x".repeat(65), &[])), "picker name");
        check(|raw| raw.scorers = vec![raw_stage("s", &["load"])], "unknown input \"load\"");
        check(
            |raw| raw.scorers = vec![raw_stage("s", &["identity", "identity"])],
            "identity twice",
        );
        check(|raw| raw.properties = vec!["quick".to_owned()], "unknown property \"quick\"");
        check(|raw| raw.properties = vec!["fused".to_owned()], "export the interface \"fused\"");
        check(
            |raw| {
                let names: Vec<String> = (0..32).map(|nth| format!("{nth:064}")).collect();
                raw.filters = names.iter().map(|name| raw_stage(name, &[])).collect();
                raw.prefix_hash_blocks = 4096;
            },
            "fine",
        );
        check(|raw| raw.prefix_hash_blocks = 4097, "4097 block hashes");
    }
}
