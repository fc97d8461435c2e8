//! Whether a component keeps to the contract, as far as that can be seen from outside.
//!
//! Owns which checks there are, in which order, and what is *wrong*, beside what is only worth knowing: a
//! policy may keep state, draw chance and break ties by the order of rows, as long as it declares nothing
//! else. `policy`, `order`, `parameters`, `fuel` and `edges` look at policies, `classifier` at request
//! classifiers; what each finds is a [`Finding`].

mod classifier;
mod edges;
mod fuel;
mod order;
mod parameters;
mod policy;

use std::path::Path;

use pointsman_core::policy::Digest;
use pointsman_wasm::{ComponentPolicy, Description};
use serde::Serialize;

use super::Specimen;
use super::scene::Stage;

pub use fuel::FuelFigure;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As it should be.
    Good,
    /// Worth knowing, and no mistake.
    Note,
    /// To be mended.
    Wrong,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check.
    pub check: &'static str,
    /// What it came to.
    pub mark: Mark,
    /// What was seen; of what is wrong, what to change.
    pub what: String,
}

/// All that was found of a component.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// The policy's type, by its file's name.
    #[serde(rename = "type")]
    pub policy_type: String,
    /// The component's identity.
    pub digest: Digest,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// In the order in which it was looked for.
    pub findings: Vec<Finding>,
    /// What calls use, by how much there is to decide about.
    pub fuel: Vec<FuelFigure>,
}

/// What is found while it is being looked for.
#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    fuel: Vec<FuelFigure>,
}

impl Findings {
    fn add(&mut self, mark: Mark, check: &'static str, what: impl Into<String>) {
        self.all.push(Finding { check, mark, what: what.into() });
    }

    fn good(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(Mark::Good, check, what);
    }

    fn note(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(Mark::Note, check, what);
    }

    fn wrong(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(Mark::Wrong, check, what);
    }
}

/// Looks at a component from all sides. Slow: it decides some thousand times.
#[must_use]
pub fn examine(specimen: &Specimen) -> Examination {
    let component = &specimen.component;
    let mut found = Findings::default();
    outside(component, &specimen.file, &mut found);
    let about = component.describe();
    described(component, about.as_ref(), &mut found);
    let (about, given, fuel) = (about.as_ref(), &specimen.given, specimen.fuel());
    let environment = specimen.environment();
    if component.classifies_requests() {
        let (provider, told) = (component.clone(), &environment);
        if !component.selects_workers() {
            parameters::schema(about, given, &mut found);
        }
        classifier::examine(&classifier::Suspect { provider, told, given, fuel }, &mut found);
    }
    if component.selects_workers() {
        let stage = Stage { provider: component.clone(), environment };
        policy::examine(&policy::Suspect { stage: &stage, about, given, fuel }, &mut found);
    }
    let stem = specimen.file.file_stem().unwrap_or_default();
    Examination {
        policy_type: stem.to_string_lossy().into_owned(),
        digest: component.content_digest().clone(),
        ok: found.all.iter().all(|finding| finding.mark != Mark::Wrong),
        findings: found.all,
        fuel: found.fuel,
    }
}

fn outside(component: &ComponentPolicy, file: &Path, found: &mut Findings) {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    match ComponentPolicy::check_name(&stem, file) {
        Ok(()) => found.good("name", format!("{stem}: what the YAML has under `type`")),
        Err(error) => found.wrong("name", error.to_string()),
    }
    let exports = component.exports().join(", ");
    found.good("exports", format!("{exports}; contract {}", component.built_for()));
    let imports = component.imports();
    match imports.iter().filter(|import| import.starts_with("wasi:")).count() {
        0 if imports.is_empty() => found.good("imports", "nothing"),
        0 => found.good("imports", imports.join(", ")),
        wasi => found.note(
            "imports",
            format!(
                "{wasi} of {} are WASI's: they are there, and empty; time and chance come with each decision",
                imports.len()
            ),
        ),
    }
}

/// What it says of itself.
fn described(component: &ComponentPolicy, about: Option<&Description>, found: &mut Findings) {
    match about {
        Some(about) if about.name.is_empty() || about.version.is_empty() => found.note(
            "about",
            "its name or version is empty: lists show only its digest; give both in its `about`",
        ),
        Some(about) => found.good("about", format!("{} {}", about.name, about.version)),
        None if component.exports().iter().any(|name| name.contains("/about@")) => {
            found.wrong("about", "`describe` failed: see the log; return texts, and nothing else");
        }
        None => found.note(
            "about",
            "it exports no `about`: lists show only its digest, and its parameters have no schema",
        ),
    }
}

/// A number that people can read: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
