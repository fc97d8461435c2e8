//! JavaScript: componentize-qjs, which puts QuickJS and the modules into one component, started already.

use std::path::PathBuf;
use std::process::Command;

use super::Bench;
use crate::contract::WORLD;
use crate::guest::BuildError;
use crate::tools::COMPONENTIZE_QJS;

pub(super) fn build(bench: &Bench<'_>) -> Result<PathBuf, BuildError> {
    let tool = COMPONENTIZE_QJS.ensure(bench.cache_dir, bench.is_offline, bench.progress)?;
    bench.begin();
    let made = bench.made();
    let mut make = Command::new("node");
    make.arg(tool.join("node_modules/componentize-qjs/cli.mjs"));
    // Without component-model async, which the host has not.
    make.args(["--sync", "--stub-wasi", "--world", WORLD, "--wit"]).arg(&bench.wit);
    make.arg("--module-root").arg(&bench.project.folder);
    make.arg("--js")
        .args(bench.project.sources.iter().map(|source| bench.project.folder.join(source)));
    make.arg("--output").arg(&made);
    bench.call(&mut make)?;
    Ok(made)
}
