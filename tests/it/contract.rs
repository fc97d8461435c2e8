//! The contract against what was released of it: nothing that guests were built for changes.

mod compare;
mod made_up;
mod surface;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pointsman_wasm::ComponentPolicy;
use semver::Version;

use compare::{breaks, compatible};
use surface::Surface;

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")
}

/// The released versions, each with its folder.
fn released() -> Result<BTreeMap<Version, PathBuf>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(wit().join("released"))? {
        let path = entry?.path();
        if path.is_dir() {
            let name =
                path.file_name().and_then(|name| name.to_str()).context("a folder's name")?;
            all.insert(Version::parse(name).with_context(|| name.to_owned())?, path);
        }
    }
    Ok(all)
}

/// Whether the page beside the frozen versions calls that one a draft.
fn is_draft(version: &Version) -> Result<bool> {
    let page = std::fs::read_to_string(wit().join("released/README.md"))?;
    let row = page.lines().find(|line| line.starts_with(&format!("| {version} |")));
    let row = row.with_context(|| format!("wit/released/README.md has no row for {version}"))?;
    Ok(row.contains("draft"))
}

#[test]
fn the_contract_breaks_no_guest_of_a_released_version() -> Result<()> {
    let current = Surface::of_folder(&wit())?;
    let released = released()?;
    let newest = released.iter().rfind(|(version, _)| compatible(version, &current.version));
    let Some((version, folder)) = newest else { return Ok(()) };
    let mut said = breaks(&Surface::of_folder(folder)?, &current);
    if !said.is_empty() && is_draft(version)? {
        said.push(format!(
            "but {version} is a draft, which may still be mended in place: say so in \
             wit/CHANGES.md, and copy wit/*.wit to wit/released/{version}"
        ));
    }
    assert!(said.is_empty(), "{}", said.join("\n"));
    Ok(())
}

#[test]
fn a_frozen_copy_is_of_the_version_that_its_folder_says() -> Result<()> {
    let released = released()?;
    for (at, (version, folder)) in released.iter().enumerate() {
        assert_eq!(Surface::of_folder(folder)?.version, *version);
        let last = at + 1 == released.len();
        assert!(!is_draft(version)? || last, "{version} is a draft, and not the newest");
    }
    Ok(())
}

#[test]
fn each_released_version_breaks_no_guest_of_the_one_before() -> Result<()> {
    let released: Vec<_> = released()?.into_iter().collect();
    for pair in released.windows(2) {
        let [(_, old), (_, new)] = pair else { continue };
        let said = breaks(&Surface::of_folder(old)?, &Surface::of_folder(new)?);
        assert!(said.is_empty(), "{}", said.join("\n"));
    }
    Ok(())
}

#[test]
fn the_host_takes_every_released_version_and_the_current_one() -> Result<()> {
    let current = Surface::of_folder(&wit())?.version;
    for version in released()?.into_keys().chain([current]) {
        let guest = wat::parse_str(format!(
            "(component (instance $i) \
             (export \"pointsman:policy/worker-selection@{version}\" (instance $i)))"
        ))?;
        ComponentPolicy::check_outside(Path::new("guest.wasm"), &guest)?;
    }
    Ok(())
}

#[test]
fn the_comparison_finds_what_really_differs() -> Result<()> {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts/0.0.9");
    let mut old = Surface::of_folder(&old)?;
    // As if it had been released under this version.
    let current = Surface::of_folder(&wit())?;
    old.version = current.version.clone();
    let said = breaks(&old, &current).join("\n");
    for wanted in [
        "func `worker-selection.keep` was `func(filter: u32, request: request, candidates: \
         candidates) -> result<list<bool>, string>` in 0.1.0 and is `func(",
        "func `worker-selection.pick` was ",
        "func `worker-selection.score` was ",
        "field `uniform` of record `types.candidates` is new, as `u64`, ",
    ] {
        assert!(said.contains(wanted), "{wanted:?} should be in:\n{said}");
    }
    Ok(())
}
