//! Components outside a router: loaded by hand, for parity tests and benches.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use pointsman_core::policy::PolicyProvider;
use pointsman_wasm::{ComponentPolicy, EngineConfig, EngineError, PolicyEngine};

/// One engine for a whole process: it owns threads and a pool.
pub fn engine() -> Result<&'static PolicyEngine> {
    static ENGINE: OnceLock<Result<PolicyEngine, EngineError>> = OnceLock::new();
    let made = ENGINE.get_or_init(|| PolicyEngine::new(EngineConfig::default()));
    made.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Loads a component file; its type is the file's stem.
pub fn load(path: &Path) -> Result<Arc<dyn PolicyProvider>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).context("a file without a name")?;
    Ok(Arc::new(ComponentPolicy::load(engine()?, stem, path, &bytes)?))
}
