//! One look through the folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pointsman_core::policy::{Digest, builtin};

use super::Inner;
use super::stamp::Stamp;
use super::status::{FolderState, TypeChange, TypeStatus};
use crate::component::{ComponentPolicy, digest};
use crate::convert::is_name;
use crate::error::LoadError;

/// How often one file is read again because it changed while it was compiled, before the look is
/// over; the next look goes on.
const MOST_OVERTAKEN: usize = 3;

/// How long a file's times can't be trusted: some file systems count in seconds.
const COARSE_CLOCK: std::time::Duration = std::time::Duration::from_secs(2);

/// All files, by name without `.wasm`.
#[derive(Debug, Default)]
pub(super) struct Entries {
    files: BTreeMap<String, Entry>,
    error: Option<String>,
}

#[derive(Debug, Default)]
struct Entry {
    path: PathBuf,
    active: Option<ComponentPolicy>,
    since: Option<SystemTime>,
    wanted: Option<Digest>,
    error: Option<String>,
    /// The content that was last dealt with; none when it must be read again.
    stamp: Option<Stamp>,
}

impl Entries {
    pub(super) fn serving(&self) -> impl Iterator<Item = &ComponentPolicy> {
        self.files.values().filter_map(|entry| entry.active.as_ref())
    }

    pub(super) fn status(&self) -> Vec<TypeStatus> {
        self.files.iter().map(|(name, entry)| entry.status(name)).collect()
    }
}

impl Entry {
    fn status(&self, name: &str) -> TypeStatus {
        let active = self.active.as_ref();
        let since = self.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
        TypeStatus {
            policy_type: name.to_owned(),
            path: self.path.clone(),
            active: active.map(|policy| policy.content_digest().clone()),
            wanted: self.wanted.clone(),
            since_ms: since.and_then(|since| u64::try_from(since.as_millis()).ok()),
            size: active.map(ComponentPolicy::size),
            class: active.map(ComponentPolicy::class),
            imports: active.map(|policy| policy.imports().to_vec()).unwrap_or_default(),
            error: self.error.clone(),
        }
    }
}

