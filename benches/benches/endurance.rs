//! What must hold for weeks, in minutes: ten million calls of a guest that leaks, thousands of
//! reloads, and neighbours that do whatever a guest can do wrong.
//!
//! Prints what it found beside what was promised, and computes all of it anew. With `--check` it
//! fails if a promise is broken; `--quick` does a twentieth, for a first look; `--only` one part.
//! Reads its own memory from `/proc`, so that it runs on Linux only.

#![expect(clippy::print_stdout, reason = "the table is what it is run for")]

#[path = "../../tests/guests/compose.rs"]
mod guests;
#[path = "endurance/hostile.rs"]
mod hostile;
#[path = "endurance/leaks.rs"]
mod leaks;
#[path = "endurance/neighbours.rs"]
mod neighbours;
#[path = "endurance/quantiles.rs"]
mod quantiles;
#[path = "endurance/reloads.rs"]
mod reloads;
#[path = "endurance/report.rs"]
mod report;
#[path = "endurance/setting.rs"]
mod setting;
#[path = "endurance/shadows.rs"]
mod shadows;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use pointsman_core::clock::Stopwatch;

use report::Part;

/// What is run, by name. The reloads come first: what the others leave behind in the process would
/// make a growth of theirs look small.
const PARTS: [(&str, Run); 4] = [
    ("reloads", reloads::run),
    ("leaks", leaks::run),
    ("shadows", shadows::run),
    ("hostile", hostile::run),
];

/// Runs a part: one of so many parts of it, for a first look.
type Run = fn(u64) -> Result<Part>;

#[derive(Default)]
struct Args {
    check: bool,
    quick: bool,
    only: Option<String>,
}

impl Args {
    fn read() -> Result<Self> {
        let mut args = Self::default();
        let mut given = std::env::args().skip(1);
        while let Some(arg) = given.next() {
            match arg.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--check" => args.check = true,
                "--quick" => args.quick = true,
                "--only" => args.only = Some(given.next().context("--only wants a part's name")?),
                other => {
                    bail!("unknown argument {other:?}; there are --check, --quick, --only PART")
                }
            }
        }
        let known = |only: &String| PARTS.iter().any(|(name, _)| name == only);
        if let Some(unknown) = args.only.as_ref().filter(|only| !known(only)) {
            bail!("there is no part {unknown:?}; there are {:?}", PARTS.map(|(name, _)| name));
        }
        Ok(args)
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::read()?;
    let share = if args.quick { 20 } else { 1 };
    let mut broken = 0;
    for (name, run) in PARTS {
        if args.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let watch = Stopwatch::start();
        let part = run(share).with_context(|| format!("the part {name:?} can't be run"))?;
        println!("\n{name}: {} ({:.0} s)\n{part}", part.title, watch.elapsed().as_secs_f64());
        broken += part.broken();
    }
    println!("\npromises broken: {broken}");
    Ok(if args.check && broken > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
