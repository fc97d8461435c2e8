//! What a nested cargo may inherit.
//!
//! Under `cargo run`, `cargo test` and above all in a build script, the environment is full of the outer cargo's choices: flags for the host, a
//! wrapper, a target directory, its job server. A guest built with those is another guest. So the compiler's and cargo's variables are taken
//! away, except the ones that say where crates come from and how to reach them.

use std::ffi::OsStr;
use std::process::Command;

/// Variables of cargo that stay, by prefix: where crates are, and the network between.
const KEPT: [&str; 7] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "CARGO_CREDENTIAL_",
];

/// Variables that go, by prefix.
const REMOVED: [&str; 4] = ["CARGO", "RUSTC", "RUSTDOC", "DEP_"];

/// Variables that go, by their whole name: flags, make's job server, and what cargo tells a build script.
const REMOVED_NAMES: [&str; 13] = [
    "RUSTFLAGS",
    "RUST_TARGET_PATH",
    "__CARGO_DEFAULT_LIB_METADATA",
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "OUT_DIR",
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "NUM_JOBS",
];

/// Takes the outer build's variables from a command that hasn't been given any of its own yet.
pub(crate) fn scrub(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_removed(&name) {
            command.env_remove(name);
        }
    }
    // An empty wrapper is none, also where a configuration file names one: a wrapper could answer for another compiler.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    command
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
}

fn is_removed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    REMOVED_NAMES.contains(&name) || (starts(&REMOVED) && !starts(&KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_builds_choices_do_not_reach_the_nested_cargo() {
        for name in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_MAKEFLAGS",
            "CARGO_MANIFEST_DIR",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_CFG_TARGET_ARCH",
            "CARGO_FEATURE_DEFAULT",
            "CARGO_PKG_NAME",
            "CARGO_LLVM_COV",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_BOOTSTRAP",
            "RUSTC_LINKER",
            "RUSTDOCFLAGS",
            "RUSTFLAGS",
            "MAKEFLAGS",
            "OUT_DIR",
            "TARGET",
            "DEP_Z_INCLUDE",
        ] {
            assert!(is_removed(name.as_ref()), "{name} is kept");
        }
    }

    #[test]
    fn paths_proxies_and_registries_stay() {
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "CARGO_HTTP_PROXY",
            "CARGO_HTTP_CAINFO",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_INNER_INDEX",
            "CARGO_REGISTRY_DEFAULT",
            "HTTPS_PROXY",
            "https_proxy",
            "no_proxy",
            "SSL_CERT_FILE",
            "TMPDIR",
        ] {
            assert!(!is_removed(name.as_ref()), "{name} is removed");
        }
    }

    #[test]
    fn a_scrubbed_command_has_no_wrapper_and_no_flags() {
        let mut command = Command::new("cargo");
        scrub(&mut command);
        let set: Vec<_> = command.get_envs().filter(|(_, value)| value.is_some()).collect();
        assert!(set.contains(&(OsStr::new("RUSTC_WRAPPER"), Some(OsStr::new("")))));
        assert!(set.iter().all(|(name, _)| *name != "CARGO_ENCODED_RUSTFLAGS"));
    }
}
