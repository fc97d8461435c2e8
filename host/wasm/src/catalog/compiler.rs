//! Compiles versions off the look through the folder, each on a thread of its own.
//!
//! Owns how many compile at once, how long one may take, and the answers until the next look takes
//! them. It doesn't know files, nor which of two versions is the newer: the entries do.
//!
//! A compilation can't be stopped half-way. What runs over its time is given up: its answer is
//! dropped whenever it comes, and its thread goes on until then. So that such threads don't keep
//! good files waiting, [`SPARE`] of them take nobody's place; further ones keep theirs. So no more
//! than [`Compiler::slots`] and [`SPARE`] threads ever compile.
//!
//! The log is told of those that take longer than [`MOMENT`], then and when they end (`progress`):
//! a router that seems to do nothing at its start is compiling.

mod progress;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pointsman_core::clock::Stopwatch;

use super::watch::Wake;
use crate::component::ComponentPolicy;
use crate::error::LoadError;
use progress::Progress;

/// Compilations at once, whatever the number of cores: a large component takes 400 MB meanwhile.
const MOST_AT_ONCE: usize = 8;

/// Threads that compile what nobody waits for any more, beside those that compile what is wanted.
const SPARE: usize = 2;

/// What takes no longer isn't worth a line in the log.
const MOMENT: Duration = Duration::from_secs(1);

/// What a compilation gave.
pub(super) type Answer = Result<ComponentPolicy, LoadError>;

/// Names a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What compiles.
#[derive(Debug)]
pub(super) struct Compiler {
    shared: Arc<Shared>,
    slots: usize,
    limit: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Desk {
    next: u64,
    running: BTreeMap<Ticket, Running>,
    answers: Vec<(Ticket, Answer)>,
    /// Whom to wake when a compilation has ended.
    watches: Vec<SyncSender<Wake>>,
}

#[derive(Debug)]
struct Running {
    since: Stopwatch,
    path: Arc<Path>,
    bytes: u64,
    standing: Standing,
    /// Whether the log was told of it.
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The newest version of its file.
    Wanted,
    /// A newer one came; the answer is taken all the same.
    Overtaken,
    /// The answer will be dropped.
    GivenUp,
}

impl Compiler {
    /// One compiler, whose compilations may take `limit` each.
    pub(super) fn new(limit: Duration) -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        Self::with_slots(cores.clamp(2, MOST_AT_ONCE), limit)
    }

    fn with_slots(slots: usize, limit: Duration) -> Self {
        Self { shared: Arc::default(), slots, limit }
    }

