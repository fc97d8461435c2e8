//! What the tests of this crate share: small fleets, requests, and policies made of closures.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::clock::Moment;
use crate::fleet::{Fleet, Snapshot, WorkerSpec};
use crate::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use crate::policy::builtin::pick_lowest;
use crate::policy::native::{NativePolicy, WorkerFilter, WorkerPicker, WorkerScorer};
use crate::policy::selection::{Recipe, TypeUse};
use crate::policy::{
    Candidates, Catalog, Declaration, Digest, Input, InstanceSpec, InstantiateError, OnFailure,
    PolicyEnvironment, PolicyInstance, PolicyProvider, Properties, RequestView, RowMask,
    SelectionSpec, StageError,
};
use crate::request::RouteRequest;
use crate::router::{Policies, Router};

pub(crate) fn key(role: Role) -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role }
}

pub(crate) fn group(name: &str) -> PartitionKey {
    PartitionKey { routing_group: name.into(), ..key(Role::Aggregated) }
}

pub(crate) fn size(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

/// A worker of one rank in the aggregated partition.
pub(crate) fn worker(id: u64) -> WorkerSpec {
    WorkerSpec::new(WorkerId(id), format!("http://worker-{id}"), key(Role::Aggregated))
}

pub(crate) fn ranked(id: u64, start: u32, ranks: u32) -> WorkerSpec {
    WorkerSpec { data_parallel_start_rank: start, data_parallel_size: size(ranks), ..worker(id) }
}

pub(crate) fn tainted(id: u64, taints: &[&str]) -> WorkerSpec {
    WorkerSpec { taints: taints.iter().map(|taint| (*taint).to_owned()).collect(), ..worker(id) }
}

pub(crate) fn rank(id: u64, dp_rank: u32) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(dp_rank) }
}

pub(crate) fn fleet(specs: impl IntoIterator<Item = WorkerSpec>) -> Fleet {
    let mut fleet = Fleet::default();
    for spec in specs {
        fleet.upsert(spec).expect("the fleet takes it");
    }
    fleet
}

pub(crate) fn snapshot(specs: impl IntoIterator<Item = WorkerSpec>) -> Snapshot {
    fleet(specs).snapshot(&key(Role::Aggregated))
}

pub(crate) fn request(prompt_tokens: u64) -> RouteRequest {
    RouteRequest::new("r", key(Role::Aggregated), prompt_tokens)
}

pub(crate) fn moment(seed: u64) -> Moment {
    Moment { now_ms: 5, seed }
}

/// A stage made of a closure.
pub(crate) struct By<F>(pub(crate) Vec<Input>, pub(crate) F);

impl<F> fmt::Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("By").field(&self.0).finish()
    }
}

impl<F> WorkerFilter for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut RowMask) -> Result<(), StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn keep(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        (self.1)(request, rows, verdicts)
    }
}

impl<F> WorkerScorer for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut [f64]) -> Result<(), StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn score(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        (self.1)(request, rows, costs)
    }
}

impl<F> WorkerPicker for By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &[f64]) -> Result<usize, StageError> + Send,
{
    fn inputs(&self) -> &[Input] {
        &self.0
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        (self.1)(request, rows, costs)
    }
}

/// A filter from a closure; a function, so that the closure's types are known.
pub(crate) fn filter<F>(inputs: &[Input], keep: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut RowMask) -> Result<(), StageError> + Send,
{
    By(inputs.to_vec(), keep)
}

/// A scorer from a closure.
pub(crate) fn scorer<F>(inputs: &[Input], score: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &mut [f64]) -> Result<(), StageError> + Send,
{
    By(inputs.to_vec(), score)
}

/// A picker from a closure.
pub(crate) fn picker<F>(inputs: &[Input], pick: F) -> By<F>
where
    F: FnMut(&RequestView<'_>, &Candidates<'_>, &[f64]) -> Result<usize, StageError> + Send,
{
    By(inputs.to_vec(), pick)
}

pub(crate) fn native() -> NativePolicy {
    NativePolicy::new(Properties::default())
}

/// A native policy that also decides in one call, in the plainest way: on copies.
#[derive(Debug)]
pub(crate) struct Fused {
    parts: NativePolicy,
    declaration: Declaration,
}

impl Fused {
    pub(crate) fn new(parts: NativePolicy) -> Self {
        let mut declaration = parts.declaration().clone();
        declaration.properties.fused = true;
        Self { parts, declaration }
    }
}