/// Looks through the folder. The caller sees to it that only one look is under way.
pub(super) fn scan(folder: &Inner) -> FolderState {
    let mut state = FolderState::default();
    match files(&folder.dir) {
        Ok(files) => {
            for (name, path) in &files {
                let look = Look { folder, name, path };
                look.take_up(&mut state);
            }
            forget_the_gone(folder, &files, &mut state);
            folder.entries.lock().error = None;
        }
        Err(source) => {
            let text =
                format!("{}: can't be read: {source}; check the folder", folder.dir.display());
            let before = folder.entries.lock().error.replace(text.clone());
            if before.as_ref() != Some(&text) {
                tracing::error!(error = text, "the policies folder can't be read");
            }
            state.error = Some(text);
        }
    }
    state.types = folder.entries.lock().status();
    state
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
            Ok(metadata) => metadata.is_file(),
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
        if !there && entry.active.is_some() {
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

/// What a look at a file gave.
enum Found {
    /// A version that serves from now on, unless it is overtaken.
    New(Box<ComponentPolicy>),
    /// The version that serves already.
    Serving,
    /// What can't be judged yet, or has been refused already.
    Nothing,
}

impl Look<'_> {
    /// Reads the file if it changed, compiles it if its digest did, and goes on until the file is
    /// as it was when it was read: a version that was overtaken while it was compiled serves only
    /// if what overtook it doesn't load.
    fn take_up(&self, state: &mut FolderState) {
        let mut loaded = None;
        for _ in 0..MOST_OVERTAKEN {
            let stamp = match self.stamp() {
                Ok(Some(stamp)) => stamp,
                Ok(None) => break,
                Err(error) => {
                    self.refuse(None, &error, state);
                    break;
                }
            };
            if self.is_known(&stamp) {
                break;
            }
            match self.look(stamp, state) {
                Ok(Found::New(policy)) => loaded = Some(policy),
                Ok(Found::Serving) => loaded = None,
                Ok(Found::Nothing) => {}
                Err(error) => self.refuse(Some(stamp), &error, state),
            }
            if matches!(self.stamp(), Ok(now) if now == Some(stamp)) {
                break;
            }
            state.unsettled = true;
        }
        if let Some(policy) = loaded {
            self.install(*policy, state);
        }
    }

    /// The file's stamp; none when it is gone.
    fn stamp(&self) -> Result<Option<Stamp>, LoadError> {
        match std::fs::metadata(self.path) {
            Ok(metadata) => Ok(metadata.is_file().then(|| Stamp::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LoadError::Unreadable { path: self.path.to_owned(), source }),
        }
    }

    fn is_known(&self, stamp: &Stamp) -> bool {
        let entries = self.folder.entries.lock();
        entries.files.get(self.name).is_some_and(|entry| entry.stamp == Some(*stamp))
    }

    /// Reads the file, and loads what it holds if that is new.
    fn look(&self, stamp: Stamp, state: &mut FolderState) -> Result<Found, LoadError> {
        self.check_name()?;
        let most = self.folder.engine.config().most_component_bytes;
        if stamp.size() > most {
            let (path, size) = (self.path.to_owned(), stamp.size());
            self.edit(|entry| entry.wanted = None);
            return Err(LoadError::TooLarge { path, size, most });
        }
        let read = self.read(most).inspect_err(|_| self.edit(|entry| entry.wanted = None))?;
        let Content::Bytes(bytes, stamp) = read else {
            state.unsettled = true;
            return Ok(Found::Nothing);
        };
        let digest = digest(&bytes);
        if let Some(found) = self.settled_already(&digest, stamp) {
            return Ok(found);
        }
        match ComponentPolicy::load(&self.folder.engine, self.name, self.path, &bytes) {
            Ok(policy) => {
                self.edit(|entry| {
                    entry.wanted = Some(digest);
                    entry.error = None;
                    entry.stamp = remember(stamp);
                });
                Ok(Found::New(Box::new(policy)))
            }
            Err(_) if stamp.is_younger(self.folder.options.settle, SystemTime::now()) => {
                // It may be half of a file: look again before saying so.
                state.unsettled = true;
                Ok(Found::Nothing)
            }
            Err(error) => {
                self.edit(|entry| entry.wanted = Some(digest));
                Err(error)
            }
        }
    }

    fn check_name(&self) -> Result<(), LoadError> {
        let path = self.path.to_owned();
        if !is_name(self.name) {
            return Err(LoadError::Name { path });
        }
        if builtin::NAMES.contains(&self.name) {
            return Err(LoadError::BuiltinName { path, name: self.name.to_owned() });
        }
        Ok(())
    }

    fn read(&self, most: u64) -> Result<Content, LoadError> {
        let unreadable =
            |source: io::Error| LoadError::Unreadable { path: self.path.to_owned(), source };
        let file = match File::open(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Content::Changing);
            }
            file => file.map_err(unreadable)?,
        };
        let before = Stamp::of(&file.metadata().map_err(unreadable)?);
        let mut bytes = Vec::new();
        // One byte more than is taken shows that there are too many.
        (&file).take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
        let after = Stamp::of(&file.metadata().map_err(unreadable)?);
        let whole = before == after && bytes.len() as u64 == after.size();
        Ok(if whole { Content::Bytes(bytes, after) } else { Content::Changing })
    }

    /// What is known of this content, if it serves already or has been refused already.
    fn settled_already(&self, digest: &Digest, stamp: Stamp) -> Option<Found> {
        self.edit(|entry| {
            let active = entry.active.as_ref().map(ComponentPolicy::content_digest);
            let found = if active == Some(digest) {
                entry.error = None;
                entry.wanted = Some(digest.clone());
                Found::Serving
            } else if entry.error.is_some() && entry.wanted.as_ref() == Some(digest) {
                Found::Nothing
            } else {
                return None;
            };
            entry.stamp = remember(stamp);
            Some(found)
        })
    }

    fn refuse(&self, stamp: Option<Stamp>, error: &LoadError, state: &mut FolderState) {
        let text = error.to_string();
        let known = self.edit(|entry| {
            entry.stamp = stamp.and_then(remember);
            entry.error.replace(text.clone()).as_ref() == Some(&text)
        });
        if !known {
            tracing::warn!(policy_type = self.name, error = text, "a policy is not taken up");
            let policy_type = self.name.to_owned();
            state.changes.push(TypeChange::Refused { policy_type, error: text });
        }
    }

    fn install(&self, policy: ComponentPolicy, state: &mut FolderState) {
        let digest = policy.content_digest().clone();
        let before = self.edit(|entry| {
            entry.since = Some(SystemTime::now());
            entry.active.replace(policy)
        });
        tracing::info!(policy_type = self.name, %digest, "a policy is taken up");
        let policy_type = self.name.to_owned();
        state.changes.push(match before {
            Some(before) => TypeChange::Replaced {
                policy_type,
                before: before.content_digest().clone(),
                digest,
            },
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

/// The stamp, if it is old enough to tell this content from the next.
fn remember(stamp: Stamp) -> Option<Stamp> {
    (!stamp.is_younger(COARSE_CLOCK, SystemTime::now())).then_some(stamp)
}
