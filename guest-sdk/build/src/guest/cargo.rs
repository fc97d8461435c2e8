//! The nested cargo call: an environment of its own, a profile of its own, and flags that take this machine's paths out of the bytes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::manifest::{Package, Workspace};
use super::{BuildError, GuestOptions};
use crate::command::{self, CommandError};
use crate::environment;
use crate::progress::Progress;
use crate::toolchain::Toolchain;

/// The guests' release profile. A policy is small and called often: everything for speed, one unit, nothing for a debugger that can't attach.
/// Without unwinding a panic is a trap, which is what the host expects of it.
const PROFILE: [(&str, &str); 8] = [
    ("OPT_LEVEL", "3"),
    ("LTO", "fat"),
    ("CODEGEN_UNITS", "1"),
    ("PANIC", "abort"),
    ("STRIP", "symbols"),
    ("DEBUG", "false"),
    ("INCREMENTAL", "false"),
    ("SPLIT_DEBUGINFO", "off"),
];

/// Where cargo puts what it makes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// In a directory that no other workspace has.
    Own(&'a Path),
    /// In one that others have, too. Flags must be the same for all, or what they share would be compiled anew for each; of a workspace of one
    /// package, rustc sees no path that says where it is.
    Shared(&'a Path),
}

impl Place<'_> {
    /// The target directory.
    pub(super) fn target_dir(&self) -> &Path {
        match self {
            Self::Own(folder) | Self::Shared(folder) => folder,
        }
    }
}

/// Builds the packages' libraries and returns cargo's messages, one JSON document a line.
pub(super) fn build(
    toolchain: &Toolchain,
    workspace: &Workspace,
    packages: &[&Package],
    place: Place<'_>,
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<String, BuildError> {
    let call = |is_locked: bool| {
        let mut call = command(toolchain, workspace, packages, place, options);
        if is_locked {
            call.arg("--locked");
        }
        run(&mut call, progress, is_locked)
    };
    let has_lock = workspace.root.join("Cargo.lock").is_file();
    let outcome = match call(has_lock)? {
        // The lock file is older than the manifests. Cargo brings it up to date, as in any build that isn't told otherwise.
        Outcome { is_success: false, log, .. } if has_lock && log.contains("--locked") => {
            call(false)?
        }
        outcome => outcome,
    };
    if outcome.is_success {
        return Ok(outcome.messages);
    }

    Err(failure(toolchain, packages, place.target_dir(), outcome.log, progress.shows_cargo()))
}

/// Tells the failures apart that aren't the policy author's, by what cargo and rustc say of them.
fn failure(
    toolchain: &Toolchain,
    packages: &[&Package],
    target_dir: &Path,
    log: String,
    is_shown: bool,
) -> BuildError {
    let (rustc, target) = (toolchain.rustc().to_owned(), toolchain.target().triple());
    if log.contains("No space left on device") {
        return BuildError::DiskFull { path: target_dir.into() };
    }
    let is_without_linker =
        log.contains("linker `") && log.contains("not found") && log.contains("lld");
    let is_too_old = log.contains("is not supported by the following package");
    let log = if is_shown { String::new() } else { log };
    if is_without_linker {
        return BuildError::NoLinker { rustc, target, log };
    }
    if is_too_old {
        return BuildError::OldRustc { rustc, log };
    }
    BuildError::DidNotBuild {
        packages: packages.iter().map(|package| package.name.clone()).collect(),
        target,
        log,
    }
}

fn command(
    toolchain: &Toolchain,
    workspace: &Workspace,
    packages: &[&Package],
    place: Place<'_>,
    options: &GuestOptions,
) -> Command {
    let mut call = Command::new(toolchain.cargo());
    environment::scrub(&mut call);
    call.current_dir(&workspace.root);
    call.env("RUSTC", toolchain.rustc());
    call.env(
        "CARGO_ENCODED_RUSTFLAGS",
        rustflags(toolchain, workspace, place, &options.rustflags).join("\u{1f}"),
    );
    for (key, value) in PROFILE {
        call.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    call.args([
        "build",
        "--release",
        "--lib",
        "--message-format=json-render-diagnostics",
        "--target",
        toolchain.target().triple(),
    ]);
    call.arg("--target-dir").arg(place.target_dir());
    for package in packages {
        call.args(["-p", &package.id]);
    }
    if !options.features.is_empty() {
        call.arg("--features").arg(options.features.join(","));
    }
    if !options.default_features {
        call.arg("--no-default-features");
    }
    if options.offline {
        call.arg("--offline");
    }
    call
}

/// Of several that match, rustc takes the last: folders inside others come after them.
fn rustflags(
    toolchain: &Toolchain,
    workspace: &Workspace,
    place: Place<'_>,
    further: &[String],
) -> Vec<String> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home =
        cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut folders = vec![(toolchain.sysroot().to_owned(), "/toolchain")];
    if let Place::Own(_) = place {
        folders.push((workspace.root.clone(), "/policy"));
    }
    folders.extend(cargo_home.map(|home| (home, "/cargo")));
    folders.push((place.target_dir().to_owned(), "/target"));
    folders.sort_by_key(|(folder, _)| folder.components().count());
    let remaps =
        folders.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    // Rows side by side: vectors are a part of WebAssembly since its second version.
    let vectors = ["-C", "target-feature=+simd128"].map(str::to_owned);
    remaps.chain(vectors).chain(further.iter().cloned()).collect()
}

struct Outcome {
    is_success: bool,
    messages: String,
    log: String,
}

/// Runs cargo, passing on what it says as it says it. That a lock file is too old is left out where the call comes again without it.
fn run(
    call: &mut Command,
    progress: &dyn Progress,
    is_locked: bool,
) -> Result<Outcome, BuildError> {
    tracing::debug!(command = ?call, "building guests");
    call.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        call.spawn().map_err(|source| BuildError::NoCargo(command::start_error(call, source)))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (messages, log) = std::thread::scope(|scope| {
        let log = scope.spawn(|| {
            let mut log = String::new();
            for line in err
                .into_iter()
                .flat_map(|err| BufReader::new(err).split(b'\n'))
                .map_while(Result::ok)
            {
                let line = String::from_utf8_lossy(&line);
                if !(is_locked && line.contains("--locked")) {
                    progress.cargo_line(&line);
                }
                log.push_str(&line);
                log.push('\n');
            }
            log
        });
        let mut messages = Vec::new();
        let read = out.map_or(Ok(0), |mut out| out.read_to_end(&mut messages));
        // A panic can only come from the caller's own progress display; it is passed on.
        let log = log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read.map(|_| (messages, log))
    })
    .map_err(|source| not_watched(call, source))?;
    let status = child.wait().map_err(|source| not_watched(call, source))?;
    Ok(Outcome {
        is_success: status.success(),
        messages: String::from_utf8_lossy(&messages).into_owned(),
        log: log.trim_end().to_owned(),
    })
}

fn not_watched(call: &Command, source: std::io::Error) -> BuildError {
    BuildError::NoCargo(CommandError::Start { program: command::name(call), source })
}
