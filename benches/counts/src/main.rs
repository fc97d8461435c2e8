//! Instructions of the decision path: a number that doesn't depend on who else uses the machine.
//!
//! `cargo run --release` counts each case by `valgrind --tool=callgrind`, once with some decisions and once
//! with more, so that what comes before them is left out. `--check` fails where a case takes more than a
//! twentieth more than `counts.json` has; `--write` puts what was found there. Counts hold for a compiler, a
//! C library and what the processor can do, so that these are recorded with them: where one differs, nothing is
//! compared, which is said.

mod case;
mod record;
mod valgrind;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::Parser;

use case::Case;
use record::{Circumstances, Record};

/// By how much a count may exceed its record.
const MOST_GROWTH: f64 = 0.05;

/// How many workers there are, unless said otherwise: of 4,096 it takes minutes to register them.
const WORKERS: [u64; 2] = [64, 1_024];

/// Counts the instructions of decisions.
#[derive(Debug, Parser)]
struct Args {
    /// Fails where a count has grown by more than a twentieth over its record, or has none.
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Records what is found, for this compiler and this processor.
    #[arg(long)]
    write: bool,
    /// Only decides, so often, without being counted: for a profiler. Says what the processor can do.
    #[arg(long, requires = "only")]
    times: Option<u64>,
    /// Only this case.
    #[arg(long)]
    only: Option<Case>,
    /// Only so many workers.
    #[arg(long)]
    workers: Option<u64>,
}

impl Args {
    fn cases(&self) -> Vec<Case> {
        self.only.map_or(Case::RECORDED.to_vec(), |only| vec![only])
    }

    fn sizes(&self) -> Vec<u64> {
        self.workers.map_or(WORKERS.to_vec(), |workers| vec![workers])
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(times), Some(case)) = (args.times, args.only) {
        println!("{}", record::processor());
        return case.run(args.workers.unwrap_or(WORKERS[0]), times);
    }
    let kept = args.check || args.write;
    ensure!(!kept || !cfg!(debug_assertions), "counts are kept of release builds: add --release");
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json"));
    let recorded = if path.exists() { Some(Record::read(path)?) } else { None };
    let mut found = Record::new(Circumstances::default());
    let mut shown = Vec::new();
    for case in args.cases() {
        for workers in args.sizes() {
            let (instructions, here) = valgrind::count(case, workers)?;
            found.circumstances = here;
            found.instructions.insert(format!("{}/{workers}", case.name()), instructions);
            shown.push((case, workers, instructions));
        }
    }
    let here = &found.circumstances;
    let comparable = recorded.as_ref().filter(|record| record.circumstances == *here);
    println!(
        "{here}\n\n| case | workers | instructions | recorded | |\n| --- | --- | --- | --- | --- |"
    );
    for (case, workers, instructions) in shown {
        let name = format!("{}/{workers}", case.name());
        let before = comparable.and_then(|record| record.instructions.get(&name));
        let change = before.map(|before| instructions as f64 / *before as f64 - 1.0);
        let change = change.map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0));
        let before = before.map_or_else(|| "-".to_owned(), u64::to_string);
        println!("| {} | {workers} | {instructions} | {before} | {change} |", case.name());
    }
    if args.write {
        return found.beside(comparable).write(path);
    }
    match &recorded {
        // Neither a failure, which would be none of the code's, nor silence.
        Some(record) if comparable.is_none() => eprintln!(
            "WARNING: not compared: recorded with {}; this is {here}. Record anew with --write where \
             the record is to hold.",
            record.circumstances
        ),
        _ if args.check => {
            let grown = found.grown(comparable, MOST_GROWTH);
            ensure!(
                grown.is_empty(),
                "more than a twentieth over the record, or not in it:\n{}",
                grown.join("\n")
            );
        }
        _ => {}
    }
    Ok(())
}
