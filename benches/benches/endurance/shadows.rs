//! What a shadow adds to the decisions that it is shown: all of them, on another thread.
//!
//! Partitions that are alike but for the shadow decide in turn, in short batches: without one, with
//! one, without one while the other thread decides as much in a partition of its own, and without
//! one while the other thread calculates for as long, in its registers alone. The last two tell what
//! two busy threads cost each other, which is the machine's doing and no shadow's. Each decision is
//! also timed with what comes after it: its record is left for the other thread.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::Role;
use pointsman_core::ledger::Lease;
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::policy::OnFailure;
use pointsman_core::policy::selection::ShadowSpec;
use pointsman_core::receipt::Receipt;
use pointsman_core::recording::Sample;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::json;

use crate::quantiles::Times;
use crate::report::Part;
use crate::setting::{instance, partition, policies, populate};

const DECISIONS: u64 = 400_000;
const BATCH: u64 = 500;
const WORKERS: u64 = 64;
/// Requests that each partition carries: enough that rows differ.
const CARRIED: usize = 1_000;
/// The most that the median may be longer.
const MOST: f64 = 1.05;

pub(crate) fn run(share: u64) -> Result<Part> {
    let engine = PolicyEngine::new(EngineConfig::default())?;
    let path = pointsman_tests::guests::default_cost();
    let component = Arc::new(ComponentPolicy::open(&engine, "default-cost", path)?);
    let router = |shadowed: bool| -> Result<Router> {
        let mut live = instance("default-cost", json!({}), OnFailure::Reject);
        let mut shadow = live.clone();
        shadow.name = "shadow".into();
        if shadowed {
            let all = ShadowSpec { budget: 1.0, ..ShadowSpec::of("shadow".into()) };
            live.rollout.shadows.push(all);
        }
        // Of the built-in, which is shown one of a hundred, both have none.
        let none = ShadowSpec { sample: 0.0, ..ShadowSpec::of("default".into()) };
        live.rollout.shadows.push(none);
        let mut policies = policies([component.clone() as _], [(Role::Aggregated, live)])?;
        policies.selection.instances.push(shadow);
        let router = Router::new(policies, 7);
        populate(&router, &partition("g", Role::Aggregated), 0..WORKERS)?;
        Ok(router)
    };
    let (plain, shadowed) = (router(false)?, router(true)?);
    let (beside, calculating) = (router(false)?, router(false)?);
    let neighbour = router(false)?;
    let mut times = [Times::new()?, Times::new()?, Times::new()?, Times::new()?];
    let mut with_leaving = [Times::new()?, Times::new()?, Times::new()?, Times::new()?];
    let batches = DECISIONS / share / BATCH;
    let (queue, jobs) = sync_channel::<Job>(128);
    let dropped = thread::scope(|scope| -> Result<u64> {
        // As the router's own thread does it.
        let neighbour = &neighbour;
        scope.spawn(move || {
            while let Some(job) = next(&jobs) {
                match job {
                    Job::Show(sample, receipt) => sample.shadows().for_each(|shadow| {
                        shadow.watch(&sample, &receipt);
                    }),
                    // It was decided before.
                    Job::Decide(request, moment) => {
                        drop(neighbour.route(&request, moment, Mode::Book));
                    }
                    Job::Calculate => calculate(),
                }
            }
        });
        let mut dropped = 0;
        let mut carried: [Vec<(Option<Lease>, Arc<Receipt>)>; 4] = Default::default();
        for batch in 0..4 * batches {
            let which = (batch % 4) as usize;
            let router = [&plain, &shadowed, &beside, &calculating][which];
            let (times, carried) = (&mut times[which], &mut carried[which]);
            let with_leaving = &mut with_leaving[which];
            for n in 0..BATCH {
                // The same in all.
                let nth = batch / 4 * BATCH + n;
                let tokens = 100 + nth * 977 % 4_000;
                let request = RouteRequest::new("r", partition("g", Role::Aggregated), tokens);
                let moment = Moment { now_ms: nth, seed: nth };
                let watch = Stopwatch::start();
                let decision = router.route(&request, moment, Mode::Book)?;
                times.note(&watch);
                // As the router does, which keeps the latest: who looks at one isn't its last owner.
                let Decision { receipt, lease, sample, .. } = decision;
                let receipt = Arc::new(receipt);
                if let Some(sample) = sample {
                    let show = Job::Show(sample.for_another_thread(), receipt.clone());
                    dropped += u64::from(queue.try_send(show).is_err());
                } else if which == 2 {
                    // What doesn't fit is dropped, as a sample is.
                    drop(queue.try_send(Job::Decide(Box::new(request), moment)));
                } else if which == 3 {
                    drop(queue.try_send(Job::Calculate));
                }
                // What was left is on its way to the other core when the next decision begins: the
                // wait for that is the leaving's.
                fence(Ordering::SeqCst);
                with_leaving.note(&watch);
                if carried.len() < CARRIED {
                    carried.push((lease, receipt));
                } else {
                    // The one that it takes the place of ends.
                    carried[nth as usize % CARRIED] = (lease, receipt);
                }
            }
        }
        drop(queue);
        Ok(dropped)
    })?;
    let report = |router: &Router| {
        let partition = router.partition(&partition("g", Role::Aggregated));
        partition.map(|partition| partition.shadows())
    };
    let seen = report(&shadowed).context("the partition is there")?;
    let seen = seen.first().context("its shadow is there")?;
    let mut part =
        Part::new(format!("a shadow that is shown all of {} decisions", batches * BATCH));
    part.tell("shown, dropped", format!("{}, {dropped}", seen.decisions));
    part.promise("agreed", seen.agreed, "all that it was shown", seen.agreed == seen.decisions);
    let [without, with, beside, calculating] = &times;
    part.tell("a decision without", without);
    part.tell("without, beside another partition that decides", beside);
    part.tell("without, beside a thread that only calculates", calculating);
    part.tell("a decision with", with);
    let [without_leaving, left, ..] = &with_leaving;
    part.tell("the same without, with its receipt put away", without_leaving);
    part.tell("the same with, and its record left for the other thread", left);
    let by = |times: &Times| with.p50() as f64 / times.p50() as f64;
    part.tell("p50 with by p50 beside another partition", format!("{:.3}", by(beside)));
    part.tell("p50 with by p50 beside calculations", format!("{:.3}", by(calculating)));
    let ratio = by(without);
    part.promise("p50 with by p50 without", format!("{ratio:.3}"), "at most 1.05", ratio <= MOST);
    Ok(part)
}

/// What the other thread does next: as the router's own, it isn't woken while many come.
fn next(jobs: &Receiver<Job>) -> Option<Job> {
    for _ in 0..4 {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => thread::sleep(Duration::from_micros(500)),
        }
    }
    jobs.recv().ok()
}

/// As long as a decision takes, about, and of no memory.
fn calculate() {
    let mut lanes = [1_u64, 2, 3, 4];
    for _ in 0..2_500 {
        lanes = lanes.map(|lane| lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ lane);
    }
    black_box(lanes);
}

/// What the other thread does.
enum Job {
    /// It shows a decision to the shadow.
    Show(Sample, Arc<Receipt>),
    /// It decides.
    Decide(Box<RouteRequest>, Moment),
    /// It calculates.
    Calculate,
}
