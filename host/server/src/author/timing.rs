//! What calls of a request classifier take, by how many requests are under way: a made-up crowd goes through its door, again and
//! again. There is no built-in classifier to stand beside it.
//!
//! Times are for people to read, on the machine that they were taken on; nothing goes by them.

use std::sync::Arc;

use pointsman_core::classifier::ClassifierProvider;
use pointsman_core::clock::Stopwatch;
use serde::Serialize;

use super::Specimen;
use super::crowd::{self, Crowd, Door};
use super::scene::SIZES;

/// Ranks that there are for it.
const WORKERS: usize = 16;
/// Crowds that pass at least; the middle one counts.
const LEAST_TURNS: usize = 3;
/// No further crowd begins after so many microseconds.
const ENOUGH_US: f64 = 500_000.0;

/// What a call takes where so many requests come before the first one ends.
#[derive(Clone, Debug, Serialize)]
pub struct Toll {
    /// How many requests.
    pub requests: usize,
    /// Microseconds, on average over all calls of a crowd: `classify` and `on-event`. The middle one of several crowds.
    pub us: f64,
    /// Units of fuel, on average; none of a native classifier.
    pub fuel: Option<u64>,
    /// The most bytes of linear memory that the instance had; none of a native classifier.
    pub memory_bytes: Option<u64>,
}

/// Takes the time of crowds of all sizes.
///
/// # Errors
///
/// It can't be configured, or gives an answer that is none.
pub fn time(specimen: &Specimen) -> Result<Vec<Toll>, String> {
    let provider: Arc<dyn ClassifierProvider> = specimen.component.clone();
    let environment = crowd::environment(&specimen.environment(), WORKERS);
    let toll = |requests| {
        let crowd = Crowd { requests, at_once: requests };
        let (mut turns, mut spent) = (Vec::new(), 0.0);
        let (mut fuel, mut memory_bytes) = (None, None);
        while turns.len() < LEAST_TURNS || spent < ENOUGH_US {
            let mut door = Door::new(&provider, &environment)?;
            let watch = Stopwatch::start();
            let course = crowd.pass_through(&mut door)?;
            let us = watch.micros();
            let calls = course.calls.max(1);
            spent += us;
            turns.push(us / calls as f64);
            let usage = door.usage();
            fuel = usage.map(|_| course.fuel / calls);
            memory_bytes = usage.map(|usage| usage.most_memory_bytes);
        }
        turns.sort_by(f64::total_cmp);
        let us = turns.get(turns.len() / 2).copied().unwrap_or_default();
        Ok(Toll { requests, us, fuel, memory_bytes })
    };
    SIZES.into_iter().map(toll).collect()
}
