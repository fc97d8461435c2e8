//! Making a working compiler of the unpacked parts: a launcher, a linker, and the standard library for the guest target.
//!
//! The library is built as the compiler's own build does it, by the compiler that will use it. The build's workspace is the work folder itself
//! and its source paths are mapped away, so that where the cache is does not reach the bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{Target, ToolchainError, probe, store};
use crate::command::{self, CommandError};
use crate::environment;
use crate::progress::{Progress, Step};

/// Turns `work/root` (unpacked packages) and `work/library` (source) into a sysroot with the guest target.
pub(super) fn build(
    cargo: &Path,
    work: &Path,
    progress: &dyn Progress,
) -> Result<(), ToolchainError> {
    let root = work.join("root");
    write_launcher(&root)?;
    let rustc = store::rustc_in(&root);
    let about = command::output(Command::new(&rustc).arg("-vV"))
        .map_err(|source| ToolchainError::UnpackedDoesNotRun { source })?;
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| unexpected("host in `rustc -vV`"))?;
    link_linker(&root, host)?;

    progress.step(&Step::BuildingStd { rustc: about.lines().next().unwrap_or("rustc").to_owned() });
    write_package(work)?;
    compile(cargo, &rustc, work)?;
    keep_libraries(work, &root)
}

/// A two-line script that lets the compiler find its own libraries, in `bin/rustc`.
///
/// The distribution's files name no path of their own, since they expect to be installed. The script finds itself by the path it was called by,
/// so it works before and after the rename.
fn write_launcher(root: &Path) -> Result<(), ToolchainError> {
    let lib = root.join("usr/lib");
    let mut folders = vec![lib.clone()];
    let entries = std::fs::read_dir(&lib).map_err(ToolchainError::io("read", &lib))?;
    folders.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    if !folders.iter().any(|folder| has_file(folder, "librustc_driver-")) {
        return Err(unexpected("librustc_driver"));
    }
    folders.retain(|folder| has_file(folder, "librustc_driver-") || has_file(folder, "libLLVM"));
    let inner = folders
        .iter()
        .map(|folder| format!("$root/{}", folder.strip_prefix(root).unwrap_or(folder).display()));
    let inner = inner.collect::<Vec<_>>().join(":");

    let script = format!(
        "#!/bin/sh\n\
         root=${{0%/bin/rustc}}\n\
         LD_LIBRARY_PATH=\"{inner}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\" exec \"$root/usr/bin/rustc\" \"$@\"\n"
    );
    let path = store::rustc_in(root);
    let folder = root.join("bin");
    std::fs::create_dir_all(&folder).map_err(ToolchainError::io("make", &folder))?;
    std::fs::write(&path, script).map_err(ToolchainError::io("write", &path))?;
    make_executable(&path).map_err(ToolchainError::io("make executable", &path))
}

/// Puts LLVM's linker where rustc looks for `rust-lld`.
fn link_linker(root: &Path, host: &str) -> Result<(), ToolchainError> {
    let lib = root.join("usr/lib");
    let entries = std::fs::read_dir(&lib).map_err(ToolchainError::io("read", &lib))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.file_name().into()).collect();
    found.retain(|name: &PathBuf| lib.join(name).join("bin/lld").exists());
    let llvm = found.first().ok_or_else(|| unexpected("lld"))?;

    let bin = lib.join("rustlib").join(host).join("bin");
    std::fs::create_dir_all(&bin).map_err(ToolchainError::io("make", &bin))?;
    let link = bin.join("rust-lld");
    // From usr/lib/rustlib/HOST/bin to usr/lib.
    symlink(&Path::new("../../..").join(llvm).join("bin/lld"), &link)
        .map_err(ToolchainError::io("link", &link))
}

