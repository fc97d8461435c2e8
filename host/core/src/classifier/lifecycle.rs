//! A request's lifecycle as its task holds it, and the mailbox by which the desk hears of it.
//!
//! Whoever serves a request says what becomes of it here, from any thread and without waiting. What
//! is dropped without having been completed was aborted. Notes are delivered in the order in which
//! they were written; none is lost.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::facts::Capacity;
use crate::ids::WorkerRank;

/// What a lifecycle's two ends share.
#[derive(Debug)]
pub(super) struct Life {
    /// Which of all lifecycles of this desk.
    pub(super) generation: u64,
    ended: AtomicBool,
    progress: AtomicU64,
}

impl Life {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

/// A request from the door to its end. Dropped before it is completed, it was aborted.
#[derive(Debug)]
pub struct Lifecycle {
    life: Arc<Life>,
    mailbox: Arc<Mailbox>,
}

impl Lifecycle {
    pub(super) fn begin(generation: u64, mailbox: Arc<Mailbox>) -> Self {
        let (ended, progress) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { life: Arc::new(Life { generation, ended, progress }), mailbox }
    }

    /// A name for it that no other lifecycle of its partition has, whatever its request's id.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.life.generation
    }

    /// The request has reached so many tokens, over all its attempts.
    pub fn reached(&self, tokens: u64) {
        self.life.progress.fetch_max(tokens, Ordering::Relaxed);
    }

    /// It is sent to a worker; again when it is tried elsewhere.
    pub fn sent(&self, worker: WorkerRank) {
        self.note(Happening::Sent(worker));
    }

    /// The first output arrived. Again is nothing.
    pub fn responding(&self) {
        self.note(Happening::Responding);
    }

    /// It ended well, with the context's length in tokens where known.
    pub fn completed(self, context_tokens: Option<u64>) {
        self.end(Happening::Completed(context_tokens));
    }

    fn end(&self, how: Happening) {
        if !self.life.ended.swap(true, Ordering::AcqRel) {
            self.note(how);
        }
    }

    fn note(&self, what: Happening) {
        self.mailbox.put(Note { generation: self.life.generation, what });
    }
}

impl Drop for Lifecycle {
    fn drop(&mut self) {
        self.end(Happening::Aborted);
    }
}

/// Stands for a lifecycle at its desk, while whoever serves the request holds the lifecycle itself.
#[derive(Clone, Debug)]
pub struct Ticket(pub(super) Arc<Life>);

impl From<&Lifecycle> for Ticket {
    fn from(lifecycle: &Lifecycle) -> Self {
        Self(lifecycle.life.clone())
    }
}

impl Ticket {
    /// See [`Lifecycle::generation`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation
    }
}

/// What happened to one lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Sent(WorkerRank),
    Responding,
    Completed(Option<u64>),
    Aborted,
}

/// The same, with which it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) generation: u64,
    pub(super) what: Happening,
}

type Bell = Arc<dyn Fn() + Send + Sync>;

/// What waits to be told to the classifier.
#[derive(Default)]
pub(super) struct Mailbox {
    notes: Mutex<VecDeque<Note>>,
    /// Only the newest matters.
    fleet: Mutex<Option<Arc<[Capacity]>>>,
    bell: Mutex<Option<Bell>>,
}

impl Mailbox {
    fn put(&self, note: Note) {
        self.notes.lock().push_back(note);
        self.ring();
    }

    pub(super) fn put_fleet(&self, fleet: Arc<[Capacity]>) {
        *self.fleet.lock() = Some(fleet);
        self.ring();
    }

    pub(super) fn take(&self) -> Option<Note> {
        self.notes.lock().pop_front()
    }

    pub(super) fn take_fleet(&self) -> Option<Arc<[Capacity]>> {
        self.fleet.lock().take()
    }

    /// Whom to wake when something is put in.
    pub(super) fn set_bell(&self, bell: Bell) {
        *self.bell.lock() = Some(bell);
        self.ring();
    }

    pub(super) fn ring(&self) {
        let bell = self.bell.lock().clone();
        if let Some(bell) = bell {
            bell();
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("notes", &self.notes).finish_non_exhaustive()
    }
}
