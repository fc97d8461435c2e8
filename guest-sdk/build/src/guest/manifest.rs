//! What cargo says of a crate before it is built: its workspace, its package id, whether it makes a module at all.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::BuildError;
use crate::command::{self, CommandError};
use crate::environment;
use crate::toolchain::Toolchain;

/// A workspace with the packages that belong to it.
#[derive(Debug, Deserialize)]
pub(super) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(super) root: PathBuf,
    packages: Vec<Package>,
}

/// One package.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) manifest_path: PathBuf,
    targets: Vec<PackageTarget>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, Deserialize)]
struct Dependency {
    /// Where it is, if it is a folder.
    path: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
struct PackageTarget {
    name: String,
    crate_types: Vec<String>,
}

impl Workspace {
    /// The package of a manifest, if it belongs here.
    pub(super) fn package(&self, manifest: &Path) -> Option<Package> {
        self.packages.iter().find(|package| package.manifest_path == manifest).cloned()
    }

    /// Its only package, if all that it is made of here is that one.
    pub(super) fn alone(&self) -> Option<&Package> {
        let [only] = &self.packages[..] else { return None };
        let mut folders =
            only.dependencies.iter().filter_map(|dependency| dependency.path.as_ref());
        folders.all(|folder| !folder.starts_with(&self.root)).then_some(only)
    }
}

impl Package {
    /// Refuses a package that no module can come of.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        self.module_target()
            .map(drop)
            .ok_or_else(|| BuildError::NoModule { package: self.name.clone() })
    }

    /// The name of the library that becomes the module.
    pub(super) fn module_target(&self) -> Option<&str> {
        let target = self
            .targets
            .iter()
            .find(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))?;
        Some(&target.name)
    }
}

/// The manifest in a folder, by the path that cargo will call it by.
pub(super) fn find(crate_dir: &Path) -> Result<PathBuf, BuildError> {
    let found = crate_dir.join("Cargo.toml").canonicalize().ok();
    // Cargo would wait for whoever writes to a FIFO.
    let file = found.filter(|found| found.is_file());
    file.ok_or_else(|| BuildError::NoManifest { crate_dir: crate_dir.into() })
}

/// Asks cargo for the workspace that a manifest belongs to. Resolves no dependencies, so it needs no network.
pub(super) fn read(toolchain: &Toolchain, manifest: &Path) -> Result<Workspace, BuildError> {
    let mut call = Command::new(toolchain.cargo());
    environment::scrub(&mut call);
    call.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let text = command::output(&mut call).map_err(|error| match error {
        CommandError::Failed { log, .. } => BuildError::Manifest { manifest: manifest.into(), log },
        other => BuildError::NoCargo(other),
    })?;
    serde_json::from_str(&text)
        .map_err(|error| BuildError::Manifest { manifest: manifest.into(), log: error.to_string() })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w", "version": 1, "packages": [
            {"id": "path+file:///w/a#policy@0.1.0", "name": "policy", "manifest_path": "/w/a/Cargo.toml", "version": "0.1.0",
             "targets": [{"name": "build-script-build", "kind": ["custom-build"], "crate_types": ["bin"]},
                         {"name": "the_policy", "kind": ["cdylib", "rlib"], "crate_types": ["cdylib", "rlib"]}]},
            {"id": "path+file:///w/b#plain@0.1.0", "name": "plain", "manifest_path": "/w/b/Cargo.toml", "version": "0.1.0",
             "targets": [{"name": "plain", "kind": ["lib"], "crate_types": ["lib"]}]}]}"#;

    #[test]
    fn a_package_is_found_by_its_manifest_and_its_module_by_the_crate_type() {
        let workspace: Workspace = serde_json::from_str(METADATA).unwrap();
        let policy = workspace.package(Path::new("/w/a/Cargo.toml")).unwrap();
        assert_eq!(policy.module_target(), Some("the_policy"));
        assert!(policy.check().is_ok());
        assert!(workspace.package(Path::new("/w/c/Cargo.toml")).is_none());
    }

    #[test]
    fn a_package_is_alone_where_nothing_else_stands_in_its_folder() {
        let of = |dependencies: &str| -> Workspace {
            let package = format!(
                r#"{{"id": "a", "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": [], "dependencies": [{dependencies}]}}"#
            );
            let text = format!(r#"{{"workspace_root": "/w/a", "packages": [{package}]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert!(of("").alone().is_some());
        assert!(of(r#"{"name": "serde"}, {"name": "sdk", "path": "/w/sdk"}"#).alone().is_some());
        assert!(of(r#"{"name": "part", "path": "/w/a/part"}"#).alone().is_none());
        assert!(serde_json::from_str::<Workspace>(METADATA).unwrap().alone().is_none());
    }

    #[test]
    fn a_package_without_a_module_is_refused_with_the_line_to_add() {
        let workspace: Workspace = serde_json::from_str(METADATA).unwrap();
        let error = workspace.package(Path::new("/w/b/Cargo.toml")).unwrap().check().unwrap_err();
        assert!(error.to_string().contains("crate-type = [\"cdylib\""), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_is_no_manifest() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path()).is_err());
        let fifo = folder.path().join("Cargo.toml");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let refused = find(folder.path()).unwrap_err();
        assert!(matches!(refused, BuildError::NoManifest { .. }), "{refused}");
    }
}
