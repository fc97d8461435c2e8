//! Splits traffic by weights between workers that are marked with taints and those that aren't: a new engine
//! version gets its five percent, and a session stays on one side.

use std::collections::BTreeMap;

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::random::mix;

/// A share of the traffic by taint; within a share, the fewest requests.
#[derive(Debug, Clone, Copy)]
pub struct WeightedRollout;

export_policy!(WeightedRollout);

impl Policy for WeightedRollout {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, _: &Environment) -> Result<Stages> {
        let shares = Shared::new(Shares { settings, of: BTreeMap::new(), drawn: 0 });
        Ok(Stages::new().filter(shares.clone()).scorer(ActiveRequests).fleet_follower(shares))
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The weight of workers that have a taint, by taint.
    pub shares: BTreeMap<String, f64>,
    /// The weight of workers that have none of these.
    #[serde(default)]
    pub others: f64,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        let weights = self
            .shares
            .iter()
            .map(|(taint, weight)| parameters::not_negative(&format!("shares.{taint}"), *weight));
        let is_any = self.shares.values().chain([&self.others]).any(|weight| *weight > 0.0);
        let nothing =
            || Err("parameter \"shares\" has no weight above 0; give one at least".into());
        parameters::all(
            weights.chain([parameters::not_negative("others", self.others)]).chain([if is_any {
                Ok(())
            } else {
                nothing()
            }]),
        )
    }
}

/// Keeps the workers of one share, which is drawn for each request.
struct Shares {
    settings: Settings,
    /// The share of each worker, by its place among all; that of the others is the last.
    of: BTreeMap<Worker, usize>,
    /// The share of this decision.
    drawn: usize,
}

impl Shares {
    fn share_of(&self, worker: Worker) -> usize {
        self.of.get(&worker).copied().unwrap_or(self.settings.shares.len())
    }

    /// Draws among the shares that have a candidate, by their weights; where those are all 0, among these
    /// evenly.
    fn draw(&self, unit: f64, mut weights: Vec<f64>, present: &[bool]) -> usize {
        for (weight, present) in weights.iter_mut().zip(present) {
            *weight = if *present { *weight } else { 0.0 };
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            weights = present.iter().map(|present| f64::from(u8::from(*present))).collect();
        }
        let mut left = unit * weights.iter().sum::<f64>();
        let mut last = 0;
        for (share, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0) {
            last = share;
            if left < weight {
                break;
            }
            left -= weight;
        }
        last
    }
}

impl WorkerFilter for Shares {
    fn name(&self) -> String {
        "shares".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn prepare(&mut self, cx: &Context<'_>, rows: &Candidates<'_>) -> Result {
        let weights: Vec<f64> =
            self.settings.shares.values().copied().chain([self.settings.others]).collect();
        let mut present = vec![false; weights.len()];
        for row in rows.iter() {
            if let Some(present) = present.get_mut(self.share_of(row.worker())) {
                *present = true;
            }
        }
        // A session's share follows from its name, so that it stays on one side as long as weights do.
        let unit = match &cx.request.session {
            Some(session) => Random::new(hash(session.id.as_bytes())).unit(),
            None => cx.random().unit(),
        };
        self.drawn = self.draw(unit, weights, &present);
        Ok(())
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(self.share_of(row.worker()) == self.drawn)
    }
}

impl FleetFollower for Shares {
    fn fleet_changed(&mut self, _: u64, members: &[Member]) -> Result {
        self.of.clear();
        for member in members {
            let share = self.settings.shares.keys().position(|taint| member.taints.contains(taint));
            self.of.extend(share.map(|share| (member.worker, share)));
        }
        Ok(())
    }
}

/// Eight bytes at a time, mixed into what came before.
fn hash(text: &[u8]) -> u64 {
    text.chunks(8).fold(text.len() as u64, |hash, bytes| {
        let word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        mix(hash ^ mix(word))
    })
}

struct ActiveRequests;

impl WorkerScorer for ActiveRequests {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| row.active_requests());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
