//! What is known of each file: the version that serves, and those that are on their way.
//!
//! Owns which of several versions of one file serves. The newest does, as soon as it has loaded. A
//! version that was overtaken while it was compiled serves only if what overtook it doesn't load.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use pointsman_core::policy::Digest;

use super::compiler::Ticket;
use super::stamp::Stamp;
use super::status::TypeStatus;
use crate::component::ComponentPolicy;
use crate::error::LoadError;

/// All files, by name without `.wasm`.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) files: BTreeMap<String, Entry>,
    /// Why the folder can't be read.
    pub(super) error: Option<String>,
    /// Whether the last look found a file that may still be on its way.
    pub(super) unsettled: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    active: Option<ComponentPolicy>,
    since: Option<SystemTime>,
    /// What the file held when it was last read.
    present: Option<Digest>,
    /// The last content that was judged: it serves, or `error` says why not.
    wanted: Option<Digest>,
    /// What the file holds, where nobody looks into that for want of trust. Once its signature has come
    /// it is to be looked at all the same.
    distrusted: Option<Digest>,
    error: Option<String>,
    /// The content that was last dealt with; none when it must be read again.
    stamp: Option<Stamp>,
    /// Versions that are compiled, or were while another was; the oldest first.
    versions: Vec<Version>,
    /// There was no room to compile what the file holds.
    pub(super) waits: bool,
}

/// A version on its way.
#[derive(Debug)]
struct Version {
    digest: Digest,
    ticket: Ticket,
    /// The stamp that it was read under.
    stamp: Stamp,
    loaded: Option<ComponentPolicy>,
}

/// What is to be done about a content that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is another than all that are known: compile it.
    New,
    /// Nothing: it serves, was refused before, or is being compiled.
    Known,
}

impl Entries {
    pub(super) fn serving(&self) -> impl Iterator<Item = &ComponentPolicy> {
        self.files.values().filter_map(|entry| entry.active.as_ref())
    }

    /// `stuck` compilations keep those that wait from being compiled.
    pub(super) fn status(&self, stuck: Option<usize>) -> Vec<TypeStatus> {
        self.files.iter().map(|(name, entry)| entry.status(name, stuck)).collect()
    }

    /// The names of files whose newest version is compiled, or waits for that.
    pub(super) fn compiling(&self, stuck: bool) -> Vec<String> {
        let busy = self.files.iter().filter(|(_, entry)| entry.is_compiling(stuck));
        busy.map(|(name, _)| name.clone()).collect()
    }
}