/// A package whose only dependency is the standard library.
fn write_package(work: &Path) -> Result<(), ToolchainError> {
    let manifest = r#"[package]
name = "guest-sysroot"
version = "0.0.0"
edition = "2021"

[lib]
path = "lib.rs"

[workspace]
resolver = "1"
exclude = ["library"]

[dependencies]
sysroot = { path = "library/sysroot", default-features = false }

[patch.crates-io]
rustc-std-workspace-core = { path = "library/rustc-std-workspace-core" }
rustc-std-workspace-alloc = { path = "library/rustc-std-workspace-alloc" }
rustc-std-workspace-std = { path = "library/rustc-std-workspace-std" }

[profile.release]
codegen-units = 1

# Its functions must stay apart, so that a program's own can take their place.
[profile.release.package.compiler_builtins]
codegen-units = 10000
"#;
    for (name, text) in
        [("Cargo.toml", manifest), ("lib.rs", "#![no_core]\n#![feature(no_core)]\n")]
    {
        let path = work.join(name);
        std::fs::write(&path, text).map_err(ToolchainError::io("write", &path))?;
    }
    let lock = work.join("library/Cargo.lock");
    std::fs::copy(&lock, work.join("Cargo.lock"))
        .map(drop)
        .map_err(ToolchainError::io("copy", &lock))
}

fn compile(cargo: &Path, rustc: &Path, work: &Path) -> Result<(), ToolchainError> {
    let library = work.join("library");
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [
        // No other sysroot may be looked into.
        "--sysroot=/nonexistent".to_owned(),
        "-Zforce-unstable-if-unmarked".to_owned(),
        "-Cembed-bitcode=yes".to_owned(),
        remap(work, "/rustc"),
        remap(&library, "/rustc/library"),
    ];
    let mut call = Command::new(cargo);
    environment::scrub(&mut call);
    call.env("RUSTC", rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("__CARGO_DEFAULT_LIB_METADATA", "stablestd")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .current_dir(work)
        .args([
            "build",
            "-q",
            "--release",
            "-p",
            "sysroot",
            "--target",
            Target::UnknownUnknown.triple(),
            "--target-dir",
            "target",
        ]);
    let vendor = library.join("vendor");
    if vendor.is_dir() {
        // The source package carries what the library depends on, so no registry is needed.
        call.arg("--offline");
        call.args(["--config", "source.crates-io.replace-with=\"std-vendor\""]);
        call.arg("--config")
            .arg(format!("source.std-vendor.directory={:?}", vendor.display().to_string()));
    }
    let outcome = command::logged(&mut call, || {});
    outcome.map(drop).map_err(ToolchainError::tool(work, |error| match error {
        CommandError::Failed { log, .. } => ToolchainError::StdDidNotBuild { log },
        source => ToolchainError::NoCargo { cargo: cargo.into(), source },
    }))
}

/// Moves the built libraries to where the compiler looks for them.
fn keep_libraries(work: &Path, root: &Path) -> Result<(), ToolchainError> {
    let deps = work.join("target").join(Target::UnknownUnknown.triple()).join("release/deps");
    let kept = store::target_libs_in(root);
    std::fs::create_dir_all(&kept).map_err(ToolchainError::io("make", &kept))?;
    for entry in std::fs::read_dir(&deps).map_err(ToolchainError::io("read", &deps))?.flatten() {
        let name = entry.file_name();
        let is_library = name
            .to_str()
            .is_some_and(|name| name.ends_with(".rlib") && !name.starts_with("libsysroot-"));
        if is_library {
            std::fs::rename(entry.path(), kept.join(&name))
                .map_err(ToolchainError::io("move", entry.path()))?;
        }
    }
    if probe::has_core(&kept) { Ok(()) } else { Err(unexpected("core library after the build")) }
}

fn unexpected(wanted: &str) -> ToolchainError {
    ToolchainError::Unexpected { wanted: wanted.to_owned() }
}

fn has_file(folder: &Path, prefix: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(unix)]
fn symlink(original: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(original, link)
}

// Elsewhere there is no apt, and `check_tools` has ended the way here long before.
#[cfg(not(unix))]
fn make_executable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn symlink(_original: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