    /// Starts `compile` on a thread of its own; none when there is no room for it now.
    pub(super) fn start(
        &self,
        path: &Path,
        bytes: u64,
        compile: impl FnOnce() -> Answer + Send + 'static,
    ) -> Option<Ticket> {
        let mut desk = self.shared.desk.lock();
        if !desk.has_room(self.slots) {
            return None;
        }
        let ticket = Ticket(desk.next);
        let path: Arc<Path> = path.into();
        let (shared, at) = (self.shared.clone(), path.clone());
        let run = move || {
            let answer = catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| {
                let reason = "the compiler panicked, as the log tells".to_owned();
                Err(LoadError::Compile { path: at.to_path_buf(), reason })
            });
            shared.end(ticket, answer);
        };
        // Under the lock: the thread ends only after it is known to run.
        let thread = thread::Builder::new().name("pointsman-compile".to_owned());
        if let Err(error) = thread.spawn(run) {
            tracing::warn!(%error, path = %path.display(), "no thread to compile a policy on");
            return None;
        }
        desk.next += 1;
        let (since, standing) = (Stopwatch::start(), Standing::Wanted);
        desk.running.insert(ticket, Running { since, path, bytes, standing, is_told: false });
        Some(ticket)
    }

    /// A newer version of the same file has come.
    pub(super) fn overtake(&self, ticket: Ticket) {
        self.stand(ticket, Standing::Overtaken);
    }

    /// The file holds this version again.
    pub(super) fn want(&self, ticket: Ticket) {
        self.stand(ticket, Standing::Wanted);
    }

    /// Nobody wants the answer any more.
    pub(super) fn forget(&self, ticket: Ticket) {
        self.stand(ticket, Standing::GivenUp);
        self.shared.desk.lock().answers.retain(|(of, _)| *of != ticket);
    }

    fn stand(&self, ticket: Ticket, standing: Standing) {
        if let Some(running) = self.shared.desk.lock().running.get_mut(&ticket)
            && running.standing != Standing::GivenUp
        {
            running.standing = standing;
        }
    }

    /// The answers that have come since the last call. What ran over its time is given up.
    pub(super) fn answers(&self) -> Vec<(Ticket, Answer)> {
        let mut desk = self.shared.desk.lock();
        desk.lengthy(MOMENT, self.limit).iter().for_each(Progress::tell);
        let Desk { running, answers, .. } = &mut *desk;
        for (ticket, running) in running {
            if running.standing != Standing::GivenUp && running.since.elapsed() >= self.limit {
                running.standing = Standing::GivenUp;
                let path = running.path.to_path_buf();
                answers.push((*ticket, Err(LoadError::Slow { path, limit: self.limit })));
            }
        }
        std::mem::take(answers)
    }

    /// How soon a compilation will have to be told of or given up.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let desk = self.shared.desk.lock();
        let awaited = desk.running.values().filter(|one| one.standing != Standing::GivenUp);
        let due = |one: &Running| if one.is_told { self.limit } else { self.limit.min(MOMENT) };
        awaited.map(|one| due(one).saturating_sub(one.since.elapsed())).min()
    }

    /// How many compilations keep others from starting, if no time can be told when they will end.
    pub(super) fn stuck(&self) -> Option<usize> {
        let desk = self.shared.desk.lock();
        let over = |one: &Running| one.since.elapsed() >= self.limit;
        let stuck = !desk.has_room(self.slots) && desk.running.values().all(over);
        stuck.then_some(desk.running.len())
    }

    /// Waits until there is an answer, for `patience` at most.
    pub(super) fn wait(&self, patience: Duration) {
        let mut desk = self.shared.desk.lock();
        if desk.answers.is_empty() {
            self.shared.ended.wait_for(&mut desk, patience);
        }
    }

    /// Wakes a watch from now on whenever a compilation has ended.
    pub(super) fn tell(&self, watch: SyncSender<Wake>) {
        self.shared.desk.lock().watches.push(watch);
    }
}

impl Desk {
    /// Those that have taken longer than a moment by now, each once.
    fn lengthy(&mut self, moment: Duration, limit: Duration) -> Vec<Progress> {
        let untold = self.running.values_mut().filter(|one| !one.is_told);
        let lengthy = untold.filter(|one| one.since.elapsed() >= moment).map(|one| {
            one.is_told = true;
            Progress::Goes { path: one.path.clone(), bytes: one.bytes, limit }
        });
        lengthy.collect()
    }

    fn has_room(&self, slots: usize) -> bool {
        let wanted = self.running.values().filter(|one| one.standing == Standing::Wanted).count();
        let others = self.running.len() - wanted;
        wanted + others.saturating_sub(SPARE) < slots
    }
}

