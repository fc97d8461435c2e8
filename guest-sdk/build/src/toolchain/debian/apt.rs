//! apt as any user may run it: lists, cache and configuration in a folder of ours, the system's sources and keys, no lock of the system's.
//!
//! A fresh list costs a few seconds and makes the answer current: an old list names versions that the archive no longer has.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::ToolchainError;
use crate::command::{self, CommandError};
use crate::progress::{Progress, Step};

/// apt with private folders.
#[derive(Debug)]
pub(super) struct Apt {
    folder: PathBuf,
}

/// A package that apt would put on the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) version: String,
    /// Whether some version of it is installed already.
    pub(super) is_installed: bool,
}

impl Apt {
    /// Makes the folders and the configuration.
    pub(super) fn new(folder: &Path) -> Result<Self, ToolchainError> {
        let made =
            ["state/lists/partial", "cache/archives/partial"].map(|inner| folder.join(inner));
        for inner in &made {
            std::fs::create_dir_all(inner).map_err(ToolchainError::io("make", inner))?;
        }
        let apt = Self { folder: folder.into() };
        let path = apt.configuration();
        std::fs::write(&path, configuration(folder)).map_err(ToolchainError::io("write", &path))?;
        Ok(apt)
    }

    /// Fetches the package lists. apt calls it success when some could not be fetched, so its log is returned for the error that may follow.
    pub(super) fn update(&self) -> Result<String, ToolchainError> {
        match command::logged(self.call("apt-get").args(["-q", "update"]), || {}) {
            Ok(log) => Ok(command::tail(&log)),
            Err(error) if error.is_full_disk() => {
                Err(ToolchainError::DiskFull { path: self.folder.clone() })
            }
            Err(CommandError::Failed { log, .. }) => Err(ToolchainError::Network { log }),
            Err(error) => Err(ToolchainError::Tool(error)),
        }
    }

    /// The version that apt would install.
    pub(super) fn candidate(&self, package: &str) -> Result<Option<String>, ToolchainError> {
        let text = self.ask(self.call("apt-cache").args(["policy", package]))?;
        Ok(parse_candidate(&text))
    }

    /// The names in a package's `Depends` field; none if apt doesn't know it.
    pub(super) fn depends(&self, package: &str) -> Result<Vec<String>, ToolchainError> {
        match command::output(self.call("apt-cache").args(["show", "--no-all-versions", package])) {
            Ok(text) => Ok(parse_depends(&text)),
            Err(CommandError::Failed { .. }) => Ok(Vec::new()),
            Err(error) => Err(ToolchainError::Tool(error)),
        }
    }

    /// What an installation of these packages (`name=version`) would bring along.
    pub(super) fn simulate(&self, packages: &[String]) -> Result<Vec<Planned>, ToolchainError> {
        let mut call = self.call("apt-get");
        call.args(["-s", "install", "--no-install-recommends", "--reinstall"]).args(packages);
        Ok(parse_simulation(&self.ask(&mut call)?))
    }

    /// Fetches packages (`name=version`) into a folder; apt checks their signatures.
    pub(super) fn download(
        &self,
        packages: &[String],
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), ToolchainError> {
        std::fs::create_dir_all(into).map_err(ToolchainError::io("make", into))?;
        let uris = self
            .ask(self.call("apt-get").args(["-qq", "--print-uris", "download"]).args(packages))?;
        let total = parse_sizes(&uris);
        progress.step(&Step::Downloading { packages: packages.len(), bytes: total });
        let mut call = self.call("apt-get");
        call.args(["-q", "download"]).args(packages).current_dir(into);
        let outcome = command::logged(&mut call, || progress.advance(size_of(into), total));
        outcome.map(drop).map_err(ToolchainError::tool(into, |error| match error {
            CommandError::Failed { log, .. } => ToolchainError::Network { log },
            other => ToolchainError::Tool(other),
        }))
    }

    fn ask(&self, call: &mut Command) -> Result<String, ToolchainError> {
        command::output(call).map_err(ToolchainError::tool(&self.folder, ToolchainError::Tool))
    }

    fn call(&self, program: &str) -> Command {
        let mut call = Command::new(program);
        call.arg("-c")
            .arg(self.configuration())
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        call
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }
}

