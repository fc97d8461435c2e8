//! Small fleets and requests for a policy's unit tests, and [`Trial`], which decides over them
//! natively.
//!
//! ```
//! use pointsman_sdk::testing::{self, Trial};
//! # use pointsman_sdk::prelude::*;
//! # struct ActiveRequests;
//! # impl WorkerScorer for ActiveRequests {
//! #     fn inputs(&self) -> Vec<Input> { vec![Input::ActiveRequests] }
//! #     fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
//! #         rows.score(costs, |row| row.active_requests());
//! #         Ok(())
//! #     }
//! # }
//! # export_policy! {
//! #     policy FewestRequests { scorers: [ActiveRequests] }
//! # }
//! # fn main() -> Result {
//!
//! let mut trial = Trial::of::<FewestRequests>("{}")?;
//! let fleet = [
//!     testing::worker(1).with(Input::ActiveRequests, 3.0),
//!     testing::worker(2).with(Input::ActiveRequests, 1.0),
//! ];
//! let choice = trial.decide(&testing::request(), &fleet)?;
//! assert_eq!(choice.worker.map(|worker| worker.id), Some(2));
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::native::{Decision, Instance, Lists};
use crate::policy::Policy;
use crate::request::{Environment, Partition, Request, Role, Worker};
use crate::{Input, InputTrigger, Result};

/// A request of 1,024 prompt tokens, without a session; change what a test is about.
pub fn request() -> Request {
    Request {
        decision_id: 1,
        prompt_tokens: 1_024,
        request_blocks: 64,
        tracks_prefill_tokens: true,
        ..Request::default()
    }
}

/// [`request`] as the answer to a tool call.
pub fn tool_result() -> Request {
    Request { trigger: Some(InputTrigger::ToolResult), ..request() }
}

/// An aggregated partition of block size 16, with these parameters as JSON.
pub fn environment(parameters: impl Display) -> Environment {
    Environment {
        partition: Partition {
            model: "model".to_owned(),
            routing_group: "default".to_owned(),
            role: Role::Aggregated,
            block_size: 16,
        },
        parameters: parameters.to_string(),
        router_config: "{}".to_owned(),
        seed: 0,
    }
}

/// Rank 0 of a worker without load or cache.
pub fn worker(id: u64) -> Candidate {
    Candidate { worker: Worker { id, dp_rank: 0 }, values: BTreeMap::new() }
}

/// One candidate, as a test describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    worker: Worker,
    values: BTreeMap<&'static str, f64>,
}

impl Candidate {
    /// The same with another rank.
    #[must_use]
    pub fn rank(mut self, dp_rank: u32) -> Self {
        self.worker.dp_rank = dp_rank;
        self
    }

    /// The same with a column's value.
    #[must_use]
    pub fn with(mut self, input: Input, value: f64) -> Self {
        self.values.insert(input.name(), value);
        self
    }

    /// Who it is.
    pub fn worker(&self) -> Worker {
        self.worker
    }

    /// The value of a column; 0, or 1 for the taint multiplier, unless set.
    pub fn value(&self, name: &str) -> f64 {
        let unset = if name == Input::PreferredTaintMultiplier.name() { 1.0 } else { 0.0 };
        self.values.get(name).copied().unwrap_or(unset)
    }
}

/// What a policy chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The rows that all filters kept, in order.
    pub kept: Vec<usize>,
    /// The summed cost of each kept row; 0 without scorers.
    pub costs: Vec<f64>,
    /// The chosen row; `None` when no row was kept, and the fleet's length for a row that isn't
    /// there.
    pub row: Option<usize>,
    /// The worker of that row; `None` also when there is no such row, which a host refuses.
    pub worker: Option<Worker>,
}

/// A policy under test.
///
/// Decides twice, by separate calls and by one fused call, on an instance each, and panics when
/// they differ.
#[derive(Debug)]
pub struct Trial {
    separate: Instance,
    fused: Instance,
    facts: BTreeMap<&'static str, f64>,
    prefix_hashes: Vec<u64>,
}

impl Trial {
    /// Configures the policy in [`environment`].
    ///
    /// # Errors
    ///
    /// What the policy refuses.
    pub fn of<P: Policy>(parameters: impl Display) -> Result<Self> {
        Self::within::<P>(environment(parameters))
    }

    /// Configures the policy in an environment of the test's own.
    ///
    /// # Errors
    ///
    /// What the policy refuses.
    pub fn within<P: Policy>(environment: Environment) -> Result<Self> {
        Ok(Self {
            separate: Instance::configure::<P>(environment.clone())?,
            fused: Instance::configure::<P>(environment)?,
            facts: BTreeMap::new(),
            prefix_hashes: Vec::new(),
        })
    }

    /// Sets a fact for the decisions that follow.
    pub fn set_fact(&mut self, name: &'static str, value: f64) {
        self.facts.insert(name, value);
    }

    /// Sets the prompt's block hashes for the decisions that follow.
    pub fn set_prefix_hashes(&mut self, hashes: impl Into<Vec<u64>>) {
        self.prefix_hashes = hashes.into();
    }

    /// Both instances, for tests of hooks: whatever is done to one must be done to the other.
    pub fn instances(&mut self) -> [&mut Instance; 2] {
        [&mut self.separate, &mut self.fused]
    }

