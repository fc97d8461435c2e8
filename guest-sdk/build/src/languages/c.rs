//! C: the contract's bindings, compiled with the policy by the C compiler that the `ziglang` wheel brings.
//!
//! The bindings were made by `wit-bindgen-c` and are kept in `c/`, with the digest of the contract that they were made from; a test compares
//! that. The generator is in `guest-sdk/c-bindings`, a workspace of its own: here it would be part of the router, and its features would have
//! wasmtime built anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use wit_component::StringEncoding;
use wit_parser::Resolve;

use super::Bench;
use crate::contract::{self, WORLD};
use crate::guest::BuildError;
use crate::tools::ZIG;
use crate::write::write_atomically;

const HEADER: &str = include_str!("../../c/component.h");
const SOURCE: &str = include_str!("../../c/component.c");

/// What the bindings call so that an object file with the contract is linked. There is none: [`say_contract`] puts the contract in.
const LINKED: &str = "void __component_type_object_force_link_component(void) {}\n";

/// For size and speed alike; no debugger attaches. No entry point: a policy is called, and has no start. A stack of 1 MiB, as Rust's guests have it:
/// the linker's own choice is 16, which each instance would have.
const FLAGS: [&str; 9] = [
    "-std=gnu23",
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-O2",
    "-Wall",
    "-Wno-unused-function",
    "-s",
    "-Wl,-z,stack-size=1048576",
];

pub(super) fn build(bench: &Bench<'_>) -> Result<PathBuf, BuildError> {
    check(bench)?;
    let tool = ZIG.ensure(bench.cache_dir, bench.is_offline, bench.progress)?;
    bench.begin();
    let bindings = bench.work.join("bindings");
    put(&bindings.join("component.h"), HEADER.as_bytes())?;
    let source = bindings.join("component.c");
    put(&source, SOURCE.as_bytes())?;
    let linked = bindings.join("linked.c");
    put(&linked, LINKED.as_bytes())?;
    if let Some(kept) = bench.bindings() {
        put(&kept.join("component.h"), HEADER.as_bytes())?;
    }
    let made = bench.made();
    let zig_cache = bench.cache_dir.join("guest-tools/zig-cache");
    let mut make = Command::new(tool.join("ziglang/zig"));
    make.env("ZIG_GLOBAL_CACHE_DIR", &zig_cache).env("ZIG_LOCAL_CACHE_DIR", &zig_cache);
    make.arg("cc")
        .args(FLAGS)
        .arg("-I")
        .arg(&bindings)
        .args(&bench.project.sources)
        .arg(source)
        .arg(linked);
    make.arg("-o").arg(&made);
    bench.call(&mut make)?;
    say_contract(bench, &made)?;
    Ok(made)
}

fn check(bench: &Bench<'_>) -> Result<(), BuildError> {
    let (exports, bound) = (&bench.project.exports, contract::usual(bench.project.language));
    if exports.len() == bound.len()
        && bound.iter().all(|name| exports.iter().any(|own| own == name))
    {
        return Ok(());
    }
    Err(wrong(
        bench,
        format!("a policy in C exports all of these, and nothing else: {}", bound.join(", ")),
    ))
}

/// Puts the contract into the module, where the encoder looks for it.
fn say_contract(bench: &Bench<'_>, made: &Path) -> Result<(), BuildError> {
    let mut resolve = Resolve::default();
    let said = resolve.push_path(&bench.wit).and_then(|(package, _)| {
        let world = resolve.select_world(&[package], Some(WORLD))?;
        let mut module = std::fs::read(made)?;
        wit_component::embed_component_metadata(
            &mut module,
            &resolve,
            world,
            StringEncoding::UTF8,
        )?;
        Ok(module)
    });
    let module = said.map_err(|error| wrong(bench, format!("{error:#}")))?;
    put(made, &module)
}

fn wrong(bench: &Bench<'_>, what: String) -> BuildError {
    BuildError::Project {
        manifest: bench.project.language.manifest_in(&bench.project.folder),
        what,
    }
}

fn put(to: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    write_atomically(to, bytes).map(drop).map_err(BuildError::io("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_bindings_are_those_of_the_contract() {
        let kept = include_str!("../../c/contract.sha256").trim();
        assert!(
            kept == contract::digest(),
            "the contract has changed since the bindings in guest-sdk/build/c were made: cd guest-sdk/c-bindings && cargo run"
        );
    }
}
