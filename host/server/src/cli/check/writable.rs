//! Who else can write what the router trusts: the file, the folder of components, the components.

use std::path::Path;

/// Warnings if others than the router's own user and root can write a file.
#[cfg(unix)]
pub(super) fn by_others(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;

    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    let who = Who { mode: metadata.mode(), owner: metadata.uid() };
    who.warnings(path, rustix::process::geteuid().as_raw())
}

/// Other systems have no such modes.
#[cfg(not(unix))]
pub(super) fn by_others(_: &Path) -> Vec<String> {
    Vec::new()
}

/// Who can write a file.
#[cfg(unix)]
#[derive(Clone, Copy, Debug)]
struct Who {
    mode: u32,
    owner: u32,
}

#[cfg(unix)]
impl Who {
    /// `user` is the one that the check runs as, and most likely the router.
    fn warnings(self, path: &Path, user: u32) -> Vec<String> {
        let path = path.display();
        let mut warnings = Vec::new();
        let by = match self.mode & 0o022 {
            0 => None,
            0o020 => Some(("its group", "g-w")),
            0o002 => Some(("everybody", "o-w")),
            _ => Some(("its group and everybody", "go-w")),
        };
        if let Some((who, what)) = by {
            warnings.push(format!(
                "{path} can be written by {who}, who thereby decide where requests go; \
                 `chmod {what} {path}`"
            ));
        }
        // Root can write everything anyhow.
        if self.owner != 0 && self.owner != user {
            warnings.push(format!(
                "{path} belongs to user {}, who thereby decides where requests go, and is neither \
                 root nor user {user}, who checks it; `chown {user} {path}`, or check as the user \
                 that the router runs as",
                self.owner
            ));
        }
        warnings
    }
}

/// Warnings about a folder of components, and about the components in it.
pub(super) fn in_folder(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut components: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    components.sort();
    [folder.to_owned()].iter().chain(&components).flat_map(|path| by_others(path)).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_its_owner_and_root_alone() {
        let told = |mode, owner| Who { mode, owner }.warnings("p/a.wasm".as_ref(), 1_000);
        for (mode, owner) in [(0o100_644, 1_000), (0o100_600, 0), (0o040_755, 1_000)] {
            assert!(told(mode, owner).is_empty(), "{mode:o} {owner}");
        }
        assert_eq!(
            told(0o100_666, 1_000),
            [
                "p/a.wasm can be written by its group and everybody, who thereby decide where requests \
              go; `chmod go-w p/a.wasm`"
            ]
        );
        assert_eq!(
            told(0o100_644, 1_001),
            [
                "p/a.wasm belongs to user 1001, who thereby decides where requests go, and is neither \
              root nor user 1000, who checks it; `chown 1000 p/a.wasm`, or check as the user that the \
              router runs as"
            ]
        );
        let both = told(0o100_664, 1_001);
        assert!(both.len() == 2 && both[0].contains("`chmod g-w p/a.wasm`"), "{both:?}");
        assert!(told(0o100_646, 0)[0].contains("written by everybody"));
    }

    #[test]
    fn the_one_who_checks_may_own_what_is_checked() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("a.wasm");
        std::fs::write(&file, "").expect("a file");
        let told = in_folder(folder.path());
        assert!(!told.iter().any(|warning| warning.contains("belongs to")), "{told:?}");
    }
}
