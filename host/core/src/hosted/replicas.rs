//! Policies of which several instances may serve one partition side by side.
//!
//! Owns the instances, one try-lock each: a thread that decides takes one that nobody is using, and
//! waits for none. What an instance answers is checked as everywhere, by its own [`Pipeline`]. Those that
//! are often slow are left to the ordinary path for a while, which decides where it holds nobody up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Told;
use super::seating::Seating;
use super::stripes::{self, Padded};
use crate::clock::{Moment, Stopwatch};
use crate::eligibility::Eligibility;
use crate::fleet::DEFAULT_BLOCK_SIZE;
use crate::ids::DecisionId;
use crate::policy::pipeline::Pipeline;
use crate::policy::view::RequestView;
use crate::policy::{Input, InputSet};
use crate::request::RouteRequest;

/// A decision slower than this holds up who asked for it: threads that serve others, too.
const SLOW: Duration = Duration::from_micros(200);

/// A slow decision weighs as much as so many quick ones, or as many that were left to others.
const WEIGHT: u64 = 100;

/// Beyond this, decisions are left to the ordinary path: two slow ones in a hundred.
const TOO_SLOW: u64 = 2 * WEIGHT;

/// Instances of one policy.
#[derive(Debug)]
pub struct Replicas {
    replicas: Box<[Padded<Mutex<Replica>>]>,
    /// A leaky count of slow decisions.
    slowness: AtomicU64,
}

#[derive(Debug)]
struct Replica {
    pipeline: Pipeline,
    eligibility: Eligibility,
}

impl Replicas {
    pub(crate) fn new(pipelines: Vec<Pipeline>) -> Self {
        let replica = |pipeline| Replica { pipeline, eligibility: Eligibility::default() };
        let replicas = pipelines.into_iter().map(replica);
        let replicas = replicas.map(|replica| Padded(Mutex::new(replica))).collect();
        Self { replicas, slowness: AtomicU64::new(0) }
    }

    /// None if all are in use, or the one that was asked failed: it is for the partition's own
    /// instance then, under the lock, where failures have consequences.
    pub(super) fn choose(
        &self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        seating: &Seating,
        told: Option<&mut Told>,
    ) -> Option<u32> {
        let slowness = self.slowness.load(Ordering::Relaxed);
        if slowness > TOO_SLOW {
            self.slowness.store(slowness - 1, Ordering::Relaxed);
            return None;
        }
        let mine = stripes::mine();
        let (before, after) = self.replicas.split_at(mine.checked_rem(self.replicas.len())?);
        let mut free = after.iter().chain(before).filter_map(|Padded(replica)| replica.try_lock());
        let mut replica = free.next()?;
        let watch = Stopwatch::start();
        let row = replica.choose(request, decision_id, moment, seating, told);
        if watch.elapsed() > SLOW {
            // Who writes at the same time may overwrite this; it is slow again soon enough.
            self.slowness.store(slowness + WEIGHT, Ordering::Relaxed);
        } else if slowness > 0 {
            self.slowness.store(slowness - 1, Ordering::Relaxed);
        }
        row
    }
}

impl Replica {
    fn choose(
        &mut self,
        request: &RouteRequest,
        decision_id: DecisionId,
        moment: Moment,
        seating: &Seating,
        told: Option<&mut Told>,
    ) -> Option<u32> {
        let Self { pipeline, eligibility } = self;
        let snapshot = seating.snapshot();
        eligibility.find(snapshot, request, &[]);
        if eligibility.rows.is_empty() {
            return None;
        }
        let first = snapshot.workers.first();
        let block_size = first.map_or(DEFAULT_BLOCK_SIZE, |worker| worker.spec.block_size).get();
        let pinned = eligibility.pinned;
        // Nothing of the prompt is booked on this way.
        let view = RequestView::new(request, decision_id, moment, block_size, false, pinned);
        pipeline.renew();
        pipeline.tell_fleet(snapshot);
        let (rows, stripes) = (&eligibility.rows, stripes::in_use());
        pipeline.load(snapshot, rows, InputSet::default(), |input, column| {
            for (to, &row) in column.iter_mut().zip(rows) {
                // A policy that reads another column isn't asked on this way.
                let reads_load = input == Input::ActiveRequests;
                *to = if reads_load { seating.load(row, stripes).into() } else { 0.0 };
            }
        });
        let selected = pipeline.run(&view, false).ok()?;
        if let Some(told) = told {
            told.eligible = rows.len() as u32;
            told.excluded = eligibility.excluded;
            told.stage = pipeline.trace().first().cloned();
        }
        rows.get(selected.row).copied()
    }
}
