//! The second way: `rustup target add`, where rustup's server can be reached.
//!
//! Behind some firewalls that server neither answers nor refuses, so the call has a hard limit, at which it and its children are killed.

use std::process::Command;
use std::time::Duration;

use super::{RustupOutcome, Target};
use crate::command::{self, CommandError};
use crate::progress::{Progress, Step};
use crate::setup::Setup;

/// Enough for the 20 MB of one target on a slow line; longer and the distribution's way is quicker.
const LIMIT: Duration = Duration::from_secs(60);

/// Asks rustup for the target, unless the setup says not to.
pub(super) fn add_target(setup: &Setup, progress: &dyn Progress) -> RustupOutcome {
    if !setup.rustup {
        return RustupOutcome::LeftOut;
    }
    run(Command::new("rustup"), LIMIT, progress)
}

fn run(mut rustup: Command, limit: Duration, progress: &dyn Progress) -> RustupOutcome {
    progress.step(&Step::AddingTarget { limit });
    rustup.args(["target", "add", Target::UnknownUnknown.triple()]);
    let outcome = match command::limited(&mut rustup, limit) {
        Ok(_) => RustupOutcome::Added,
        Err(CommandError::NotFound { .. }) => RustupOutcome::Absent,
        Err(CommandError::TimedOut { limit, .. }) => RustupOutcome::TimedOut(limit),
        Err(error) => RustupOutcome::Failed(
            error.log().lines().last().unwrap_or("no output").trim().to_owned(),
        ),
    };
    tracing::debug!(%outcome, "asked rustup for the wasm target");
    outcome
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::progress::Quiet;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn each_way_that_rustup_ends_is_told_apart() {
        let limit = Duration::from_millis(300);
        assert_eq!(run(shell("exit 0"), limit, &Quiet), RustupOutcome::Added);
        assert_eq!(run(shell("sleep 600"), limit, &Quiet), RustupOutcome::TimedOut(limit));
        assert_eq!(
            run(shell("echo 'error: no such host' >&2; exit 1"), limit, &Quiet),
            RustupOutcome::Failed("error: no such host".into())
        );
        assert_eq!(run(Command::new("no-rustup-of-ours"), limit, &Quiet), RustupOutcome::Absent);
    }
}
