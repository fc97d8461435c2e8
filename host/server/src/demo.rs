//! The guided tour: real engines' stand-ins, a real router, real traffic, and a policy replaced
//! while it flows.
//!
//! Owns the order of the tour and its verdict. Everything it shows goes over HTTP, as a user would
//! see it; nothing here reaches into the router.

mod choice;
mod invitation;
mod report;
mod stage;
mod traffic;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::serve::Signals;
use choice::Choice;
use report::say;
pub use report::{BuiltPolicy, Report, Row, Swap};
use stage::Stage;
use traffic::Tally;

/// How the demo is to go.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ends after the tour.
    pub once: bool,
    /// Prints one JSON document instead of prose.
    pub json: bool,
    /// The policy that is shown, by its folder's name in `policies/`; none is the usual two.
    pub policy: Option<String>,
}

/// Requests of the first part.
const FIRST_PART: usize = 200;
/// Of those, so many at once.
const AT_ONCE: usize = 64;
/// Requests a second while the policy is replaced.
const RATE: u32 = 200;
/// Traffic before the replacement, and after it has been seen to work.
const AROUND_SWAP: Duration = Duration::from_secs(1);
/// A replacement that takes longer has failed.
const SWAP_PATIENCE: Duration = Duration::from_secs(20);
/// Decisions that the table shows.
const SHOWN: usize = 12;

/// Runs the tour; then, unless it is to end there, serves until it is told to stop. Returns whether
/// all held.
pub async fn run(options: Options) -> Result<bool> {
    let quiet = options.json;
    let choice = Choice::of(options.policy.as_deref())?;
    say(
        quiet,
        "Building the policies from source (the first time sets a wasm toolchain up and compiles their dependencies: 2 to 7 minutes) ...",
    );
    let to_build = choice.clone();
    let built = tokio::task::spawn_blocking(move || stage::build_policies(&to_build)).await??;
    for policy in &built {
        say(
            quiet,
            &format!(
                "  {:<14} {:>7} bytes  sha256 {}",
                policy.name,
                policy.bytes,
                &policy.digest[..12]
            ),
        );
    }

    let listen = (!options.once).then(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
    let stage = Stage::set(choice, &built, listen).await.context("the demo could not be set up")?;
    say(
        quiet,
        &format!(
            "Four mock engines and the router are up: http://{}, admin http://{}",
            stage.public, stage.admin
        ),
    );

    let report = tour(&stage, built, quiet).await?;
    if options.json {
        report::print_json(&report)?;
    } else {
        report.print_verdict();
    }
    let ok = report.ok;
    if !options.once {
        let mut signals = Signals::listen().context("can't listen for signals")?;
        stage.print_invitation(quiet)?;
        signals.next().await;
    }
    stage.strike().await;
    Ok(ok)
}

async fn tour(stage: &Stage, built: Vec<BuiltPolicy>, quiet: bool) -> Result<Report> {
    let clients = stage.clients();
    // A request classifier admits requests, and somebody else decides.
    let decides = !stage.choice.is_classifier();
    say(
        quiet,
        &format!(
            "\nSending {FIRST_PART} requests, {AT_ONCE} at a time: streamed and plain, in sessions, some with a tool's result ..."
        ),
    );
    let first = traffic::burst(&clients.public, FIRST_PART, AT_ONCE).await;
    let receipts = clients.receipts(FIRST_PART).await?;
    let decisions: Vec<Row> = receipts.iter().map(Row::from_receipt).collect();
    if !quiet {
        report::print_table(&decisions[..decisions.len().min(SHOWN)]);
        first.print(FIRST_PART);
    }

    let [old, new] = &built[..] else { anyhow::bail!("{} policies were built", built.len()) };
    let name = &stage.choice.name;
    say(
        quiet,
        &format!(
            "\nReplacing {name}.wasm on disk by another version, {} ({} -> {}), under {RATE} requests/s ...",
            match stage.choice.replacement {
                Some(other) => format!("the component of {other}"),
                None => "the same with a mark".to_owned(),
            },
            &old.digest[..12],
            &new.digest[..12]
        ),
    );
    let swap = replace(stage, old, new).await?;
    if !quiet {
        swap.print(decides);
    }

    let idle = clients.wait_for_idle().await?;
    let active = clients.active_digest(name).await?;
    let mut problems = Vec::new();
    let mut hold = |held: bool, problem: String| {
        if !held {
            problems.push(problem);
        }
    };
    hold(
        first.failed.is_empty(),
        format!(
            "{} of {FIRST_PART} requests failed: {:?}",
            first.failed.len(),
            first.failed.first()
        ),
    );
    hold(
        first.workers.len() == stage.answering(),
        format!("only {} of {} workers got requests", first.workers.len(), stage.answering()),
    );
    hold(
        decisions.iter().all(|row| row.fallback.is_none()),
        "a decision fell back to the built-in policy".to_owned(),
    );
    hold(
        !decides || decisions.iter().all(|row| row.digest.as_deref() == Some(&old.digest)),
        "a decision was not made by the component".to_owned(),
    );
    hold(
        swap.failed.is_empty(),
        format!(
            "{} requests failed during the replacement: {:?}",
            swap.failed.len(),
            swap.failed.first()
        ),
    );
    hold(
        !decides || swap.by_old > 0 && swap.by_new > 0,
        "the replacement was not seen in the answers".to_owned(),
    );
    hold(
        !decides || swap.by_neither == 0,
        format!("{} answers name a policy that was never written", swap.by_neither),
    );
    hold(idle, "load was left in the ledger after the last answer".to_owned());
    hold(
        active.as_deref() == Some(&new.digest),
        format!("the active digest is {active:?}, not the new one"),
    );
    Ok(Report {
        ok: problems.is_empty(),
        problems,
        policies: built,
        requests: FIRST_PART,
        failed: first.failed.len(),
        requests_by_worker: first.workers,
        decisions,
        swap,
        loads_zero_afterwards: idle,
    })
}

/// Replaces the component while traffic flows.
async fn replace(stage: &Stage, old: &BuiltPolicy, new: &BuiltPolicy) -> Result<Swap> {
    let clients = stage.clients();
    let stop = tokio_util::sync::CancellationToken::new();
    let flow = traffic::flow(clients.public.clone(), RATE, stop.clone());
    let change = async {
        tokio::time::sleep(AROUND_SWAP).await;
        let watch = pointsman_core::clock::Stopwatch::start();
        let changed = stage.replace_component(new);
        let mut took = None;
        while changed.is_ok() && watch.elapsed() < SWAP_PATIENCE {
            if clients.active_digest(&stage.choice.name).await.ok().flatten().as_deref()
                == Some(&new.digest)
            {
                took = Some(watch.elapsed());
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(AROUND_SWAP).await;
        stop.cancel();
        changed.map(|()| took)
    };
    let (tally, took): (Tally, Result<Option<Duration>>) = tokio::join!(flow, change);
    let took = took?;
    let by = |digest: &str| -> usize {
        let short = &digest[..12];
        tally.policies.iter().filter(|(policy, _)| policy.ends_with(short)).map(|(_, n)| n).sum()
    };
    let (by_old, by_new) = (by(&old.digest), by(&new.digest));
    let all: usize = tally.policies.values().sum();
    Ok(Swap {
        old_digest: old.digest.clone(),
        new_digest: new.digest.clone(),
        requests: all + tally.failed.len(),
        by_old,
        by_new,
        by_neither: all - by_old - by_new,
        failed: tally.failed,
        took_ms: took.map(|took| took.as_millis() as u64),
    })
}
