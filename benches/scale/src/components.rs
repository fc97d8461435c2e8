//! The small components that are at hand: written by hand, as text, so that nothing has to be built.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use pointsman_core::policy::Catalog;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

use crate::guests::guest;

/// Filters, scores and picks.
pub const WHOLE: &str = "template";

/// Picks the row with the fewest requests, without the partition's lock.
pub const PICKER: &str = "picks-alone";

/// An engine as a router has it.
pub fn engine() -> Result<PolicyEngine> {
    Ok(PolicyEngine::new(EngineConfig::default())?)
}

/// The built-ins and a component of this name.
pub fn catalog(engine: &PolicyEngine, name: &str) -> Result<Catalog> {
    with(engine, name, Path::new(name), &guest(name))
}

/// The built-ins and a component from these bytes.
pub fn with(engine: &PolicyEngine, name: &str, path: &Path, bytes: &[u8]) -> Result<Catalog> {
    let component = ComponentPolicy::load(engine, name, path, bytes)?;
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(component))?;
    Ok(catalog)
}
