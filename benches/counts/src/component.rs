//! A component from a file, for the one case that has to do with components.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::policy::Catalog;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

/// What its type is called.
pub const NAME: &str = "counted";

/// The built-ins and the component. Its instances are made one by one: valgrind has no room for a pool.
pub fn catalog(path: &Path) -> Result<Catalog> {
    let config = EngineConfig { pooled_instances: 0, ..EngineConfig::default() };
    let engine = PolicyEngine::new(config)?;
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let component = ComponentPolicy::load(&engine, NAME, path, &bytes)?;
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(component))?;
    Ok(catalog)
}
