//! Prints the tables, or one JSON document.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use pointsman_trace::figures::{Figures, without_end};
use pointsman_trace::plan::{Common, Planned};
use pointsman_trace::replay::replay;
use pointsman_trace::requests::{self, TraceRequest};
use serde::Serialize;

/// Replays a trace of prompts through the router's core, against simulated engines.
#[derive(Debug, Parser)]
struct Args {
    /// One JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Only one part.
    #[arg(long)]
    only: Option<Part>,
    /// How many times faster than recorded the requests come; several are several tables.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 6.0])]
    speeds: Vec<f64>,
    /// How long answers take, over what the engines' model says; 0 ends a request with its first
    /// token.
    #[arg(long, default_value_t = 1.0)]
    answers: f64,
    /// How many engines.
    #[arg(long, default_value_t = 8)]
    workers: u64,
    /// Blocks of 512 tokens of each one's memory.
    #[arg(long, default_value_t = 10_000)]
    blocks: u32,
    /// Of the decisions' random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The most that a worker may have over the mean, for a run of the sweep to count.
    #[arg(long, default_value_t = 1.25)]
    balance: f64,
    /// The trace.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mooncake_conversation_trace.jsonl"))]
    trace: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Policies beside one another.
    Policies,
    /// The default policy's parameters over their ranges.
    Sweep,
    /// Late events, predictions, guesses.
    Knowledge,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
struct Sweep {
    runs: usize,
    balanced_runs: usize,
    /// The default's cached share over that of the best run that is balanced.
    default_over_best: Option<f64>,
    default: Row,
    /// One parameter at a time.
    alone: Vec<Row>,
    /// The best of those that are balanced, best first.
    best: Vec<Row>,
    /// The best share of all, balanced or not.
    best_of_all: Row,
}

#[derive(Debug, Serialize)]
struct AtSpeed {
    speed: f64,
    policies: Vec<Row>,
    sweep: Option<Sweep>,
    knowledge: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Report {
    requests: usize,
    prompt_tokens: u64,
    workers: u64,
    blocks: u32,
    seed: u64,
    answers: f64,
    /// The cached share of one cache without end.
    without_end: f64,
    speeds: Vec<AtSpeed>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let trace = requests::read(&args.trace)?;
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let mut report = Report {
        requests: trace.len(),
        prompt_tokens: trace.iter().map(|request| request.prompt_tokens).sum(),
        workers: args.workers,
        blocks: args.blocks,
        seed: args.seed,
        answers: args.answers,
        without_end: without_end(&trace),
        speeds: vec![],
    };
    for &speed in &args.speeds {
        let &Args { workers, blocks, seed, answers, .. } = &args;
        let common = Common { workers, blocks, seed, speed, answers };
        let rows = |part, plans: fn(Common) -> Vec<Planned>| {
            let plans = if wanted(part) { plans(common) } else { vec![] };
            plans.into_iter().map(|planned| run(&trace, planned)).collect::<Result<Vec<_>>>()
        };
        report.speeds.push(AtSpeed {
            speed,
            policies: rows(Part::Policies, Common::policies)?,
            sweep: conclude(
                rows(Part::Sweep, Common::as_it_comes)?,
                rows(Part::Sweep, Common::alone)?,
                rows(Part::Sweep, Common::sweep)?,
                args.balance,
            ),
            knowledge: rows(Part::Knowledge, Common::knowledge)?,
        });
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

fn run(trace: &[TraceRequest], Planned { name, setup }: Planned) -> Result<Row> {
    let outcome = replay(trace, &setup)?;
    let figures = Figures::of(trace, &setup, &outcome);
    Ok(Row { name, figures })
}

fn conclude(default: Vec<Row>, alone: Vec<Row>, mut rows: Vec<Row>, balance: f64) -> Option<Sweep> {
    let default = default.into_iter().next()?;
    let runs = rows.len();
    rows.sort_by(|a, b| b.figures.cached_share.total_cmp(&a.figures.cached_share));
    let best_of_all = rows.first()?.clone();
    rows.retain(|row| row.figures.balance() <= balance);
    let balanced_runs = rows.len();
    rows.truncate(8);
    let best = rows.first().map(|row| default.figures.cached_share / row.figures.cached_share);
    Some(Sweep {
        runs,
        balanced_runs,
        default_over_best: best,
        default,
        alone,
        best: rows,
        best_of_all,
    })
}

fn print(report: &Report) {
    println!(
        "{} requests, {} prompt tokens; {} workers of {} blocks; cached share of one cache without end: {:.4}",
        report.requests, report.prompt_tokens, report.workers, report.blocks, report.without_end
    );
    for at in &report.speeds {
        println!("\nspeed {}, answers {}", at.speed, report.answers);
        table("policies", &at.policies);
        if let Some(sweep) = &at.sweep {
            table("sweep: default", std::slice::from_ref(&sweep.default));
            table("sweep: one parameter at a time", &sweep.alone);
            table("sweep: best that are balanced", &sweep.best);
            table("sweep: best of all", std::slice::from_ref(&sweep.best_of_all));
            println!(
                "  {} runs, {} balanced; default / best: {:.4}",
                sweep.runs,
                sweep.balanced_runs,
                sweep.default_over_best.unwrap_or(f64::NAN)
            );
        }
        table("knowledge", &at.knowledge);
    }
}

fn table(title: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    println!(
        "{title:<46} {:>7} {:>7} {:>7} {:>5} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7}",
        "cached",
        "routed",
        "compu.",
        "busy",
        "queue",
        "p99 ms",
        "TTFT",
        "p99 ms",
        "evict",
        "right",
        "pred/re"
    );
    for Row { name, figures: f } in rows {
        println!(
            "  {name:<44} {:>7.4} {:>7.3} {:>7.3} {:>5.2} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>7} {:>7.4} {:>7.4}",
            f.cached_share,
            f.routed_balance,
            f.computed_balance,
            f.busy,
            f.queued_ms.mean,
            f.queued_ms.p99,
            f.first_token_ms.mean,
            f.first_token_ms.p99,
            f.evictions,
            f.predicted_right,
            f.predicted_over_real
        );
    }
}
