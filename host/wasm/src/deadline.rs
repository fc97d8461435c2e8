//! When a call has been at work for too long.
//!
//! Owns the rule. A deadline is of the clock on the wall, but a machine that has no processor for a
//! thread must not cost a healthy instance its state: half a deadline after a call began, the time that
//! its thread has had is looked at, and again after each further half, until it has had one. So a call
//! that is at work all the time ends with its deadline, and one that is kept waiting later. The clock
//! of the thread is asked of those only that are late.

use std::time::Duration;

use wasmtime::{Trap, UpdateDeadline};

use crate::engine::TICK;

/// The part of half a deadline that the thread must have had: ticks come late where threads do.
const WORKED: f64 = 0.8;

/// The deadline of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadline {
    half: Duration,
    /// The same in ticks.
    ticks: u64,
    /// The time that the thread had had, when it was looked at first.
    seen: Option<Duration>,
}

impl Deadline {
    /// Of calls that may be at work for so long.
    pub(crate) fn of(deadline: Duration) -> Self {
        let half = deadline / 2;
        Self { half, ticks: ticks(half), seen: None }
    }

    /// A call begins. Returns the ticks until it is to be asked.
    pub(crate) fn begin(&mut self) -> u64 {
        self.seen = None;
        self.ticks
    }

    /// So many ticks have passed: whether it goes on.
    pub(crate) fn overdue(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let had = thread_time();
        let on = UpdateDeadline::Continue(self.ticks);
        match (self.seen, had) {
            (None, had) => self.seen = Some(had.unwrap_or_default()),
            (Some(seen), Some(had)) if had.saturating_sub(seen) < self.half.mul_f64(WORKED) => {}
            _ => return Err(Trap::Interrupt.into()),
        }
        Ok(on)
    }
}

/// A time in ticks of the engine's clock. The tick that is under way doesn't count.
fn ticks(time: Duration) -> u64 {
    let whole = time.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(1)
}

/// The time that this thread has had on a processor; none where nobody keeps count of that.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    Some(Duration::new(seconds, nanos))
}

#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;

    #[test]
    fn ticks_are_whole_and_one_more() {
        assert_eq!(ticks(TICK), 2);
        assert_eq!(ticks(TICK * 5 + Duration::from_nanos(1)), 7);
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(Duration::MAX), u64::MAX);
    }

    #[test]
    fn who_is_kept_waiting_goes_on_and_who_works_does_not() {
        let mut deadline = Deadline::of(Duration::from_millis(40));
        assert_eq!(deadline.begin(), 3);
        assert!(deadline.overdue().is_ok(), "half of it");
        for _ in 0..5 {
            // As long as the other half, and nothing done.
            std::thread::sleep(Duration::from_millis(20));
            assert!(deadline.overdue().is_ok());
        }
        let before = thread_time().unwrap();
        while thread_time().unwrap() - before < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(deadline.overdue().is_err());
        deadline.begin();
        assert!(deadline.overdue().is_ok(), "another call");
    }
}
