//! Consistent hashing with bounded loads: prompts that begin alike go to one worker, until that has more than
//! its share; then to the next one in an order that is the prompt's own.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::random::mix;

export_policy! {
    /// The worker that the prompt's beginning hashes to, within a bound on its load.
    pub policy BoundedLoadHash(settings: Settings, environment) {
        prefix_hash_blocks: settings.blocks(environment.partition.block_size),
        picker: Hash { load_factor: settings.load_factor },
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Tokens of the prompt's beginning that are hashed.
    pub prefix_tokens: u32,
    /// Times the mean of requests that a worker may have, to be given another; 1 or more.
    pub load_factor: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { prefix_tokens: 256, load_factor: 1.25 }
    }
}

impl Settings {
    /// The blocks that are hashed; a block at least.
    fn blocks(&self, block_size: u32) -> u32 {
        (self.prefix_tokens / block_size.max(1)).max(1)
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::within("prefix_tokens", self.prefix_tokens.into(), 1.0, 1_048_576.0),
            parameters::at_least("load_factor", self.load_factor, 1.0),
        ])
    }
}

struct Hash {
    load_factor: f64,
}

impl WorkerPicker for Hash {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let requests = rows.column(Input::ActiveRequests);
        // The hash of the last block covers all that are before it.
        let Some(&key) = cx.prefix_hashes().last() else {
            return Ok(pick::first_lowest(requests));
        };
        let total: f64 = requests.iter().sum();
        let bound = self.load_factor * (total + 1.0) / rows.len() as f64;
        let has_room = |row: &Row<'_>| row.active_requests() <= bound;
        // In the prompt's order of workers, the first with room is the one of most weight that has.
        let with_room = heaviest(rows.iter().filter(has_room), key);
        Ok(with_room.or_else(|| heaviest(rows.iter(), key)).unwrap_or(0))
    }
}

/// The row of most weight for a key; the first of equals.
fn heaviest<'r>(rows: impl Iterator<Item = Row<'r>>, key: u64) -> Option<usize> {
    let (mut best, mut most) = (None, 0);
    for row in rows {
        let weight = weight(key, row.worker());
        if best.is_none() || weight > most {
            (best, most) = (Some(row.index()), weight);
        }
    }
    best
}

/// A worker's weight for a key: a worker that comes or goes changes nobody else's.
fn weight(key: u64, worker: Worker) -> u64 {
    mix(key ^ mix(worker.id ^ mix(worker.dp_rank.into())))
}

#[cfg(test)]
mod tests;