impl Entry {
    fn status(&self, name: &str, stuck: Option<usize>) -> TypeStatus {
        let active = self.active.as_ref();
        let since = self.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
        let waits = stuck.filter(|_| self.waits).map(|running| {
            let error = LoadError::Crowded { path: self.path.clone(), running };
            (self.present.clone(), Some(error.to_string()))
        });
        let (wanted, error) = waits.unwrap_or_else(|| {
            (self.distrusted.as_ref().or(self.wanted.as_ref()).cloned(), self.error.clone())
        });
        TypeStatus {
            policy_type: name.to_owned(),
            path: self.path.clone(),
            active: active.map(|policy| policy.content_digest().clone()),
            wanted,
            compiling: self.present.clone().filter(|_| self.is_compiling(false)),
            since_ms: since.and_then(|since| u64::try_from(since.as_millis()).ok()),
            size: active.map(ComponentPolicy::size),
            class: active.map(ComponentPolicy::class),
            imports: active.map(|policy| policy.imports().to_vec()).unwrap_or_default(),
            error,
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.active.is_some()
    }

    /// Whether a version is compiled, or waits for that and will not wait for ever.
    fn is_compiling(&self, stuck: bool) -> bool {
        (self.waits && !stuck) || self.versions.iter().any(|version| version.loaded.is_none())
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.versions.iter().map(|version| version.ticket)
    }

    /// The compilation of what the file holds.
    pub(super) fn present_ticket(&self) -> Option<Ticket> {
        let version = self.versions.iter().find(|one| Some(&one.digest) == self.present.as_ref());
        version.map(|version| version.ticket)
    }

    pub(super) fn is_known(&self, stamp: &Stamp) -> bool {
        self.stamp == Some(*stamp)
    }

    /// The file was read. What is known of its content decides what follows.
    pub(super) fn read(&mut self, digest: &Digest, stamp: Stamp) -> Reading {
        self.present = Some(digest.clone());
        self.distrusted = None;
        self.waits = false;
        if self.active.as_ref().map(ComponentPolicy::content_digest) == Some(digest) {
            self.judged(digest.clone(), None);
        } else if let Some(at) = self.versions.iter().position(|one| one.digest == *digest) {
            // Perhaps again, after another: then it is the newest once more.
            let mut version = self.versions.remove(at);
            version.stamp = stamp;
            self.versions.push(version);
        } else if self.error.is_none() || self.wanted.as_ref() != Some(digest) {
            return Reading::New;
        }
        self.stamp = stamp.if_trusted();
        Reading::Known
    }

    /// What was read is compiled now.
    pub(super) fn compile(&mut self, digest: Digest, stamp: Stamp, ticket: Ticket) {
        self.stamp = stamp.if_trusted();
        self.versions.push(Version { digest, ticket, stamp, loaded: None });
    }

    /// The file couldn't be read, or holds what is refused unread. True if that is news.
    pub(super) fn unfit(&mut self, stamp: Option<Stamp>, error: &LoadError) -> bool {
        self.present = None;
        self.distrusted = match error {
            LoadError::Distrusted { digest, .. } => Some(digest.clone()),
            _ => None,
        };
        self.wanted = None;
        self.waits = false;
        self.stamp = stamp.and_then(Stamp::if_trusted);
        self.refused(error)
    }

    fn refused(&mut self, error: &LoadError) -> bool {
        let text = error.to_string();
        self.error.replace(text.clone()).as_ref() != Some(&text)
    }

    fn judged(&mut self, digest: Digest, error: Option<String>) {
        self.wanted = Some(digest);
        self.error = error;
    }

    /// A version has loaded.
    pub(super) fn loaded(&mut self, ticket: Ticket, policy: ComponentPolicy) {
        if let Some(version) = self.versions.iter_mut().find(|one| one.ticket == ticket) {
            version.loaded = Some(policy);
        }
    }

    /// A version doesn't load.
    pub(super) fn failed(&mut self, ticket: Ticket, error: &LoadError, now: Settle) -> Failed {
        let Some(at) = self.versions.iter().position(|one| one.ticket == ticket) else {
            return Failed::Overtaken;
        };
        let Version { digest, stamp, .. } = self.versions.remove(at);
        if self.present.as_ref() != Some(&digest) {
            return Failed::Overtaken;
        }
        // What took too long was no half of a file.
        let young = stamp.is_younger(now.settle, now.at);
        if young && !matches!(error, LoadError::Slow { .. }) {
            self.stamp = None;
            return Failed::Early;
        }
        self.wanted = Some(digest);
        if self.refused(error) { Failed::News } else { Failed::Known }
    }

    /// The version that takes over now, if one does; and the compilations that nobody waits for
    /// any more.
    pub(super) fn settle(&mut self) -> (Option<Settled>, Vec<Ticket>) {
        let present = self.present.as_ref();
        if present.is_some() && self.active.as_ref().map(ComponentPolicy::content_digest) == present
        {
            return (None, self.versions.drain(..).map(|version| version.ticket).collect());
        }
        // The newest of all is to be waited for; and if it is gone, the newest of those before.
        let Some(Version { loaded: Some(_), .. }) = self.versions.last() else {
            return (None, Vec::new());
        };
        if self.waits {
            return (None, Vec::new());
        }
        let Some(Version { digest, loaded: Some(policy), .. }) = self.versions.pop() else {
            return (None, Vec::new());
        };
        if present == Some(&digest) {
            self.judged(digest, None);
        }
        self.since = Some(SystemTime::now());
        let before = self.active.replace(policy).map(|before| before.content_digest().clone());
        let digest = self.active.as_ref().map(|policy| policy.content_digest().clone());
        let forgotten = self.versions.drain(..).map(|version| version.ticket).collect();
        (digest.map(|digest| Settled { before, digest }), forgotten)
    }
}

/// When a file that doesn't load is believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    pub(super) settle: std::time::Duration,
    pub(super) at: SystemTime,
}

/// What a failed version means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It isn't what the file holds any more.
    Overtaken,
    /// It may have been half of a file: look again before saying so.
    Early,
    /// The file's content is refused.
    News,
    /// As before.
    Known,
}

/// A version that serves from now on.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) before: Option<Digest>,
    pub(super) digest: Digest,
}
