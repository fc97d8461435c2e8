//! Instructions of the decision path: a number that doesn't depend on who else uses the machine.
//!
//! `cargo run --release` counts each case by `valgrind --tool=callgrind`, once with some decisions and once
//! with more, so that what comes before them is left out. `--check` fails where a case takes more than a
//! twentieth more than `counts.json` has; `--write` puts what was found there (none is kept). Counts depend on the
//! compiler, so that a new one may ask for new records.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use pointsman_benches::decision::Deciding;
use pointsman_benches::selection::Selection;
use pointsman_core::policy::Catalog;

/// By how much a count may exceed its record.
const MOST_GROWTH: f64 = 0.05;

/// Decisions before it is counted, and those that are counted.
const WARM: u64 = 64;
const COUNTED: u64 = 64;

/// Counts the instructions of decisions.
#[derive(Debug, Parser)]
struct Args {
    /// Fails where a count has grown by more than a twentieth over its record.
    #[arg(long)]
    check: bool,
    /// Records what is found.
    #[arg(long)]
    write: bool,
    /// Only decides, so often, without being counted: for a profiler.
    #[arg(long, requires = "only")]
    times: Option<u64>,
    /// Only this case.
    #[arg(long)]
    only: Option<Case>,
    /// Only so many workers.
    #[arg(long)]
    workers: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Case {
    /// A request and the fleet's state to a row, by the built-in `default`.
    Select,
    /// Hash, look up, select, reserve, free; caches are predicted.
    IndexOff,
    /// The same; engines tell of their caches.
    IndexOn,
}

impl Case {
    const ALL: [Self; 3] = [Self::Select, Self::IndexOff, Self::IndexOn];

    fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::IndexOff => "index-off",
            Self::IndexOn => "index-on",
        }
    }

    /// Decides so often.
    fn run(self, workers: u64, times: u64) -> Result<()> {
        let catalog = Catalog::builtin();
        let index = match self {
            Self::Select => {
                let mut selection = Selection::new(&catalog, "default", workers)?;
                return (0..times).try_for_each(|_| selection.select().map(drop));
            }
            Self::IndexOff => false,
            Self::IndexOn => true,
        };
        let mut deciding = Deciding::new(&catalog, workers, index)?;
        (0..times).try_for_each(|_| deciding.decide().map(drop))
    }

    /// Instructions of one decision.
    fn count(self, workers: u64) -> Result<u64> {
        let [few, more] = [WARM, WARM + COUNTED].map(|times| self.instructions(workers, times));
        Ok(more?.saturating_sub(few?) / COUNTED)
    }

    /// Instructions of this program that decides so often.
    fn instructions(self, workers: u64, times: u64) -> Result<u64> {
        let me = std::env::current_exe().context("finding this program")?;
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(me)
            .args(["--only", self.name(), "--workers", &workers.to_string()])
            .args(["--times", &times.to_string()])
            .output()
            .context("valgrind can't be started; install the package valgrind")?;
        let said = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.success(), "valgrind failed:\n{said}");
        let line = said.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = line.with_context(|| format!("valgrind counted nothing:\n{said}"))?;
        count.trim().parse().with_context(|| format!("{count:?} isn't a number"))
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(times), Some(case)) = (args.times, args.only) {
        return case.run(args.workers.unwrap_or(64), times);
    }
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json"));
    let read = std::fs::read_to_string(path).unwrap_or_else(|_| "{}".to_owned());
    let mut recorded: BTreeMap<String, u64> =
        serde_json::from_str(&read).with_context(|| format!("reading {}", path.display()))?;
    let mut grown = Vec::new();
    println!("| case | workers | instructions | recorded |");
    println!("| --- | --- | --- | --- |");
    for case in args.only.map_or(Case::ALL.to_vec(), |case| vec![case]) {
        for workers in args.workers.map_or(vec![64, 1_024, 4_096], |workers| vec![workers]) {
            let (found, name) = (case.count(workers)?, format!("{}/{workers}", case.name()));
            let before = recorded.insert(name.clone(), found);
            let shown = before.map_or_else(|| "none".to_owned(), |before| before.to_string());
            println!("| {} | {workers} | {found} | {shown} |", case.name());
            if before.is_none_or(|before| found as f64 > before as f64 * (1.0 + MOST_GROWTH)) {
                grown.push(format!("{name}: {found} instructions, recorded {shown}"));
            }
        }
    }
    if args.write {
        let text = serde_json::to_string_pretty(&recorded)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    } else if args.check && !grown.is_empty() {
        bail!("grown by more than {MOST_GROWTH}, or not recorded:\n{}", grown.join("\n"));
    }
    Ok(())
}
