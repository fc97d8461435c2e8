//! Times of several things that are compared: in turns, in short batches, of which the least counts.
//!
//! A batch is short enough to run without being interrupted now and then, also on a machine that others use;
//! what it costs by itself is then what is left.

use anyhow::Result;
use pointsman_core::clock::Stopwatch;

use crate::bytes;

/// About how long a batch takes.
const BATCH_NS: f64 = 300_000.0;

/// The fewest that are timed at once.
const LEAST: usize = 4;

/// The fewest that are done before anything is timed.
const WARM: usize = 64;

/// Those that aren't timed of each batch.
const AGAIN: usize = 16;

type Once<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Something that is done again and again.
pub struct Subject<'a> {
    once: Once<'a>,
    times: usize,
    best_ns: f64,
}

/// What doing it once takes.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Nanoseconds.
    pub ns: f64,
    /// Allocations of the thread that does it.
    pub allocations: f64,
}

impl<'a> Subject<'a> {
    pub fn new(once: impl FnMut() -> Result<()> + 'a) -> Self {
        Self { once: Box::new(once), times: WARM, best_ns: f64::INFINITY }
    }

    /// Nanoseconds of each in a batch. The first few aren't timed: others have had the caches since.
    fn batch(&mut self) -> Result<f64> {
        for _ in 0..AGAIN {
            (self.once)()?;
        }
        let watch = Stopwatch::start();
        for _ in 0..self.times {
            (self.once)()?;
        }
        Ok(watch.elapsed().as_nanos() as f64 / self.times as f64)
    }

    fn allocations(&mut self) -> Result<f64> {
        let mut done = Ok(());
        let each = bytes::allocations_of(WARM, || {
            if done.is_ok() {
                done = (self.once)();
            }
        });
        done.map(|()| each)
    }
}

/// Does all in turns, so many rounds.
pub fn in_turns(rounds: usize, subjects: &mut [Subject<'_>]) -> Result<Vec<Figures>> {
    for subject in &mut *subjects {
        let each = subject.batch()?;
        subject.times = ((BATCH_NS / each) as usize).max(LEAST);
    }
    for _ in 0..rounds.max(1) {
        for subject in &mut *subjects {
            subject.best_ns = subject.best_ns.min(subject.batch()?);
        }
    }
    subjects
        .iter_mut()
        .map(|subject| Ok(Figures { ns: subject.best_ns, allocations: subject.allocations()? }))
        .collect()
}
