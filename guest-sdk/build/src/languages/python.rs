//! Python: componentize-py, which puts CPython and the modules into one component, started already.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use crate::contract::WORLD;
use crate::guest::BuildError;
use crate::tools::COMPONENTIZE_PY;

/// Its command without the script that pip would put on PATH.
const MAIN: &str = "import sys; from componentize_py import script; sys.exit(script())";

pub(super) fn build(bench: &Bench<'_>) -> Result<PathBuf, BuildError> {
    let tool = COMPONENTIZE_PY.ensure(bench.cache_dir, bench.is_offline, bench.progress)?;
    bench.begin();
    if let Some(bindings) = bench.bindings() {
        let fresh = bench.work.join("bindings");
        bench.call(call(bench, &tool).arg("bindings").arg(&fresh))?;
        super::keep(&fresh, &bindings)?;
    }
    let made = bench.made();
    let mut make = call(bench, &tool);
    make.args(["componentize", "--stub-wasi", "--python-path"]).arg(&bench.project.folder);
    make.args(&bench.project.sources).arg("--output").arg(&made);
    bench.call(&mut make)?;
    Ok(made)
}

fn call(bench: &Bench<'_>, tool: &Path) -> Command {
    let mut call = Command::new("python3");
    call.env("PYTHONPATH", tool).env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", MAIN, "--quiet"]);
    call.arg("--wit-path").arg(&bench.wit).args(["--world", WORLD]);
    call
}
