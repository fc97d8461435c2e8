//! Who else can write what the router trusts.

use std::path::Path;

/// A warning if others than a file's owner can write it.
#[cfg(unix)]
pub(super) fn by_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;

    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let (who, what) = match mode & 0o022 {
        0 => return None,
        0o020 => ("its group", "g-w"),
        0o002 => ("everybody", "o-w"),
        _ => ("its group and everybody", "go-w"),
    };
    let path = path.display();
    Some(format!(
        "{path} can be written by {who}, who thereby decide where requests go; `chmod {what} {path}`"
    ))
}

/// Other systems have no such modes.
#[cfg(not(unix))]
pub(super) fn by_others(_: &Path) -> Option<String> {
    None
}

/// Warnings about a folder of components, and about the components in it.
pub(super) fn in_folder(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut components: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    components.sort();
    [folder.to_owned()].iter().chain(&components).filter_map(|path| by_others(path)).collect()
}
