//! Which packages to fetch, found by following dependencies from `rustc-web`.

use super::super::ToolchainError;
use super::apt::{Apt, Planned};

/// Root of it all: the compiler that the distribution keeps current for its browsers.
const COMPILER: &str = "rustc-web";
const SOURCE: &str = "rust-web-src";
const HOST_STD: &str = "libstd-rust-web-dev";

/// What to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The compiler's version.
    pub(super) version: String,
    /// `name=version` of every package.
    pub(super) packages: Vec<String>,
}

/// Asks apt. `update_log` explains an archive that knows nothing.
///
/// `in_use` is the version line of the rustc in use. An archive that could not be reached may be the very one that keeps the compiler current; what
/// is left would be kept for good and be too old for the guests, so an old compiler is taken only from archives that all answered.
pub(super) fn make(apt: &Apt, update_log: &str, in_use: &str) -> Result<Plan, ToolchainError> {
    let Some(version) = apt.candidate(COMPILER)? else {
        return Err(absent(COMPILER, update_log));
    };
    if is_unreachable(update_log)
        && release(&version) < release(in_use.trim_start_matches("rustc "))
    {
        return Err(ToolchainError::Network { log: update_log.to_owned() });
    }
    // The names carry versions of their own: libstd-rust-web-1.96, which needs libllvm22, which goes with lld-22.
    let host_std =
        dependency(apt, &format!("{HOST_STD}={version}"), "libstd-rust-web-", update_log)?;
    let llvm = dependency(apt, &format!("{host_std}={version}"), "libllvm", update_log)?;
    let lld = format!("lld-{}", llvm.trim_start_matches("libllvm"));

    let of_version =
        [COMPILER, SOURCE, HOST_STD, &host_std].map(|name| format!("{name}={version}"));
    let mut wanted = of_version.to_vec();
    wanted.push(lld.clone());
    let planned = apt.simulate(&wanted)?;
    let named = [COMPILER, SOURCE, HOST_STD, &host_std, &lld];
    let packages = select(&planned, &named)?;
    Ok(Plan { version, packages })
}

fn dependency(
    apt: &Apt,
    package: &str,
    prefix: &str,
    update_log: &str,
) -> Result<String, ToolchainError> {
    // Only a number may follow the prefix: `libllvm22`, not `libllvm-something`.
    let is_it = |name: &String| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let found = apt.depends(package)?.into_iter().find(is_it);
    found.ok_or_else(|| absent(&format!("{prefix}* for {package}"), update_log))
}

/// Whether apt missed any of its lists.
fn is_unreachable(update_log: &str) -> bool {
    update_log.lines().any(|line| line.starts_with("Err:") || line.contains("Failed to fetch"))
}

/// The first two numbers of a version; none if it doesn't begin with them.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// No package, or no lists to find it in?
fn absent(package: &str, update_log: &str) -> ToolchainError {
    let is_unreachable =
        update_log.lines().any(|line| line.starts_with("Err:") || line.contains("Failed to fetch"));
    if is_unreachable {
        return ToolchainError::Network { log: update_log.to_owned() };
    }
    ToolchainError::NoPackage { package: package.to_owned() }
}

/// The named packages, and the shared libraries that this system lacks.
///
/// Newer versions of installed libraries are left out: a second C library beside the running one would break the compiler rather than help it.
/// So are the C compiler and its headers, which the dependencies name too: they would not work unpacked, and a system that builds Rust has them.
fn select(planned: &[Planned], named: &[&str]) -> Result<Vec<String>, ToolchainError> {
    if let Some(missing) =
        named.iter().find(|name| planned.iter().all(|package| package.name != **name))
    {
        return Err(ToolchainError::NoPackage { package: (*missing).to_owned() });
    }
    let is_library = |package: &Planned| {
        package.name.starts_with("lib") && !package.name.ends_with("-dev") && !package.is_installed
    };
    let kept = planned
        .iter()
        .filter(|package| named.contains(&package.name.as_str()) || is_library(package));
    Ok(kept.map(|package| format!("{}={}", package.name, package.version)).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn planned(name: &str, is_installed: bool) -> Planned {
        Planned { name: name.into(), version: "1".into(), is_installed }
    }

    #[test]
    fn missing_shared_libraries_come_along_and_system_parts_do_not() {
        let all = [
            planned("rustc-web", true),
            planned("libllvm22", false),
            planned("libz3-4", false),
            planned("libc6", true),
            planned("libc6-dev", false),
            planned("gcc-12", false),
        ];
        assert_eq!(
            select(&all, &["rustc-web"]).unwrap(),
            ["rustc-web=1", "libllvm22=1", "libz3-4=1"]
        );
    }

    #[test]
    fn a_named_package_that_apt_would_not_bring_is_an_error() {
        let error = select(&[planned("rustc-web", false)], &["rustc-web", "lld-22"]).unwrap_err();
        assert!(
            matches!(&error, ToolchainError::NoPackage { package } if package == "lld-22"),
            "{error}"
        );
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(release("1.85.0+dfsg3-1~deb12u3") < release("1.96.0 (ac68faa20 2026-05-25)"));
        assert!(release("1.100.0") > release("1.96.0"));
        assert!(release("1.85.0") > release("unknown"));
    }

    #[test]
    fn an_unreachable_archive_is_told_apart_from_one_without_the_package() {
        let log = "Err:1 http://deb.example bookworm InRelease\n  Could not resolve 'deb.example'\nW: Some index files failed to download.";
        assert!(matches!(absent("rustc-web", log), ToolchainError::Network { .. }));
        assert!(matches!(
            absent("rustc-web", "Hit:1 http://deb.example bookworm InRelease"),
            ToolchainError::NoPackage { .. }
        ));
    }
}
