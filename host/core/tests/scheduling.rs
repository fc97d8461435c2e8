//! Ledger and queue under everything at once: arrivals, cancels, retries, first tokens, workers that leave
//! and return, reloads of classes and policies, and time, drawn at random on a virtual clock.
//!
//! A driver does what the server does, with two partitions' lines, leases and reservations. It knows by a
//! slow account of its own who waits and who runs, and holds the system to that after each step. So that
//! the checks are seen to find something, the driver can also be broken on purpose.
//!
//! Two things let somebody pass although no load falls and no bell rings, so that the driver looks by itself:
//! whoever leaves a line may have held up others of his lane, and a reload changes who is busy.
//!
//! What is counted twice inside the ledger can't be broken from here: that a second count sees it is shown
//! by the ledger's own tests.

#[path = "scheduling/checks.rs"]
mod checks;
#[path = "scheduling/crew.rs"]
mod crew;
#[path = "scheduling/fault.rs"]
mod fault;
#[path = "scheduling/model.rs"]
mod model;
#[path = "scheduling/steps.rs"]
mod steps;
#[path = "scheduling/traffic.rs"]
mod traffic;
#[path = "scheduling/world.rs"]
mod world;

use fault::{Fault, Promise, Violation};
use world::{Tally, World};

const SEEDS: u64 = 20;

/// How many steps from each seed, unless [`STEPS_VARIABLE`] says so: a tenth of what is to be shown.
const STEPS: u64 = 5_000;

/// In so many, each of them finds each fault.
const MOST_STEPS: u64 = 50_000;

/// With 50000 in this, all seeds together take a million steps.
const STEPS_VARIABLE: &str = "POINTSMAN_SCHEDULING_STEPS";

fn steps() -> u64 {
    let said = std::env::var(STEPS_VARIABLE).ok();
    said.map_or(STEPS, |said| said.parse().expect("POINTSMAN_SCHEDULING_STEPS is a number"))
}

/// So many steps from a seed, or the first that breaks a promise.
fn run(seed: u64, steps: u64, fault: Option<Fault>) -> Result<Tally, (u64, Violation)> {
    let mut world = World::new(seed, fault);
    world.begin();
    for step in 0..steps {
        world.step().and_then(|()| world.check(step)).map_err(|violation| (step, violation))?;
    }
    let tally = world.tally;
    world.end().map_err(|violation| (steps, violation))?;
    Ok(tally)
}

#[test]
fn whatever_comes_cancels_leaves_returns_and_reloads_no_promise_is_broken() {
    let steps = steps();
    let mut past_the_lock = 0;
    for seed in 0..SEEDS {
        let tally = match run(seed, steps, None) {
            Ok(tally) => tally,
            Err((step, violation)) => panic!("seed {seed}, step {step}: {violation}"),
        };
        let Tally { decided, waited, late, refused, hosted, expired } = tally;
        // Else nothing was looked at that is worth it.
        let seldom = [late, refused, expired].into_iter().all(|times| times >= steps / 1_000);
        assert!(decided >= steps / 10 && waited >= steps / 40 && seldom, "seed {seed}: {tally:?}");
        past_the_lock += hosted;
    }
    // Only between two reloads at which nobody has to wait and the policy needs no lock.
    assert!(past_the_lock >= SEEDS * steps / 1_000, "{past_the_lock} decisions past the lock");
}

#[test]
fn a_driver_that_is_broken_on_purpose_is_found_out() {
    // By what each is found; at least once by the first.
    let faults: [(Fault, &[Promise]); 11] = [
        (Fault::LeakCancelled, &[Promise::Requests, Promise::Leases]),
        (Fault::BookTwice, &[Promise::Requests]),
        (Fault::CarryOver, &[Promise::Requests]),
        (Fault::KeepWaiter, &[Promise::Pending, Promise::Answers]),
        (Fault::IgnoreDue, &[Promise::DueTime, Promise::Order, Promise::WorkConserving]),
        (Fault::IgnoreStrict, &[Promise::StrictPriority, Promise::Order, Promise::WorkConserving]),
        (Fault::KeepPrefill, &[Promise::Prefill]),
        (Fault::Deaf, &[Promise::WorkConserving]),
        (Fault::ReloadUnseen, &[Promise::WorkConserving, Promise::Pending]),
        (Fault::PassAll, &[Promise::Busy, Promise::DueTime]),
        (Fault::NeverExpire, &[Promise::Requests, Promise::Leases]),
    ];
    let mut found = Vec::new();
    for (fault, expected) in faults {
        let mut promises = Vec::new();
        for seed in 0..SEEDS {
            let Err((step, violation)) = run(seed, MOST_STEPS, Some(fault)) else {
                panic!("seed {seed}: {fault:?} is not found in {MOST_STEPS} steps")
            };
            let promise = violation.promise;
            assert!(
                expected.contains(&promise),
                "seed {seed}, step {step}: {fault:?}: {violation}"
            );
            promises.push(promise);
        }
        assert!(promises.contains(&expected[0]), "{fault:?} is found otherwise: {promises:?}");
        found.extend(promises);
    }
    assert!(found.contains(&Promise::Answers) && found.contains(&Promise::Leases), "{found:?}");
}
