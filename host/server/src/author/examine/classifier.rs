//! A request classifier: made, and given a crowd of requests that come, wait, run and end, as a host would
//! tell it.

use std::sync::Arc;

use pointsman_core::classifier::{
    ClassifierDeclaration, ClassifierEnvironment, ClassifierProvider,
};
use pointsman_core::policy::{Limits, PolicyEnvironment};

use super::fuel::{self, FuelFigure};
use super::{Findings, grouped, policy};
use crate::author::Given;
use crate::author::crowd::{self, Course, Crowd};
use crate::author::scene::SIZES;

/// Requests of the usual crowd.
const USUAL: usize = 64;
/// How many of a crowd's requests are under way or wait at once; none is all of them.
const AT_ONCE: usize = 24;
/// Ranks that there are for it.
const WORKERS: usize = 4;

/// A classifier, and what is known of it before it is asked.
pub(super) struct Suspect<'a> {
    pub(super) provider: Arc<dyn ClassifierProvider>,
    /// What a policy beside it would be told.
    pub(super) told: &'a PolicyEnvironment,
    pub(super) given: &'a Given,
    /// The fuel that a call may use.
    pub(super) fuel: u64,
}

pub(super) fn examine(suspect: &Suspect<'_>, found: &mut Findings) {
    let environment = suspect.environment(WORKERS);
    let declaration = match suspect.provider.instantiate(&environment) {
        Ok(instance) => instance.declaration(),
        Err(error) => return policy::refused(&error, suspect.given, found),
    };
    found.good("parameters", suspect.given.from.clone());
    let ClassifierDeclaration { tick_ms, most_held } = declaration;
    let ticks = match tick_ms {
        0 => "no ticks".to_owned(),
        tick_ms => format!("a tick every {tick_ms} ms"),
    };
    let most = grouped(most_held.into());
    found.good("classifier", format!("holds {most} requests at most, wants {ticks}"));
    if let Err(words) = suspect.asked(&environment, found) {
        found.wrong("classifies", words);
    }
}

impl Suspect<'_> {
    fn environment(&self, workers: usize) -> ClassifierEnvironment {
        crowd::environment(self.told, workers)
    }

    /// An error is an answer that is none.
    fn asked(
        &self,
        environment: &ClassifierEnvironment,
        found: &mut Findings,
    ) -> Result<(), String> {
        let usual = Crowd { requests: USUAL, at_once: AT_ONCE };
        let course = usual.pass(&self.provider, environment)?;
        let Course { admitted, held, refused, said, left, .. } = &course;
        found.good(
            "classifies",
            format!("of {USUAL} made-up requests {admitted} were admitted, {held} of them after a wait, and {refused} refused"),
        );
        if *refused == USUAL {
            found.note("classifies", format!("it refused every made-up request, as in {said:?}"));
        }
        if usual.pass(&self.provider, environment)? == course {
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
            let course = usual.pass(&self.provider, &self.environment(workers))?;
            found.good(check, format!("{} of {USUAL} requests were admitted", course.admitted));
        }
        self.measured(environment, found)
    }

    fn measured(
        &self,
        environment: &ClassifierEnvironment,
        found: &mut Findings,
    ) -> Result<(), String> {
        let fuel = Some(self.fuel.saturating_mul(fuel::AMPLE));
        let limits = Limits { fuel, ..environment.limits };
        let ample = ClassifierEnvironment { limits, ..environment.clone() };
        let (mut figures, mut failed) = (Vec::new(), Ok(()));
        for requests in SIZES {
            match (Crowd { requests, at_once: requests }).pass(&self.provider, &ample) {
                Ok(Course { most_fuel, fuel, calls, .. }) => {
                    let mean = fuel / calls.max(1);
                    figures.push(FuelFigure::new("requests", requests, most_fuel, mean, self.fuel));
                }
                Err(words) => {
                    let count = grouped(requests as u64);
                    failed =
                        Err(format!("where {count} requests come before the first ends: {words}"));
                    break;
                }
            }
        }
        // What smaller crowds used is worth knowing all the same.
        fuel::tell(figures, None, found);
        failed
    }
}