/// The hooks are other programs' (they need root, or a desktop's bus), and so are the extra lists. Without the sandbox user, root's downloads
/// stay root's: apt's own user could not write into a folder that is closed to others. Signatures are checked as ever.
fn configuration(folder: &Path) -> String {
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear Acquire::IndexTargets::deb::DEP-11;\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n\
         Dir::State \"{folder}/state\";\n\
         Dir::State::status \"/var/lib/dpkg/status\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         APT::Sandbox::User \"root\";\n\
         Debug::NoLocking \"1\";\n",
        folder = folder.display()
    )
}

fn parse_candidate(policy: &str) -> Option<String> {
    let line = policy.lines().find_map(|line| line.trim_start().strip_prefix("Candidate:"))?;
    let version = line.trim();
    (!version.is_empty() && version != "(none)").then(|| version.to_owned())
}

fn parse_depends(show: &str) -> Vec<String> {
    let field = show.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
    let names =
        field.split([',', '|']).filter_map(|dependency| dependency.split_whitespace().next());
    names.map(|name| name.split(':').next().unwrap_or(name).to_owned()).collect()
}

/// Lines like `Inst lld-22 [1:22.0-1] (1:22.1.8-1 Debian:12/oldstable [amd64])`; the bracket is there if an older one is installed.
fn parse_simulation(text: &str) -> Vec<Planned> {
    let parse = |line: &str| {
        let rest = line.strip_prefix("Inst ")?;
        let (name, rest) = rest.split_once(' ')?;
        let (before, rest) = rest.split_once('(')?;
        let version = rest.split_whitespace().next()?;
        Some(Planned {
            name: name.to_owned(),
            version: version.to_owned(),
            is_installed: before.contains('['),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Lines like `'http://…/lld.deb' lld.deb 1487860 SHA256:…`.
fn parse_sizes(uris: &str) -> u64 {
    uris.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok()).sum()
}

/// The size of a folder's files so far.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_read_from_apts_policy() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n     1.85.0 500\n";
        assert_eq!(parse_candidate(policy).as_deref(), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(parse_candidate("rustc-web:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate(""), None);
    }

    #[test]
    fn dependencies_are_names_without_versions_or_architectures() {
        let show = "Package: libstd-rust-web-1.96\nPre-Depends: dpkg\n\
                    Depends: libc6 (>= 2.35), libllvm22 (>= 1:22~), gcc:any | clang, binutils\nDescription: x\n";
        assert_eq!(parse_depends(show), ["libc6", "libllvm22", "gcc", "clang", "binutils"]);
        assert!(parse_depends("").is_empty());
    }

    #[test]
    fn a_simulation_tells_new_packages_from_newer_ones() {
        let text = "Reading package lists...\n\
                    Inst libllvm22 (1:22.1.8-1~deb12u1 Debian-Security:12/oldstable-security [amd64])\n\
                    Inst libc6 [2.36-9] (2.36-10 Debian:12/oldstable [amd64]) []\n\
                    Inst rust-web-src (1.96.0+dfsg1-1~deb12u2 Debian-Security:12/oldstable-security [all])\n\
                    Conf libllvm22 (1:22.1.8-1~deb12u1 Debian-Security:12/oldstable-security [amd64])\n";
        let planned = parse_simulation(text);
        let told: Vec<_> = planned
            .iter()
            .map(|package| (package.name.as_str(), package.version.as_str(), package.is_installed))
            .collect();
        assert_eq!(
            told,
            [
                ("libllvm22", "1:22.1.8-1~deb12u1", false),
                ("libc6", "2.36-10", true),
                ("rust-web-src", "1.96.0+dfsg1-1~deb12u2", false),
            ]
        );
    }

    #[test]
    fn a_downloads_size_is_the_sum_of_what_apt_states() {
        let uris = "'http://a.example/x.deb' x_1%3a22.deb 1487860 SHA256:13\n'http://a.example/y.deb' y.deb 21977620 SHA256:37\n\n";
        assert_eq!(parse_sizes(uris), 23_465_480);
    }

    #[test]
    fn the_private_configuration_touches_no_folder_of_the_systems() {
        let text = configuration(Path::new("/c/work/apt"));
        assert!(text.contains("Dir::State \"/c/work/apt/state\";"));
        assert!(text.contains("Dir::Cache \"/c/work/apt/cache\";"));
        assert!(text.contains("#clear APT::Update::Post-Invoke;"));
    }
}
