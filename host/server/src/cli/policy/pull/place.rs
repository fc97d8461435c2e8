//! Puts a component into the policies folder, so that a router that looks sees all of it or nothing.
//!
//! Owns the order: everything is written beside, under names that no router takes up, and renamed
//! when all of it is there; the signature first, since a component without one may be refused.
//! Whatever fails, what was there before is there again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pointsman_wasm::{open_regular, signature_of};
use tempfile::{Builder, NamedTempFile};

/// Refuses a folder that is none, and a component's place that is something else's.
pub(super) fn check(folder: &Path, file: &Path) -> Result<()> {
    let found = fs::metadata(folder)
        .with_context(|| format!("{}: make it first: `mkdir -p`", folder.display()))?;
    if !found.is_dir() {
        bail!("{} is no folder; name the one that policies_dir names", folder.display());
    }
    if file.is_dir() {
        bail!("{} is a folder; take it away, or give another --name", file.display());
    }
    Ok(())
}

/// Writes the component, and its signature if it has one.
pub(super) fn place(
    folder: &Path,
    file: &Path,
    component: &[u8],
    signature: Option<&[u8]>,
) -> Result<()> {
    let mode = mode(folder, file);
    let component = beside(folder, component, mode)?;
    let Some(signature) = signature else { return rename(component, file) };
    let signature = beside(folder, signature, mode)?;
    let at = signature_of(file);
    // What to put back; a link is followed, and becomes a file.
    let before = regular(&at);
    rename(signature, &at)?;
    rename(component, file).inspect_err(|_| {
        // Nobody is left to tell if that fails.
        let _ = match before {
            Some(before) => beside(folder, &before, mode).and_then(|before| rename(before, &at)),
            None => fs::remove_file(&at).map_err(Into::into),
        };
    })
}

/// What a regular file has; none when there is none.
fn regular(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path).ok()??.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A file that is whole and has no name yet that matters. It goes when it is dropped.
fn beside(folder: &Path, bytes: &[u8], mode: u32) -> Result<NamedTempFile> {
    let what =
        || format!("can't write to {}; check who may write there, and its space", folder.display());
    let mut file =
        Builder::new().prefix(".pulled-").suffix(".part").tempfile_in(folder).with_context(what)?;
    file.write_all(bytes).with_context(what)?;
    permit(file.as_file(), mode).with_context(what)?;
    file.as_file().sync_all().with_context(what)?;
    Ok(file)
}

fn rename(file: NamedTempFile, to: &Path) -> Result<()> {
    let persisted = file.persist(to).map_err(|error| error.error);
    persisted.with_context(|| {
        format!("can't rename it to {}; check who may write there", to.display())
    })?;
    Ok(())
}

/// Whether others may read it, as they may read what it replaces, or else its neighbours, or else the
/// folder. Nobody but the owner may write it.
#[cfg(unix)]
fn mode(folder: &Path, file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;

    let mode_of = |path: &Path| fs::metadata(path).ok().map(|found| found.permissions().mode());
    let neighbours = || {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let mut components =
            paths.iter().filter(|path| path.extension().is_some_and(|e| e == "wasm"));
        components.find_map(|path| mode_of(path))
    };
    let like = mode_of(file).or_else(neighbours).or_else(|| mode_of(folder)).unwrap_or_default();
    if like & 0o044 == 0 { 0o600 } else { 0o644 }
}

#[cfg(not(unix))]
fn mode(_: &Path, _: &Path) -> u32 {
    0
}

#[cfg(unix)]
fn permit(file: &fs::File, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn permit(_: &fs::File, _: u32) -> std::io::Result<()> {
    Ok(())
}
