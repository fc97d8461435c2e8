//! Makes recorded decisions again, by the same policy or by another one.
//!
//! Owns how a record is turned into a decision, and how that compares with the one that was made. It
//! reads no files and prints nothing.

pub mod classifier;

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::ids::{PartitionKey, WorkerRank};
use pointsman_core::policy::selection::{BuildContext, Recipe, default_instance};
use pointsman_core::policy::{BreakerSpec, Catalog, InstanceSpec, Pipeline, Safeguards};
use pointsman_core::recording::ReplayError;
use serde::Serialize;

use crate::recorder::{ReadDecision, ReadSettings};

/// Where an instance is made for.
type Place = (PartitionKey, u32, u64, Arc<str>);

/// What came of a decision that was made again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Again {
    /// The same row.
    Same {
        /// Whether it costs the same, to the last bit.
        same_cost: bool,
    },
    /// Another row.
    Differs {
        /// Which.
        chosen: WorkerRank,
        /// What it costs.
        cost: f64,
        /// Prompt tokens predicted to be cached there, beyond those where it went.
        cached_tokens_gained: i64,
    },
    /// It failed, or rejected every row.
    Failed {
        /// Why.
        why: String,
    },
    /// It can't be made again.
    Impossible {
        /// Why.
        why: String,
    },
}

/// All of them, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Decisions that were read.
    pub decisions: u64,
    /// The same row.
    pub same: u64,
    /// Of those, at the same cost, to the last bit.
    pub same_to_the_last_bit: u64,
    /// Another row.
    pub differ: u64,
    /// Failed.
    pub failed: u64,
    /// Can't be made again.
    pub impossible: u64,
    /// Prompt tokens predicted to be cached where they would go now, and not where they went.
    pub cached_tokens_gained: u64,
    /// The other way round.
    pub cached_tokens_lost: u64,
    /// Whether each decision of the policy depends on its record alone. Else only a complete log, in
    /// order, can be repeated.
    pub stateless: bool,
}

/// Makes decisions again.
#[derive(Debug)]
pub struct Replay {
    catalog: Catalog,
    recipe: Recipe,
    settings: BTreeMap<u64, Arc<ReadSettings>>,
    made: BTreeMap<Place, Pipeline>,
    summary: Summary,
}

impl Replay {
    /// By what a recipe makes of the types of a catalogue.
    #[must_use]
    pub fn by(catalog: Catalog, recipe: Recipe) -> Self {
        let summary = Summary { stateless: true, ..Summary::default() };
        let (settings, made) = (BTreeMap::new(), BTreeMap::new());
        Self { catalog, recipe, settings, made, summary }
    }

    /// What came of all so far.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Another file begins: its settings have numbers of their own.
    pub fn begin_file(&mut self) {
        self.settings.clear();
        self.made.clear();
    }

    /// Takes up settings, for the decisions that follow.
    pub fn heed(&mut self, settings: ReadSettings) {
        // A router that was started again counts anew.
        self.made.retain(|(_, _, number, _), _| *number != settings.number);
        self.settings.insert(settings.number, Arc::new(settings));
    }

    /// Makes a decision again.
    ///
    /// # Errors
    ///
    /// If the policy can't be made.
    pub fn decide(&mut self, decision: &ReadDecision) -> Result<Again, BuildError> {
        self.summary.decisions += 1;
        let again = self.again(decision)?;
        match &again {
            Again::Same { same_cost } => {
                self.summary.same += 1;
                self.summary.same_to_the_last_bit += u64::from(*same_cost);
            }
            Again::Differs { cached_tokens_gained, .. } => {
                self.summary.differ += 1;
                let tokens = cached_tokens_gained.unsigned_abs();
                if *cached_tokens_gained > 0 {
                    self.summary.cached_tokens_gained += tokens;
                } else {
                    self.summary.cached_tokens_lost += tokens;
                }
            }
            Again::Failed { .. } => self.summary.failed += 1,
            Again::Impossible { .. } => self.summary.impossible += 1,
        }
        Ok(again)
    }

    fn again(&mut self, decision: &ReadDecision) -> Result<Again, BuildError> {
        let Some(settings) = self.settings.get(&decision.settings).cloned() else {
            let why = format!("no line before it has settings number {}", decision.settings);
            return Ok(Again::Impossible { why });
        };
        let recording = &decision.recording;
        let pipeline = self.pipeline(decision, &settings)?;
        let stateless = pipeline.is_stateless();
        // The costs of rows are those of the stages one by one, as they were.
        let answer = pipeline.replay(recording, None, true);
        self.summary.stateless &= stateless;
        let selected = match answer {
            Ok(selected) => selected,
            Err(ReplayError::Missing(input)) => {
                let name = input.name();
                return Ok(Again::Impossible { why: format!("column {name:?} wasn't recorded") });
            }
            Err(ReplayError::Run(error)) => return Ok(Again::Failed { why: error.to_string() }),
        };
        let Some(&chosen) = recording.rows.get(selected.row) else {
            return Ok(Again::Impossible { why: "it chose a row that there isn't".to_owned() });
        };
        let went = decision.worker();
        if chosen == went {
            let same_cost =
                decision.cost().is_some_and(|cost| cost.to_bits() == selected.cost.to_bits());
            return Ok(Again::Same { same_cost });
        }
        let there =
            recording.rows.binary_search(&went).map_or(0, |row| recording.cached_tokens(row));
        let here = recording.cached_tokens(selected.row);
        Ok(Again::Differs {
            chosen,
            cost: selected.cost,
            cached_tokens_gained: here.cast_signed() - there.cast_signed(),
        })
    }

    /// The instance that decides where a decision was made: one for all of a place, as there.
    fn pipeline(
        &mut self,
        decision: &ReadDecision,
        settings: &ReadSettings,
    ) -> Result<&mut Pipeline, BuildError> {
        let block_size = decision.recording.facts.block_size;
        let partition = decision.partition.clone();
        let place = (partition, block_size, settings.number, decision.policy.name.clone());
        match self.made.entry(place) {
            std::collections::btree_map::Entry::Occupied(made) => Ok(made.into_mut()),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                let (partition, _, _, name) = vacant.key();
                // Named as it was, so that its own random numbers are the same.
                let instance = InstanceSpec {
                    name: name.clone(),
                    recipe: self.recipe.clone(),
                    safeguards: Safeguards { breaker: BreakerSpec::off(), ..Safeguards::default() },
                    ..default_instance()
                };
                let shared = Arc::new(settings.settings.clone());
                let made = instance.build(&BuildContext {
                    catalog: &self.catalog,
                    partition,
                    block_size,
                    settings: &shared,
                    seed: settings.router_seed,
                    trial: false,
                })?;
                Ok(vacant.insert(made))
            }
        }
    }
}
