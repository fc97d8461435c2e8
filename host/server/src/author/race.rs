//! What decisions of a policy take, beside those of the built-in `default`: the same decisions, in turns, so
//! that what else the machine does meets both.
//!
//! Times are for people to read, on the machine that they were taken on; nothing goes by them.

use std::sync::Arc;

use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::pipeline::Source;
use pointsman_core::policy::{Catalog, Pipeline, PolicyProvider};
use serde::Serialize;
use serde_json::Map;

use super::Specimen;
use super::scene::{Extent, NoChoice, SIZES, Scene, Stage, Way};

/// The built-in that a policy is measured beside.
pub const BESIDE: &str = "default";
/// Different decisions of each size.
const DECISIONS: usize = 32;
/// Turns that each takes; the middle one counts.
const TURNS: usize = 15;
/// A turn takes this long at least, in microseconds, so that the clock's own steps don't count.
const TURN_US: f64 = 3_000.0;

/// What a decision takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lap {
    /// Microseconds: rows loaded, all stages asked, answers checked. The middle one of several turns.
    pub us: f64,
    /// Units of fuel, on average; none of a built-in.
    pub fuel: Option<u64>,
    /// The most bytes of linear memory that the instance had, which is what `memory` of the limits bounds; none of a built-in.
    pub memory_bytes: Option<u64>,
}

/// One size.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// How many rows were candidates.
    pub rows: usize,
    /// The policy.
    pub policy: Lap,
    /// The built-in `default`.
    pub default: Lap,
    /// The policy's time by the built-in's.
    pub times: f64,
}

/// One that takes turns.
struct Racer<'a> {
    pipeline: Pipeline,
    stage: &'a Stage,
    scene: Scene,
    laps: Vec<f64>,
    fuel: Option<u64>,
}

/// Runs all sizes.
///
/// # Errors
///
/// It can't be configured, or fails to decide.
pub fn race(specimen: &Specimen) -> Result<Vec<Heat>, String> {
    let stage = Stage { provider: specimen.component.clone(), environment: specimen.environment() };
    let builtin = Catalog::builtin().get(BESIDE).cloned();
    let builtin = builtin.ok_or_else(|| format!("there is no built-in {BESIDE:?}"))?;
    let mut beside = Stage { provider: builtin, environment: stage.environment.clone() };
    beside.environment.parameters = Arc::new(Map::new());
    SIZES.into_iter().map(|rows| heat(&stage, &beside, rows)).collect()
}

fn heat(stage: &Stage, beside: &Stage, rows: usize) -> Result<Heat, String> {
    let extent = Extent { rows, decisions: DECISIONS };
    let scene = Scene::new(stage, extent, rows as u64);
    let mut racers = [Racer::new(stage, &scene)?, Racer::new(beside, &scene)?];
    for _ in 0..TURNS {
        racers.iter_mut().for_each(Racer::turn);
    }
    let [policy, default] = racers.map(Racer::lap);
    Ok(Heat { rows, policy, default, times: policy.us / default.us.max(f64::MIN_POSITIVE) })
}

impl<'a> Racer<'a> {
    /// Warmed up: everything is asked once.
    fn new(stage: &'a Stage, scene: &Scene) -> Result<Self, String> {
        let mut pipeline = stage.pipeline()?;
        let answers = scene.play_on(&mut pipeline, stage, Way::OneCall);
        for answer in &answers {
            if let Err(NoChoice::Failed(_, words)) = &answer.chosen {
                return Err(format!("{words}; `pointsman policy check` says more"));
            }
        }
        let fuel = answers.iter().map(|answer| answer.fuel.decision).sum::<u64>();
        let metered = PolicyProvider::digest(&*stage.provider).is_some();
        let fuel = metered.then(|| fuel / answers.len().max(1) as u64);
        Ok(Self { pipeline, stage, scene: scene.clone(), laps: Vec::new(), fuel })
    }

    fn turn(&mut self) {
        let Self { pipeline, stage, scene, laps, .. } = self;
        let watch = Stopwatch::start();
        let mut decided = 0;
        while watch.micros() < TURN_US || decided == 0 {
            for decision in &scene.decisions {
                let block_size = stage.environment.block_size;
                let answer = decision.ask(pipeline, &scene.snapshot, block_size, Way::OneCall);
                std::hint::black_box(answer.is_ok());
                decided += 1;
            }
        }
        laps.push(watch.micros() / f64::from(decided));
    }

    fn lap(mut self) -> Lap {
        self.laps.sort_by(f64::total_cmp);
        let us = self.laps.get(self.laps.len() / 2).copied().unwrap_or_default();
        let usage = self.pipeline.sources().iter().filter_map(Source::usage);
        let memory_bytes =
            usage.map(|usage| usage.most_memory_bytes).reduce(|sum, more| sum + more);
        Lap { us, fuel: self.fuel, memory_bytes }
    }
}
