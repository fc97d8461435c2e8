//! One look through the folder.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Inner;
use super::compiler::Ticket;
use super::entries::{Entry, Failed, Reading, Settle, Settled};
use super::stamp::Stamp;
use super::status::{FolderState, TypeChange};
use crate::component::{ComponentPolicy, digest};
use crate::error::LoadError;
use crate::file;

/// A look's outcome.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) state: FolderState,
    /// The files a compilation of which has ended.
    pub(super) ended: Vec<String>,
}

/// Looks through the folder: takes the answers of compilations that have ended, and has compiled
/// what is new. The caller sees to it that only one look is under way.
pub(super) fn scan(folder: &Inner) -> Seen {
    let mut seen = Seen::default();
    for (ticket, answer) in folder.compiler.answers() {
        let name = owner(folder, ticket);
        // What belongs to no file any more belongs to one that is gone.
        let Some((name, path)) = name else { continue };
        Look { folder, name: &name, path: &path }.take(ticket, answer, &mut seen.state);
        seen.ended.push(name);
    }
    let state = &mut seen.state;
    match files(&folder.dir) {
        Ok(files) => {
            // Whoever found no room at the last look comes first, so that no name waits for ever.
            let waited =
                |name: &String| folder.entries.lock().files.get(name).is_some_and(|e| e.waits);
            let (first, then): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| waited(name));
            for (name, path) in first.into_iter().chain(then) {
                let look = Look { folder, name, path };
                look.take_up(state);
                // Only now: what has just been compiled may have been overtaken.
                look.settle(state);
            }
            forget_the_gone(folder, &files, state);
            folder.entries.lock().error = None;
        }
        Err(source) => {
            let dir = folder.dir.display();
            let remedy = match source.kind() {
                io::ErrorKind::NotFound => format!(
                    "make it, or build a policy into it: `pointsman policy build CRATE_DIR --out {dir}`"
                ),
                io::ErrorKind::NotADirectory => "name the folder of components".to_owned(),
                _ => "check its permissions".to_owned(),
            };
            let text = format!("{dir}: can't be read: {source}; {remedy}");
            let before = folder.entries.lock().error.replace(text.clone());
            if before.as_ref() != Some(&text) {
                tracing::error!(error = text, "the policies folder can't be read");
            }
            state.error = Some(text);
        }
    }
    let stuck = folder.compiler.stuck();
    let mut entries = folder.entries.lock();
    entries.unsettled = state.unsettled;
    state.types = entries.status(stuck);
    state.compiling = entries.compiling(stuck.is_some());
    seen
}

/// The file whose version is compiled under a ticket.
fn owner(folder: &Inner, ticket: Ticket) -> Option<(String, PathBuf)> {
    let entries = folder.entries.lock();
    let mut files = entries.files.iter();
    let found = files.find(|(_, entry)| entry.tickets().any(|one| one == ticket));
    found.map(|(name, entry)| (name.clone(), entry.path.clone()))
}

/// The component files, by name without `.wasm`; hidden ones are somebody's work in progress, and
/// links that lead nowhere are as good as gone.
fn files(dir: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(stem) = name.strip_suffix(".wasm") else { continue };
        if name.starts_with('.') {
            continue;
        }
        let there = match std::fs::metadata(&path) {
            // A FIFO or the like is shown, with the reason why it isn't opened.
            Ok(metadata) => !metadata.is_dir(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if there {
            files.insert(stem.to_owned(), path.clone());
        }
    }
    Ok(files)
}

fn forget_the_gone(folder: &Inner, files: &BTreeMap<String, PathBuf>, state: &mut FolderState) {
    folder.entries.lock().files.retain(|name, entry| {
        let there = files.contains_key(name);
        if !there {
            entry.tickets().for_each(|ticket| folder.compiler.forget(ticket));
        }
        if !there && entry.is_serving() {
            tracing::warn!(policy_type = name, "a policy's file is gone; instances in use go on");
            state.changes.push(TypeChange::Removed { policy_type: name.clone() });
        }
        there
    });
}

/// A look at one file.
struct Look<'a> {
    folder: &'a Inner,
    name: &'a str,
    path: &'a Path,
}

/// What reading a file gave.
enum Content {
    /// Its bytes, and the stamp that it had before and after.
    Bytes(Vec<u8>, Stamp),
    /// It changed meanwhile, or vanished.
    Changing,
}

