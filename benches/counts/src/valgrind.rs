//! Counting, which valgrind does.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::case::Case;
use crate::record::Circumstances;

/// Decisions before it is counted, and those that are counted.
const WARM: u64 = 64;
const COUNTED: u64 = 64;

/// Instructions of one decision, and where they were counted.
pub fn count(case: Case, workers: u64) -> Result<(u64, Circumstances)> {
    let [few, more] = [WARM, WARM + COUNTED].map(|times| instructions(case, workers, times));
    let ((few, _), (more, here)) = (few?, more?);
    Ok((more.saturating_sub(few) / COUNTED, here))
}

/// Instructions of this program that decides so often.
fn instructions(case: Case, workers: u64, times: u64) -> Result<(u64, Circumstances)> {
    let me = std::env::current_exe().context("finding this program")?;
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["--only", case.name(), "--workers", &workers.to_string()])
        .args(["--times", &times.to_string()])
        .output()
        .context("valgrind can't be started; install the package valgrind")?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "valgrind failed:\n{said}");
    let line = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = line.with_context(|| format!("valgrind counted nothing:\n{said}"))?;
    let count = count.trim().parse().with_context(|| format!("{count:?} isn't a number"))?;
    // Valgrind shows programs a processor of its own, and that is what was counted on.
    let processor = String::from_utf8_lossy(&run.stdout).trim().to_owned();
    Ok((count, Circumstances::of(processor)))
}
