//! What a picker is asked that several threads may ask at once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::seating::Seating;
use super::stripes;
use crate::clock::Moment;
use crate::eligibility::{Exclusion, Exclusions, Rules};
use crate::ids::{WorkerRank, WorkerTarget};
use crate::request::{Constraints, RouteRequest};

/// Picks rows for many threads at once, from nothing but who the rows are and how many requests each
/// carries. What it keeps for itself is its own to guard; see [`super::STRIPES`].
///
/// It is asked only for requests that the host's rules leave a row to. One that panics is taken for one
/// that can't decide.
pub trait HostedPicker: Send + Sync + fmt::Debug {
    /// One of the rows, by its number in the snapshot. None where this can't be decided without the
    /// partition's lock: the policy's [`crate::policy::native::WorkerPicker`] is asked under it then.
    fn choose(&self, ask: &Ask<'_>) -> Option<u32>;
}

/// The question.
#[derive(Debug)]
pub struct Ask<'a> {
    /// When, and the seed.
    pub moment: Moment,
    /// The rows that the request may have.
    pub rows: Rows<'a>,
    /// The worker that the request names, by a pin or as an affinity that can be followed. The rows
    /// are that worker's then.
    pub target: Option<WorkerTarget>,
    /// Which stripe of its own state the picker should use, below [`super::STRIPES`].
    pub stripe: usize,
    seating: &'a Seating,
    constraints: &'a Constraints,
    /// How many stripes some thread counts in.
    stripes: usize,
}

/// Rows of a snapshot that a request may have, ascending.
#[derive(Clone, Debug)]
pub enum Rows<'a> {
    /// All that are ready: the request has no constraint.
    Ready(&'a [u32]),
    /// Those of one worker, or one of them.
    Span {
        /// The first.
        first: u32,
        /// How many.
        ranks: u32,
    },
    /// Those that pass the request's constraints.
    Passing(Passing<'a>),
}

/// Rows that pass a request's constraints. They are gone through anew each time, so that nobody needs
/// memory for them.
#[derive(Clone, Debug)]
pub struct Passing<'a> {
    seating: &'a Seating,
    rules: Rules<'a>,
    rows: usize,
}

impl<'a> Passing<'a> {
    /// The first row and the number of ranks of each worker that passes.
    fn spans(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let (rules, mut first) = (self.rules, 0);
        let workers = self.seating.snapshot().workers.iter().enumerate();
        workers.filter_map(move |(at, worker)| {
            let ranks = worker.spec.data_parallel_size.get();
            let span = (first, ranks);
            first += ranks;
            rules.exclusion(at, worker).is_none().then_some(span)
        })
    }
}

impl<'a> Rows<'a> {
    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Ready(rows) => rows.len(),
            Self::Span { ranks, .. } => *ranks as usize,
            Self::Passing(passing) => passing.rows,
        }
    }

    /// The `n`th of them, from 0.
    #[must_use]
    pub fn nth(&self, n: usize) -> Option<u32> {
        match self {
            Self::Ready(rows) => rows.get(n).copied(),
            Self::Span { first, ranks } => {
                u32::try_from(n).ok().filter(|n| n < ranks).map(|n| first + n)
            }
            Self::Passing(passing) => {
                let mut left = n;
                passing.spans().find_map(|(first, ranks)| {
                    let inside = left < ranks as usize;
                    let row = inside.then_some(first + left as u32);
                    left = left.saturating_sub(ranks as usize);
                    row
                })
            }
        }
    }

    /// All of them, ascending.
    pub fn each(&self, mut of: impl FnMut(u32)) {
        match self {
            Self::Ready(rows) => rows.iter().copied().for_each(of),
            Self::Span { first, ranks } => (*first..first + ranks).for_each(of),
            Self::Passing(passing) => {
                passing.spans().for_each(|(first, ranks)| (first..first + ranks).for_each(&mut of));
            }
        }
    }
}