impl PolicyInstance for Fused {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.parts.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.parts.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.parts.pick(request, rows, costs)
    }

    fn decide(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut crate::policy::Outcome,
    ) -> Result<(), StageError> {
        use crate::policy::candidates::Matrix;
        let union = self.declaration.union();
        // The contract: the columns come in the order of their first appearance.
        assert!(rows.block_of(&union).is_some(), "the block has another order than declared");
        let of = |ids: &[WorkerRank], kept: &[usize]| {
            let ids: Vec<WorkerRank> =
                kept.iter().filter_map(|&row| ids.get(row).copied()).collect();
            let mut matrix = Matrix::new(&union);
            matrix.fill(kept.len(), |input, column| {
                let from = rows.column(input).expect("declared");
                column.iter_mut().zip(kept).for_each(|(to, &row)| *to = from[row]);
            });
            (ids, matrix)
        };
        let all: Vec<usize> = (0..rows.rows()).collect();
        let ids = rows.identity().map_or_else(|| vec![rank(0, 0); all.len()], <[_]>::to_vec);
        let mut kept = all.clone();
        for (at, filter) in self.declaration.filters.iter().enumerate() {
            let (ids, matrix) = of(&ids, &all);
            let seen = Candidates::new(&ids, &matrix, filter.input_set(), &[]);
            let mut verdicts = RowMask::default();
            verdicts.keep_all(all.len());
            self.parts.keep(at, request, &seen, &mut verdicts)?;
            kept.retain(|&row| verdicts.keeps(row));
        }
        outcome.verdicts.keep_all(all.len());
        all.iter().filter(|row| !kept.contains(row)).for_each(|&row| outcome.verdicts.reject(row));
        if kept.is_empty() {
            return Ok(());
        }
        let (ids, matrix) = of(&ids, &kept);
        let mut sums: Option<Vec<f64>> = None;
        for (at, scorer) in self.declaration.scorers.iter().enumerate() {
            let seen = Candidates::new(&ids, &matrix, scorer.input_set(), &[]);
            let mut costs = vec![f64::NAN; kept.len()];
            self.parts.score(at, request, &seen, &mut costs)?;
            sums = Some(match sums {
                None => costs,
                Some(sums) => sums.iter().zip(costs).map(|(sum, cost)| sum + cost).collect(),
            });
        }
        outcome.costs = sums.clone().unwrap_or_default();
        if !outcome.costs.iter().all(|cost| cost.is_finite()) {
            return Ok(());
        }
        let costs = sums.unwrap_or_else(|| vec![0.0; kept.len()]);
        let row = match &self.declaration.picker {
            None => pick_lowest(&costs, &mut crate::clock::Chance::new(request.moment.seed)),
            Some(picker) => {
                let seen = Candidates::new(&ids, &matrix, picker.input_set(), &[]);
                self.parts.pick(request, &seen, &costs)?
            }
        };
        // A row that there isn't stays one.
        outcome.row = kept.get(row).copied().unwrap_or(usize::MAX);
        Ok(())
    }
}

type Make =
    dyn Fn(&PolicyEnvironment) -> Result<Box<dyn PolicyInstance>, InstantiateError> + Send + Sync;

/// A policy type that is made by a closure.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) make: Arc<Make>,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PolicyProvider for Made {
    fn policy_type(&self) -> &str {
        self.name
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        (self.make)(environment)
    }
}

/// Policies in which `make` decides for aggregated workers.
pub(crate) fn policies<P: PolicyInstance + 'static>(
    on_failure: OnFailure,
    make: impl Fn() -> P + Send + Sync + 'static,
) -> Policies {
    fallible(on_failure, move |_| Ok(Box::new(make())))
}

pub(crate) fn fallible(
    on_failure: OnFailure,
    make: impl Fn(&PolicyEnvironment) -> Result<Box<dyn PolicyInstance>, InstantiateError>
    + Send
    + Sync
    + 'static,
) -> Policies {
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(Made { name: "made", make: Arc::new(make) })).expect("not taken");
    Policies { catalog, selection: selection("made", on_failure), ..Policies::default() }
}

/// One instance, `mine`, of a type, which decides for aggregated workers.
pub(crate) fn selection(policy_type: &str, on_failure: OnFailure) -> SelectionSpec {
    let recipe = Recipe::Whole(TypeUse {
        policy_type: policy_type.into(),
        parameters: Arc::default(),
        limits: crate::policy::Limits::default(),
    });
    let instance = InstanceSpec { name: "mine".into(), recipe, on_failure, discard_state: false };
    SelectionSpec { roles: [(Role::Aggregated, "mine".into())].into(), instances: vec![instance] }
}

/// The built-in of this name for aggregated workers.
pub(crate) fn builtin(policy_type: &str) -> Policies {
    Policies {
        catalog: Catalog::builtin(),
        selection: selection(policy_type, OnFailure::Reject),
        ..Policies::default()
    }
}

pub(crate) fn router(policies: Policies, specs: impl IntoIterator<Item = WorkerSpec>) -> Router {
    let router = Router::new(policies, 7);
    for spec in specs {
        router.upsert_worker(spec).expect("the router takes it");
    }
    router
}
