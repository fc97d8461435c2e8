//! Unpacking without installing: the compiler's files under `root/`, the library source under `library/`.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::ToolchainError;
use crate::command::{self, CommandError};

/// Parts of the packages that no build needs, a third of the whole.
const LEFT_OUT: [&str; 2] = ["usr/share", "usr/libexec"];

/// The packages in a folder, in a fixed order.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, ToolchainError> {
    let entries = std::fs::read_dir(folder).map_err(ToolchainError::io("read", folder))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut packages: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect();
    packages.sort();
    Ok(packages)
}

/// Unpacks every package, several at once: nearly all the time is decompression.
pub(super) fn all(packages: &[PathBuf], work: &Path) -> Result<(), ToolchainError> {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            packages.iter().map(|package| scope.spawn(move || one(package, work))).collect();
        // A panic can't be met here: it would be a defect of the archive reader, and is passed on.
        running.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn one(package: &Path, work: &Path) -> Result<(), ToolchainError> {
    let mut call = Command::new("dpkg-deb");
    call.arg("--fsys-tarfile")
        .arg(package)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child =
        call.spawn().map_err(|source| ToolchainError::Tool(command::start_error(&call, source)))?;
    let unpacked = match child.stdout.take() {
        Some(archive) => extract(archive, work),
        None => Ok(()),
    };
    // When extraction stopped early the pipe is closed by now, and dpkg-deb ends; its complaint about that is not the cause.
    let ended = child.wait_with_output().map_err(ToolchainError::io("read", package))?;
    unpacked.map_err(ToolchainError::io("unpack into", work))?;
    if ended.status.success() {
        return Ok(());
    }
    let log = command::tail(&String::from_utf8_lossy(&ended.stderr));
    Err(ToolchainError::Tool(CommandError::Failed {
        program: command::name(&call),
        status: ended.status,
        log,
    }))
}

fn extract(archive: impl Read, work: &Path) -> std::io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some(place) = place(&entry.path()?) else {
            continue;
        };
        let place = work.join(place);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        entry.unpack(&place)?;
    }
    // dpkg-deb pads the archive; read on, so that it isn't cut off while writing.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
    Ok(())
}

/// Where a file of a package belongs under the work folder; none if it isn't needed, or would end up outside.
fn place(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    if let Ok(source) = plain.strip_prefix("usr/src") {
        // usr/src/rustc-1.96.0/library/core/… becomes library/core/…
        let inner: PathBuf = source.components().skip(1).collect();
        return inner.starts_with("library").then_some(inner);
    }
    let is_needed =
        plain.starts_with("usr") && LEFT_OUT.iter().all(|left_out| !plain.starts_with(left_out));
    is_needed.then(|| Path::new("root").join(plain))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_place_and_none_is_outside() {
        let of =
            |path: &str| place(Path::new(path)).map(|place| place.to_str().unwrap().to_owned());
        assert_eq!(of("./usr/bin/rustc").as_deref(), Some("root/usr/bin/rustc"));
        assert_eq!(
            of("./usr/src/rustc-1.96.0/library/core/src/lib.rs").as_deref(),
            Some("library/core/src/lib.rs")
        );
        for left_out in [
            "./usr/share/doc/x",
            "./usr/libexec/y",
            "./usr/src/rustc-1.96.0/compiler/z",
            "./etc/x",
            "../usr/bin/x",
            "/usr/bin/x",
            "./",
        ] {
            assert_eq!(of(left_out), None, "{left_out}");
        }
    }

    #[test]
    fn an_archive_is_unpacked_with_its_links_and_modes() {
        let work = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o755);
        builder.append_data(&mut header, "./usr/bin/tool", &b"hi"[..]).unwrap();
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "./usr/bin/alias", "tool").unwrap();
        extract(&builder.into_inner().unwrap()[..], work.path()).unwrap();

        assert_eq!(std::fs::read(work.path().join("root/usr/bin/alias")).unwrap(), b"hi");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(work.path().join("root/usr/bin/tool"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o100, 0o100);
        }
    }
}
