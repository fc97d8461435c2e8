//! Building what isn't Rust: bindings from the contract, the language's own tool, the component checked and put in place.

mod c;
mod javascript;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command;
use crate::component;
use crate::contract;
use crate::guest::{BuildError, Built, GuestOptions};
use crate::language::Language;
use crate::progress::{Progress, Step};
use crate::project::Project;
use crate::write::write_atomically;

/// Where one build works.
struct Bench<'a> {
    project: &'a Project,
    /// The contract with the project's world, as bindings generators take it.
    wit: PathBuf,
    /// Room for what lies between; it goes away afterwards.
    work: &'a Path,
    cache_dir: &'a Path,
    is_offline: bool,
    progress: &'a dyn Progress,
}

/// Builds a project into `out_dir`, or beside its source where none is named.
pub(crate) fn build(
    project: &Project,
    cache_dir: &Path,
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Built, BuildError> {
    let work = tempfile::tempdir().map_err(BuildError::io("make", std::env::temp_dir()))?;
    let wit = work.path().join("wit");
    contract::write(&wit, &project.exports).map_err(BuildError::io("write", &wit))?;
    let bench =
        Bench { project, wit, work: work.path(), cache_dir, is_offline: options.offline, progress };
    let core = match project.language {
        Language::Python => python::build(&bench)?,
        Language::JavaScript => javascript::build(&bench)?,
        Language::C | Language::Rust => c::build(&bench)?,
    };
    let made = std::fs::read(&core).map_err(BuildError::io("read", &core))?;
    let bytes = component::componentize(&made).map_err(|source| BuildError::Component {
        package: project.name.clone(),
        module: core.clone(),
        source,
    })?;
    let out_dir = options.out_dir.clone().unwrap_or_else(|| project.folder.join("components"));
    let path = out_dir.join(format!("{}.wasm", project.name));
    let is_new = write_atomically(&path, &bytes).map_err(BuildError::io("write", &path))?;
    Ok(Built {
        package: project.name.clone(),
        component: path,
        digest: component::digest(&bytes),
        core_bytes: made.len() as u64,
        component_bytes: bytes.len() as u64,
        is_new,
        inputs: inputs(project),
    })
}

impl Bench<'_> {
    /// Where the tool puts what it makes.
    fn made(&self) -> PathBuf {
        self.work.join("made.wasm")
    }

    fn begin(&self) {
        self.progress.step(&Step::BuildingGuests { packages: vec![self.project.name.clone()] });
    }

    /// Runs the language's tool in the project's folder. What it says on failure is the author's to read, whole.
    fn call(&self, command: &mut Command) -> Result<(), BuildError> {
        command.current_dir(&self.project.folder).stdin(Stdio::null());
        // The author's lines are wanted, and not the tool's own stack.
        command.env("RUST_BACKTRACE", "0");
        tracing::debug!(command = ?command, "calling a tool");
        let done = command.output().map_err(|source| BuildError::ToolDidNotRun {
            project: self.project.name.clone(),
            source: command::start_error(command, source),
        })?;
        if done.status.success() {
            return Ok(());
        }
        let said = [done.stdout, done.stderr].concat();
        let log = String::from_utf8_lossy(&said).trim().to_owned();
        if log.contains("No space left on device") {
            return Err(BuildError::DiskFull { path: self.work.into() });
        }
        Err(BuildError::ToolRefused {
            project: self.project.name.clone(),
            status: done.status,
            log,
        })
    }

    /// The folder for an editor's bindings, if the manifest names one.
    fn bindings(&self) -> Option<PathBuf> {
        self.project.bindings.as_ref().map(|name| self.project.folder.join(name))
    }
}

/// The manifest, and the sources by name. What those import isn't known.
fn inputs(project: &Project) -> Vec<PathBuf> {
    let mut inputs = vec![project.language.manifest_in(&project.folder)];
    inputs.extend(project.sources.iter().map(|source| match project.language {
        Language::Python => project.folder.join(format!("{}.py", source.replace('.', "/"))),
        _ => project.folder.join(source),
    }));
    inputs
}

/// Copies what a generator made to where an editor looks for it. Nothing that is there goes away.
fn keep(from: &Path, to: &Path) -> Result<(), BuildError> {
    copy(from, to).map_err(BuildError::io("write", to))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            write_atomically(&target, &std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