impl<'a> Ask<'a> {
    /// The question of a request. None if its constraints leave no row: what is wrong then is for the
    /// ordinary path to say.
    #[inline]
    pub(super) fn of(
        request: &'a RouteRequest,
        moment: Moment,
        seating: &'a Seating,
    ) -> Option<Self> {
        let constraints = &request.constraints;
        let (rows, target) = if request.affinity_target.is_none() && constraints.exclude_nobody() {
            (Rows::Ready(seating.ready()), None)
        } else {
            Self::constrained(request, seating)?
        };
        let (stripe, stripes) = (stripes::mine(), stripes::in_use());
        let ask = Self { moment, rows, target, stripe, seating, stripes, constraints };
        (ask.rows.count() > 0).then_some(ask)
    }

    fn constrained(
        request: &'a RouteRequest,
        seating: &'a Seating,
    ) -> Option<(Rows<'a>, Option<WorkerTarget>)> {
        let constraints = &request.constraints;
        let rules = Rules::of(constraints, seating.snapshot(), &[]);
        if let Some(target) = constraints.pinned {
            return Some((target_rows(seating, &rules, target)?, Some(target)));
        }
        if let Some(target) = request.affinity_target
            && let Some(rows) = target_rows(seating, &rules, target)
        {
            return Some((rows, Some(target)));
        }
        if constraints.exclude_nobody() {
            return Some((Rows::Ready(seating.ready()), None));
        }
        let mut passing = Passing { seating, rules, rows: 0 };
        passing.rows = passing.spans().map(|(_, ranks)| ranks as usize).sum();
        Some((Rows::Passing(passing), None))
    }

    /// How many rows may not have the request, by reason.
    pub(super) fn excluded(&self) -> Exclusions {
        if self.constraints.exclude_nobody() {
            return self.seating.excluded();
        }
        let mut excluded = Exclusions::default();
        let snapshot = self.seating.snapshot();
        let rules = Rules::of(self.constraints, snapshot, &[]);
        for (at, worker) in snapshot.workers.iter().enumerate() {
            let ranks = worker.spec.data_parallel_size.get();
            match rules.exclusion(at, worker) {
                Some(why) => excluded.count(why, ranks),
                None if self.constraints.pinned.is_some() => {
                    let others = ranks.saturating_sub(self.rows.count() as u32);
                    excluded.count(Exclusion::NotPinned, others);
                }
                None => {}
            }
        }
        excluded
    }

    /// Requests that a row carries.
    #[must_use]
    pub fn load(&self, row: u32) -> u32 {
        self.seating.load(row, self.stripes)
    }

    /// Whether a row's worker runs on processors alone.
    #[must_use]
    pub fn is_on_cpu(&self, row: u32) -> bool {
        self.seating.is_on_cpu(row)
    }

    /// The row whose turn is the `turn`th, over all that are ready: one of each worker, then of each
    /// the next rank.
    #[must_use]
    pub fn of_turn(&self, turn: u64) -> Option<u32> {
        self.seating.of_turn(turn)
    }

    /// How many turns there are before the first worker has its next.
    #[must_use]
    pub fn workers_in_turn(&self) -> u64 {
        self.seating.workers_in_turn()
    }
}

/// The rows of a worker that is named, if it may have the request.
fn target_rows<'a>(
    seating: &'a Seating,
    rules: &Rules<'_>,
    target: WorkerTarget,
) -> Option<Rows<'a>> {
    let at = seating.snapshot().place_of(target.worker_id)?;
    let worker = seating.snapshot().workers.get(at)?;
    if rules.exclusion(at, worker).is_some() {
        return None;
    }
    let (dp_rank, ranks) = match target.dp_rank {
        Some(rank) => (rank, 1),
        None => (worker.spec.ranks().next()?, worker.spec.data_parallel_size.get()),
    };
    let rank = WorkerRank { worker_id: target.worker_id, dp_rank };
    let first = seating.snapshot().row_of(rank)? as u32;
    Some(Rows::Span { first, ranks })
}

/// A picker of somebody else's, whose panics are caught.
#[derive(Debug)]
pub(crate) struct Guarded<P>(pub(crate) P);

impl<P: HostedPicker> HostedPicker for Guarded<P> {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        // It is asked under the lock then, where failures have consequences.
        catch_unwind(AssertUnwindSafe(|| self.0.choose(ask))).ok().flatten()
    }
}
