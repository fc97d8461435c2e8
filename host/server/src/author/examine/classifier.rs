//! A request classifier: made, and given a crowd of requests that come, wait, run and end, as a host would
//! tell it.
//!
//! `crowd` is that host, and finds answers that are none.

mod crowd;

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider,
};
use pointsman_core::policy::Limits;
use pointsman_core::queue::{Profile, QueuePolicy};
use pointsman_wasm::Description;

use super::fuel::{self, FuelFigure};
use super::{Findings, grouped, parameters, policy};
use crate::author::Specimen;
use crowd::{Course, Crowd};

/// Requests of the usual crowd.
const USUAL: usize = 64;
/// How many of a crowd's requests are under way or wait at once; none is all of them.
const AT_ONCE: usize = 24;
/// Ranks that there are for it.
const WORKERS: usize = 4;

pub(super) fn examine(specimen: &Specimen, about: Option<&Description>, found: &mut Findings) {
    // A component that selects workers too has had its schema looked at.
    if !specimen.component.selects_workers() {
        parameters::schema(about, &specimen.given, found);
    }
    let environment = environment(specimen, WORKERS);
    let made = ClassifierProvider::instantiate(&*specimen.component, &environment);
    let declaration = match made {
        Ok(instance) => instance.declaration(),
        Err(error) => return policy::refused(&error, specimen, found),
    };
    found.good("parameters", specimen.given.from.clone());
    let ClassifierDeclaration { tick_ms, most_held } = declaration;
    let ticks = match tick_ms {
        0 => "no ticks".to_owned(),
        tick_ms => format!("a tick every {tick_ms} ms"),
    };
    let most = grouped(most_held.into());
    found.good("classifier", format!("holds {most} requests at most, wants {ticks}"));
    if let Err(words) = asked(specimen, &environment, found) {
        found.wrong("classifies", words);
    }
}

fn environment(specimen: &Specimen, workers: usize) -> ClassifierEnvironment {
    let told = specimen.environment();
    // Those of a router that says nothing of queueing.
    let classes = Profile::of_threshold(None, QueuePolicy::default());
    ClassifierEnvironment {
        partition: told.partition,
        block_size: told.block_size,
        parameters: told.parameters,
        settings: told.settings,
        policy_classes: classes.choices().cloned().collect(),
        workers: crowd::workers(workers),
        limits: told.limits,
        seed: told.seed,
        trial: true,
    }
}

/// An error is an answer that is none.
fn asked(
    specimen: &Specimen,
    environment: &ClassifierEnvironment,
    found: &mut Findings,
) -> Result<(), String> {
    let provider: Arc<dyn ClassifierProvider> = specimen.component.clone();
    let usual = Crowd { requests: USUAL, at_once: AT_ONCE };
    let course = usual.pass(&provider, environment)?;
    let Course { admitted, held, refused, said, left, .. } = &course;
    found.good(
        "classifies",
        format!("of {USUAL} made-up requests {admitted} were admitted, {held} of them after a wait, and {refused} refused"),
    );
    if *refused == USUAL {
        found.note("classifies", format!("it refused every made-up request, as in {said:?}"));
    }
    if usual.pass(&provider, environment)? == course {
        found.good("repeats", "two new instances give the same answers to the same requests");
    } else {
        found.wrong(
            "repeats",
            "two new instances that were told the same answered differently: take time from `now_ms`, and walk through ordered maps",
        );
    }
    if *left > 0 {
        found.note(
            "releases",
            format!(
                "{left} requests are still held when all others have ended and a minute has passed: the host admits them only at their due time, \
                 or when the instance is lost"
            ),
        );
    } else {
        found.good("releases", "nobody is left waiting when all others have ended");
    }
    for (workers, check) in [(0, "no worker"), (1, "one worker")] {
        let course = usual.pass(&provider, &self::environment(specimen, workers))?;
        found.good(check, format!("{} of {USUAL} requests were admitted", course.admitted));
    }
    of_fuel(specimen, &provider, environment, found)
}

fn of_fuel(
    specimen: &Specimen,
    provider: &Arc<dyn ClassifierProvider>,
    environment: &ClassifierEnvironment,
    found: &mut Findings,
) -> Result<(), String> {
    let limit = specimen.fuel();
    let ample = ClassifierEnvironment {
        limits: Limits { fuel: Some(limit.saturating_mul(fuel::AMPLE)), ..environment.limits },
        ..environment.clone()
    };
    let mut figures = Vec::new();
    for requests in fuel::SIZES {
        let Course { most_fuel, fuel, calls, .. } =
            Crowd { requests, at_once: requests }.pass(provider, &ample)?;
        let mean = fuel / calls.max(1);
        figures.push(FuelFigure::new("requests", requests, most_fuel, mean, limit));
    }
    fuel::tell(figures, None, found);
    Ok(())
}