impl Shared {
    fn end(&self, ticket: Ticket, answer: Answer) {
        use std::sync::mpsc::TrySendError;

        let mut desk = self.desk.lock();
        let ended = desk.running.remove(&ticket);
        let progress = ended.as_ref().and_then(|one| Progress::ended(one, answer.is_ok()));
        // A component that nobody wants is taken apart outside the lock.
        let dropped = match ended {
            Some(Running { standing: Standing::Wanted | Standing::Overtaken, .. }) => {
                desk.answers.push((ticket, answer));
                None
            }
            _ => Some(answer),
        };
        // A watch whose channel is full will look anyway.
        desk.watches.retain(|watch| {
            !matches!(watch.try_send(Wake::Compiled), Err(TrySendError::Disconnected(_)))
        });
        drop(desk);
        self.ended.notify_all();
        progress.iter().for_each(Progress::tell);
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Starts what compiles until the sender is dropped.
    fn slow(compiler: &Compiler) -> (Option<Ticket>, Sender<()>) {
        let (end, ended) = channel::<()>();
        let ticket = compiler.start(Path::new("slow.wasm"), 7, move || {
            let _ = ended.recv();
            quick()
        });
        (ticket, end)
    }

    fn quick() -> Answer {
        Err(LoadError::Empty { path: "p.wasm".into() })
    }

    fn next(compiler: &Compiler) -> (Ticket, Answer) {
        let since = Stopwatch::start();
        loop {
            if let Some(answer) = compiler.answers().pop() {
                return answer;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "no answer came");
            compiler.wait(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_is_quick_does_not_wait_for_what_is_slow() {
        let compiler = Compiler::with_slots(2, Duration::from_secs(60));
        let (slow, end) = slow(&compiler);
        let quick = compiler.start(Path::new("p.wasm"), 7, quick);
        assert_eq!(Some(next(&compiler).0), quick);
        drop(end);
        assert_eq!(Some(next(&compiler).0), slow);
    }

    #[test]
    fn what_takes_too_long_is_given_up_and_no_more_than_a_few_of_those_go_on() {
        let compiler = Compiler::with_slots(2, Duration::ZERO);
        let mut ends = Vec::new();
        for _ in 0..2 + SPARE {
            let (ticket, end) = slow(&compiler);
            let answer = next(&compiler);
            assert_eq!(Some(answer.0), ticket);
            let text = answer.1.unwrap_err().to_string();
            assert!(text.contains("slow.wasm: compiling took longer than 0ns"), "{text}");
            ends.push(end);
        }
        assert_eq!(compiler.stuck(), Some(4), "no room for a fifth");
        assert!(compiler.start(Path::new("p.wasm"), 7, quick).is_none());
        drop(ends.pop());
        // Its answer is dropped, and its place is free.
        let since = Stopwatch::start();
        while compiler.stuck().is_some() {
            assert!(since.elapsed() < Duration::from_secs(10), "it ends");
            thread::yield_now();
        }
        assert!(compiler.answers().is_empty());
        assert!(compiler.start(Path::new("p.wasm"), 7, quick).is_some());
    }

    #[test]
    fn what_was_overtaken_leaves_its_place_and_still_answers() {
        let compiler = Compiler::with_slots(1, Duration::from_secs(60));
        let (first, end) = slow(&compiler);
        assert!(compiler.start(Path::new("p.wasm"), 7, quick).is_none(), "one at a time");
        compiler.overtake(first.unwrap());
        let second = compiler.start(Path::new("p.wasm"), 7, quick);
        assert_eq!(Some(next(&compiler).0), second);
        drop(end);
        assert_eq!(Some(next(&compiler).0), first);
    }

    #[test]
    fn what_takes_longer_than_a_moment_is_told_once_with_its_size_and_once_more_when_it_ends() {
        let limit = Duration::from_secs(60);
        let compiler = Compiler::with_slots(2, limit);
        let (ticket, end) = slow(&compiler);
        let mut desk = compiler.shared.desk.lock();
        assert!(desk.lengthy(limit, limit).is_empty(), "it has just begun");
        let of_end = |desk: &Desk| Progress::ended(&desk.running[&ticket.unwrap()], true);
        assert_eq!(of_end(&desk), None, "what nobody was told of ends untold");
        let path: Arc<Path> = Path::new("slow.wasm").into();
        let goes = Progress::Goes { path: path.clone(), bytes: 7, limit };
        assert_eq!(desk.lengthy(Duration::ZERO, limit), [goes]);
        assert!(desk.lengthy(Duration::ZERO, limit).is_empty(), "once");
        let told = of_end(&desk);
        assert!(
            matches!(&told, Some(Progress::Ended { path: of, good: true, .. }) if *of == path),
            "{told:?}"
        );
        drop((desk, end));
        assert_eq!(Some(next(&compiler).0), ticket);
    }

    #[test]
    fn a_compiler_that_panics_refuses_one_file() {
        let compiler = Compiler::with_slots(2, Duration::from_secs(60));
        compiler.start(Path::new("p.wasm"), 7, || panic!("on purpose"));
        let text = next(&compiler).1.unwrap_err().to_string();
        assert!(text.contains("panicked"), "{text}");
    }
}
