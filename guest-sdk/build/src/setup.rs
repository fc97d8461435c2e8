//! What the surroundings say about the set-up: the cache folder, the tools to call, the variables that steer it.
//!
//! Read once, here, so that everything below takes its answers as arguments and can be tested without touching the process's environment.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cache::{self, CacheError};

/// Names a rustc that has a wasm target; it is used as it is, and nothing is set up.
pub(crate) const GUEST_RUSTC: &str = "POINTSMAN_GUEST_RUSTC";
/// When `1`, `rustup target add` is left out.
pub(crate) const NO_RUSTUP: &str = "POINTSMAN_NO_RUSTUP";

/// Where to look for a toolchain, and where to keep one.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The folder that everything of ours is kept in: `POINTSMAN_CACHE_DIR`, else `$XDG_CACHE_HOME/pointsman`, else `~/.cache/pointsman`.
    pub cache_dir: PathBuf,
    /// The rustc that the user chose with `POINTSMAN_GUEST_RUSTC`.
    pub guest_rustc: Option<PathBuf>,
    /// Whether `rustup target add` may be tried; false under `POINTSMAN_NO_RUSTUP=1`.
    pub rustup: bool,
    /// The rustc in use: cargo's `RUSTC` in a build script, else the one on `PATH`.
    pub rustc: PathBuf,
    /// The cargo to call: cargo's `CARGO` in a build script, else the one on `PATH`.
    pub cargo: PathBuf,
}

impl Setup {
    /// Reads the process's environment. Fails only when no cache folder can be named.
    pub fn from_env() -> Result<Self, CacheError> {
        Self::from_vars(|name| std::env::var_os(name))
    }

    /// The same from any source of variables; an empty value counts as absent.
    pub fn from_vars(vars: impl Fn(&str) -> Option<OsString>) -> Result<Self, CacheError> {
        let path = |name: &str| vars(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(Self {
            cache_dir: cache::choose(path)?,
            guest_rustc: path(GUEST_RUSTC),
            rustup: vars(NO_RUSTUP).is_none_or(|value| value.is_empty() || value == "0"),
            rustc: path("RUSTC").unwrap_or_else(|| "rustc".into()),
            cargo: path("CARGO").unwrap_or_else(|| "cargo".into()),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn setup(vars: &[(&str, &str)]) -> Setup {
        let vars: Vec<(String, OsString)> =
            vars.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        Setup::from_vars(|name| {
            vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
        .unwrap()
    }

    #[test]
    fn rustup_is_tried_unless_the_variable_says_no() {
        assert!(setup(&[("HOME", "/home/a")]).rustup);
        assert!(setup(&[("HOME", "/home/a"), (NO_RUSTUP, "0")]).rustup);
        assert!(setup(&[("HOME", "/home/a"), (NO_RUSTUP, "")]).rustup);
        assert!(!setup(&[("HOME", "/home/a"), (NO_RUSTUP, "1")]).rustup);
    }

    #[test]
    fn a_build_script_uses_the_tools_that_cargo_names() {
        let own = setup(&[("HOME", "/home/a")]);
        assert_eq!((own.rustc.to_str(), own.cargo.to_str()), (Some("rustc"), Some("cargo")));
        let script = setup(&[
            ("HOME", "/home/a"),
            ("RUSTC", "/t/rustc"),
            ("CARGO", "/t/cargo"),
            (GUEST_RUSTC, ""),
        ]);
        assert_eq!(
            (script.rustc.to_str(), script.cargo.to_str()),
            (Some("/t/rustc"), Some("/t/cargo"))
        );
        assert_eq!(script.guest_rustc, None);
    }
}
