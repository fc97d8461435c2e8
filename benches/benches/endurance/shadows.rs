//! What a shadow adds to the decisions that it is shown: all of them, on another thread.
//!
//! Two partitions that are alike but for the shadow decide in turn, in short batches.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context, Result};
use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::Role;
use pointsman_core::partition::{Decision, Mode};
use pointsman_core::policy::OnFailure;
use pointsman_core::policy::selection::ShadowSpec;
use pointsman_core::receipt::Receipt;
use pointsman_core::recording::Sample;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::json;

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
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let batches = DECISIONS / share / BATCH;
    let (queue, shown) = sync_channel::<(Box<Sample>, Arc<Receipt>)>(128);
    let dropped = thread::scope(|scope| -> Result<u64> {
        // As the router's own thread does it.
        scope.spawn(move || {
            while let Ok((sample, receipt)) = shown.recv() {
                sample.shadows.iter().for_each(|shadow| {
                    shadow.watch(&sample, &receipt);
                });
            }
        });
        let mut dropped = 0;
        let mut carried: [Vec<Decision>; 2] = Default::default();
        for batch in 0..2 * batches {
            let is_shadowed = batch % 2 == 1;
            let (router, times) =
                if is_shadowed { (&shadowed, &mut with) } else { (&plain, &mut without) };
            let carried = &mut carried[usize::from(is_shadowed)];
            for n in 0..BATCH {
                // The same in both.
                let nth = batch / 2 * BATCH + n;
                let tokens = 100 + nth * 977 % 4_000;
                let request = RouteRequest::new("r", partition("g", Role::Aggregated), tokens);
                let moment = Moment { now_ms: nth, seed: nth };
                let watch = Stopwatch::start();
                let mut decision = router.route(&request, moment, Mode::Book)?;
                times.push(watch.elapsed().as_nanos() as u64);
                if let Some(sample) = decision.sample.take() {
                    let receipt = Arc::new(decision.receipt.clone());
                    dropped += u64::from(queue.try_send((sample, receipt)).is_err());
                }
                if carried.len() < CARRIED {
                    carried.push(decision);
                } else {
                    // The one that it takes the place of ends.
                    carried[nth as usize % CARRIED] = decision;
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
    let (without, with) = (quantiles(without), quantiles(with));
    part.tell("a decision without, p50 and p99", told(without));
    part.tell("a decision with, p50 and p99", told(with));
    let ratio = with.0 / without.0;
    part.promise("p50 with by p50 without", format!("{ratio:.3}"), "at most 1.05", ratio <= MOST);
    Ok(part)
}

/// p50 and p99 in microseconds.
fn quantiles(mut times: Vec<u64>) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len().saturating_sub(1) as f64 * share) as usize;
        times.get(index).copied().unwrap_or(0) as f64 / 1_000.0
    };
    (at(0.5), at(0.99))
}

fn told((p50, p99): (f64, f64)) -> String {
    format!("{p50:.2} us, {p99:.2} us")
}