impl Look<'_> {
    /// Reads the file if it changed, and has it compiled if its digest did.
    fn take_up(&self, state: &mut FolderState) {
        let stamp = match self.stamp() {
            Ok(Some(stamp)) => stamp,
            Ok(None) => return,
            Err(error) => return self.refuse(None, &error, state),
        };
        if self.edit(|entry| entry.is_known(&stamp)) {
            return;
        }
        match self.look(stamp, state) {
            Ok(()) => {}
            // The same content may be trusted later: its signature comes in a file of its own.
            Err(error @ LoadError::Distrusted { .. }) => self.refuse(None, &error, state),
            Err(error) => self.refuse(Some(stamp), &error, state),
        }
        state.unsettled |= !matches!(self.stamp(), Ok(now) if now == Some(stamp));
    }

    /// The file's stamp; none when it is gone.
    fn stamp(&self) -> Result<Option<Stamp>, LoadError> {
        Ok(file::look(self.path)?.as_ref().map(Stamp::of))
    }

    /// Reads the file, and has compiled what it holds if that is new.
    fn look(&self, stamp: Stamp, state: &mut FolderState) -> Result<(), LoadError> {
        self.check_name()?;
        let most = self.folder.engine.config().most_component_bytes;
        if stamp.size() > most {
            let (path, size) = (self.path.to_owned(), stamp.size());
            return Err(LoadError::TooLarge { path, size, most });
        }
        let Content::Bytes(bytes, stamp) = self.read(most)? else {
            state.unsettled = true;
            return Ok(());
        };
        let digest = digest(&bytes);
        self.folder.options.trust.check(self.name, self.path, &bytes, &digest)?;
        let compiler = &self.folder.compiler;
        self.edit(|entry| {
            let reading = entry.read(&digest, stamp);
            // The file's present content is what is wanted; all before it was overtaken.
            let present = entry.present_ticket();
            entry.tickets().filter(|one| Some(*one) != present).for_each(|t| compiler.overtake(t));
            present.into_iter().for_each(|ticket| compiler.want(ticket));
            if reading == Reading::Known {
                return;
            }
            let (engine, name, path) =
                (self.folder.engine.clone(), self.name.to_owned(), self.path.to_owned());
            let size = bytes.len() as u64;
            let compile = move || ComponentPolicy::load(&engine, &name, &path, &bytes);
            match compiler.start(self.path, size, compile) {
                Some(ticket) => entry.compile(digest, stamp, ticket),
                None => entry.waits = true,
            }
        });
        Ok(())
    }

    fn check_name(&self) -> Result<(), LoadError> {
        ComponentPolicy::check_name(self.name, self.path)
    }

    fn read(&self, most: u64) -> Result<Content, LoadError> {
        let unreadable =
            |source: io::Error| LoadError::Unreadable { path: self.path.to_owned(), source };
        let Some(open) = file::open(self.path)? else { return Ok(Content::Changing) };
        let before = Stamp::of(&open.metadata().map_err(unreadable)?);
        let bytes = file::bytes(self.path, &open, most)?;
        let after = Stamp::of(&open.metadata().map_err(unreadable)?);
        let whole = before == after && bytes.len() as u64 == after.size();
        Ok(if whole { Content::Bytes(bytes, after) } else { Content::Changing })
    }

    /// Takes the answer of a compilation.
    fn take(&self, ticket: Ticket, answer: super::compiler::Answer, state: &mut FolderState) {
        match answer {
            Ok(policy) => self.edit(|entry| entry.loaded(ticket, policy)),
            Err(error) => {
                let settle = self.folder.options.settle;
                let now = Settle { settle, at: SystemTime::now() };
                match self.edit(|entry| entry.failed(ticket, &error, now)) {
                    Failed::Early => state.unsettled = true,
                    Failed::News => self.tell(&error, state),
                    Failed::Known | Failed::Overtaken => {}
                }
            }
        }
    }

    fn refuse(&self, stamp: Option<Stamp>, error: &LoadError, state: &mut FolderState) {
        let compiler = &self.folder.compiler;
        let news = self.edit(|entry| {
            entry.tickets().for_each(|ticket| compiler.overtake(ticket));
            entry.unfit(stamp, error)
        });
        if news {
            self.tell(error, state);
        }
    }

    fn tell(&self, error: &LoadError, state: &mut FolderState) {
        let error = error.to_string();
        tracing::warn!(policy_type = self.name, error, "a policy is not taken up");
        state.changes.push(TypeChange::Refused { policy_type: self.name.to_owned(), error });
    }

    /// Lets a version serve whose turn it is.
    fn settle(&self, state: &mut FolderState) {
        let (settled, forgotten) = self.edit(Entry::settle);
        forgotten.into_iter().for_each(|ticket| self.folder.compiler.forget(ticket));
        let Some(Settled { before, digest }) = settled else { return };
        // Whether it decides is for whoever puts it in place to say.
        tracing::debug!(policy_type = self.name, %digest, "a version of a policy has loaded");
        let policy_type = self.name.to_owned();
        state.changes.push(match before {
            Some(before) => TypeChange::Replaced { policy_type, before, digest },
            None => TypeChange::Added { policy_type, digest },
        });
    }

    fn edit<R>(&self, edit: impl FnOnce(&mut Entry) -> R) -> R {
        let mut entries = self.folder.entries.lock();
        let entry = entries.files.entry(self.name.to_owned()).or_default();
        entry.path = self.path.to_owned();
        edit(entry)
    }
}
