//! Our policies.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::policy::Catalog;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

/// The built-ins, and `default-cost` as a component with the usual limits.
pub fn catalog() -> Result<Catalog> {
    let engine = PolicyEngine::new(EngineConfig::default())?;
    let path = Path::new(env!("GUEST_DEFAULT_COST"));
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let component = ComponentPolicy::load(&engine, "default-cost", path, &bytes)?;
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(component))?;
    Ok(catalog)
}
