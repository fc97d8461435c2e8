//! Keeps an eye on the folder: looks through it when the file system says that something happened,
//! and from time to time in any case.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use pointsman_core::clock::Stopwatch;

use super::status::FolderState;
use super::{PolicyFolder, SOON};

/// How many quiet spells changes may be put off for, when they don't stop.
const MOST_PUT_OFF: u32 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) enum Wake {
    /// Something happened in the folder.
    Changed,
    /// A compilation has ended.
    Compiled,
    Stop,
}

/// Ends the watch when it is dropped, and waits for that.
#[derive(Debug)]
pub struct WatchGuard {
    wake: SyncSender<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A callback may drop the guard that it is called under; it can't wait for itself.
        if thread.thread().id() == thread::current().id() {
            let _ = self.wake.try_send(Wake::Stop);
            return;
        }
        // Waits while the channel is full, which the thread empties.
        if self.wake.send(Wake::Stop).is_ok() && thread.join().is_err() {
            tracing::error!("the watch over the policies folder has panicked");
        }
    }
}

pub(super) fn start(
    folder: PolicyFolder,
    changed: impl Fn(&FolderState) + Send + 'static,
) -> io::Result<WatchGuard> {
    let (wake, woken) = sync_channel(16);
    folder.inner.compiler.tell(wake.clone());
    let watcher = watcher(&folder, wake.clone());
    let run = move || {
        let _watcher = watcher;
        run(&folder, &woken, changed);
    };
    let thread = thread::Builder::new().name("pointsman-watch".to_owned()).spawn(run)?;
    Ok(WatchGuard { wake, thread: Some(thread) })
}

/// The file system's own word; without it, the periodic look has to do.
fn watcher(folder: &PolicyFolder, wake: SyncSender<Wake>) -> Option<RecommendedWatcher> {
    let told = move |event: notify::Result<notify::Event>| {
        let matters = match event {
            // Reading is what we do ourselves.
            Ok(event) => match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
                EventKind::Access(_) => false,
                _ => true,
            },
            Err(_) => true,
        };
        if matters {
            match wake.try_send(Wake::Changed) {
                // Enough of them are waiting; or nobody is there any more.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    };
    let watching = notify::recommended_watcher(told).and_then(|mut watcher| {
        watcher.watch(folder.dir(), RecursiveMode::NonRecursive).map(|()| watcher)
    });
    match watching {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            let dir = folder.dir().display();
            let every_ms = folder.inner.options.rescan.as_millis() as u64;
            tracing::warn!(%error, %dir, every_ms, "the policies folder is only looked at from time to time");
            None
        }
    }
}

fn run(folder: &PolicyFolder, woken: &Receiver<Wake>, changed: impl Fn(&FolderState)) {
    let options = &folder.inner.options;
    let mut wait = options.rescan;
    let mut error = None;
    loop {
        match woken.recv_timeout(wait) {
            Ok(Wake::Changed) => {
                if !quiet(woken, options.debounce) {
                    return;
                }
            }
            Ok(Wake::Compiled) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let state = folder.look();
        wait = if state.unsettled { SOON.min(options.rescan) } else { options.rescan };
        // What runs over its time is given up when that is over.
        wait = folder.inner.compiler.next_due().map_or(wait, |due| wait.min(due));
        if !state.changes.is_empty() || state.error != error {
            error.clone_from(&state.error);
            changed(&state);
        }
    }
}

/// Waits until nothing has happened for a while. False if the watch is to end.
fn quiet(woken: &Receiver<Wake>, debounce: Duration) -> bool {
    let since = Stopwatch::start();
    loop {
        match woken.recv_timeout(debounce) {
            Ok(Wake::Changed | Wake::Compiled) if since.elapsed() < debounce * MOST_PUT_OFF => {}
            Ok(Wake::Changed | Wake::Compiled) | Err(RecvTimeoutError::Timeout) => return true,
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