    /// Decides.
    ///
    /// # Errors
    ///
    /// What a stage refuses.
    ///
    /// # Panics
    ///
    /// When separate calls and the fused call disagree, or a cost isn't finite.
    pub fn decide(&mut self, request: &Request, fleet: &[Candidate]) -> Result<Choice> {
        let separate = self.decide_separately(request, fleet);
        let fused = self.decide_fused(request, fleet);
        assert_eq!(separate, fused, "separate calls and the fused call disagree");
        separate
    }

    fn decide_separately(&mut self, request: &Request, fleet: &[Candidate]) -> Result<Choice> {
        let declaration = self.separate.declaration().clone();
        let all: Vec<usize> = (0..fleet.len()).collect();
        let mut kept = all.clone();
        let mut mask = Vec::new();
        for (index, filter) in declaration.filters.iter().enumerate() {
            let sent = self.send(&filter.inputs, fleet, &all);
            self.separate.keep(index, request, sent.lists(), &mut mask)?;
            kept.retain(|&row| is_set(&mask, row));
        }
        if kept.is_empty() {
            return Ok(Choice { kept, costs: Vec::new(), row: None, worker: None });
        }
        let mut sums = vec![0.0; kept.len()];
        let mut costs = Vec::new();
        for (index, scorer) in declaration.scorers.iter().enumerate() {
            let sent = self.send(&scorer.inputs, fleet, &kept);
            self.separate.score(index, request, sent.lists(), &mut costs)?;
            assert!(
                costs.iter().all(|cost| cost.is_finite()),
                "scorer \"{}\" gave {costs:?}",
                scorer.name
            );
            sums.iter_mut().zip(&costs).for_each(|(sum, cost)| *sum += cost);
        }
        let inputs = declaration.picker.map(|picker| picker.inputs).unwrap_or_default();
        let sent = self.send(&inputs, fleet, &kept);
        let row = self.separate.pick(request, sent.lists(), &sums)? as usize;
        let row = kept.get(row).copied().unwrap_or(fleet.len());
        Ok(Choice {
            kept,
            costs: sums,
            row: Some(row),
            worker: fleet.get(row).map(Candidate::worker),
        })
    }

    fn decide_fused(&mut self, request: &Request, fleet: &[Candidate]) -> Result<Choice> {
        let declaration = self.fused.declaration().clone();
        let all: Vec<usize> = (0..fleet.len()).collect();
        let sent = self.send(&declaration.fused_inputs(), fleet, &all).compact();
        let mut decision = Decision::default();
        self.fused.decide(request, sent.lists(), &mut decision)?;
        let mut kept = all;
        if !decision.verdicts.is_empty() {
            kept.retain(|&row| is_set(&decision.verdicts, row));
        }
        if kept.is_empty() {
            return Ok(Choice { kept, costs: Vec::new(), row: None, worker: None });
        }
        let row = fleet.len().min(decision.row as usize);
        let mut costs = decision.costs;
        costs.resize(kept.len(), 0.0);
        Ok(Choice { kept, costs, row: Some(row), worker: fleet.get(row).map(Candidate::worker) })
    }

    /// The lists that a host would send for these inputs and rows.
    fn send(&self, inputs: &[&'static str], fleet: &[Candidate], rows: &[usize]) -> Sent {
        let rows: Vec<&Candidate> = rows.iter().map(|&row| &fleet[row]).collect();
        let (facts, columns): (Vec<&str>, Vec<&str>) =
            inputs.iter().partition(|name| self.facts.contains_key(*name));
        let mut sent = Sent { rows: rows.len() as u32, ..Sent::default() };
        for name in columns {
            if name == Input::Identity.name() {
                sent.identity.extend(rows.iter().map(|row| row.worker.id));
                sent.identity.extend(rows.iter().map(|row| u64::from(row.worker.dp_rank)));
            } else {
                sent.columns += 1;
                sent.numbers.extend(rows.iter().map(|row| row.value(name)));
            }
        }
        sent.numbers.extend(facts.iter().filter_map(|name| self.facts.get(name)));
        sent.prefix_hashes.extend(&self.prefix_hashes);
        sent
    }
}

fn is_set(mask: &[u64], row: usize) -> bool {
    mask[row / 64] >> (row % 64) & 1 == 1
}

/// Lists that own their values.
#[derive(Default)]
struct Sent {
    rows: u32,
    columns: usize,
    uniform: u64,
    numbers: Vec<f64>,
    identity: Vec<u64>,
    prefix_hashes: Vec<u64>,
}

impl Sent {
    /// As a host sends them that knows which columns are one number in every row.
    fn compact(mut self) -> Self {
        let rows = self.rows as usize;
        let facts = self.numbers.split_off(self.columns * rows);
        let mut one = Vec::new();
        let mut each = Vec::new();
        for (at, column) in self.numbers.chunks_exact(rows.max(1)).enumerate() {
            if at < 64 && column.iter().all(|value| value.to_bits() == column[0].to_bits()) {
                self.uniform |= 1 << at;
                one.push(column[0]);
            } else {
                each.extend_from_slice(column);
            }
        }
        self.numbers = [each, one, facts].concat();
        self
    }

    fn lists(&self) -> Lists<'_> {
        Lists {
            rows: self.rows,
            uniform: self.uniform,
            numbers: &self.numbers,
            identity: &self.identity,
            prefix_hashes: &self.prefix_hashes,
        }
    }
}
