//! The file of decisions, a line each.
//!
//! Owns the file, when another one is begun, and how many there are: `decisions.jsonl` is written,
//! `decisions.jsonl.1` was before it, and so on. A file is never left without the settings that its
//! decisions were made under. It doesn't know what a line means.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    most_bytes: u64,
    files: u32,
    /// None after it could not be written; it is opened anew then.
    file: Option<File>,
    bytes: u64,
    /// The settings that stand in the file last.
    settings: String,
}

impl Journal {
    pub(super) fn open(path: PathBuf, most_bytes: u64, files: u32) -> std::io::Result<Self> {
        let (file, bytes) = open(&path)?;
        let settings = String::new();
        Ok(Self { path, most_bytes, files, file: Some(file), bytes, settings })
    }

    pub(super) fn file(&self) -> &Path {
        &self.path
    }

    /// Writes a decision, and before it the settings that it was made under, unless they stand there.
    pub(super) fn write(&mut self, settings: &str, decision: &RawValue) -> std::io::Result<()> {
        self.write_under(Some(settings), decision)
    }

    /// Writes a line that goes by no settings.
    pub(super) fn write_alone(&mut self, line: &RawValue) -> std::io::Result<()> {
        self.write_under(None, line)
    }

    fn write_under(&mut self, settings: Option<&str>, line: &RawValue) -> std::io::Result<()> {
        let size = (settings.map_or(0, str::len) + line.get().len() + 2) as u64;
        if self.bytes > 0 && self.bytes + size > self.most_bytes {
            self.rotate()?;
        }
        let mut text = String::with_capacity(size as usize + 1);
        let settings = settings.filter(|settings| self.settings != *settings);
        if let Some(settings) = settings {
            text.push_str(settings);
            text.push('\n');
        }
        text.push_str(line.get());
        text.push('\n');
        let written = self.append(&text);
        if written.is_err() {
            // Half a line may stand there: what follows begins a line of its own.
            self.file = None;
        } else if let Some(settings) = settings {
            self.settings.clear();
            self.settings.push_str(settings);
        }
        written
    }

    fn append(&mut self, text: &str) -> std::io::Result<()> {
        if self.file.is_none() {
            let (file, bytes) = open(&self.path)?;
            (self.file, self.bytes) = (Some(file), bytes);
            self.settings.clear();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Begins another file.
    fn rotate(&mut self) -> std::io::Result<()> {
        self.file = None;
        if self.files <= 1 {
            if_there(std::fs::remove_file(&self.path))?;
        } else {
            for number in (1..self.files - 1).rev() {
                if_there(std::fs::rename(self.numbered(number), self.numbered(number + 1)))?;
            }
            if_there(std::fs::rename(&self.path, self.numbered(1)))?;
        }
        let (file, bytes) = open(&self.path)?;
        (self.file, self.bytes) = (Some(file), bytes);
        self.settings.clear();
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(format!(".{number}"));
        path.into()
    }
}

/// What was to be done to a file that may not be there.
fn if_there(done: std::io::Result<()>) -> std::io::Result<()> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Why a file can't be the one that is written, as far as is seen without writing.
pub(crate) fn unfit(file: &Path) -> Option<String> {
    match std::fs::metadata(file) {
        Ok(known) if known.is_file() => None,
        Ok(_) => Some(format!("{} is no regular file", file.display())),
        Err(_) => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.filter(|folder| !folder.is_dir())?;
            Some(format!("there is no folder {} for {}", folder.display(), file.display()))
        }
    }
}

/// Opens a file to write behind what it has, and says how much that is. What ends in the middle of a
/// line gets its end.
fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Who sent what is nobody else's business.
        options.mode(0o600);
    }
    // Asked before: whoever opens a pipe waits for its reader.
    if let Some(what) = unfit(path) {
        return Err(std::io::Error::other(what));
    }
    let mut file = options.open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 && !ends_a_line(&mut file, bytes)? {
        file.write_all(b"\n")?;
        bytes += 1;
    }
    Ok((file, bytes))
}

fn ends_a_line(file: &mut File, bytes: u64) -> std::io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let mut last = [0];
    file.seek(SeekFrom::Start(bytes - 1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
