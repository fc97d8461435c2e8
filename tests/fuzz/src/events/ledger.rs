//! An index of a few ranks, with what must hold of it at all times.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pointsman::feeds::{CacheSink, FeedStats, Intake};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{Applied, CacheEvent, Overlap, PrefixIndex, Tier};

/// How many ranks tell.
pub(super) const RANKS: usize = 3;

/// The most blocks of the index: few, so that some runs fill it.
const MOST_BLOCKS: usize = 4_096;

/// Bytes of an index that holds little: its tables begin with some room.
const BASE: usize = 1 << 20;

/// Bytes for each block that is held, known or waits, names and tables' room included.
const MOST_BLOCK_BYTES: usize = 1 << 10;

/// Bytes of what is in blocks that wait, for each byte that told of it: a list of its own for each
/// block, in place of one byte.
const MOST_CONTENT_BYTES: usize = 32;

/// Prompts that are looked up after each change.
const PROMPTS: usize = 4;

/// The index, and what is known of it besides.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) index: PrefixIndex,
    pub(super) stats: FeedStats,
    pub(super) intakes: Vec<Intake>,
    snapshot: Snapshot,
    /// What came of all changes, by rank.
    sums: Mutex<[Applied; RANKS]>,
    prompts: Mutex<Vec<Vec<u64>>>,
    /// Bytes that told of all this.
    told: usize,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rank(number: usize) -> WorkerRank {
    WorkerRank { worker_id: WorkerId(number as u64 + 1), dp_rank: DpRank(0) }
}

impl CacheSink for Ledger {
    fn apply(&self, rank: WorkerRank, event: CacheEvent<'_>) -> Applied {
        let applied = self.index.apply(rank, event);
        if let Some(sum) = lock(&self.sums).get_mut(rank.worker_id.0 as usize - 1) {
            *sum += applied;
        }
        applied
    }
}

impl Ledger {
    /// An empty one, of workers whose block size isn't known.
    pub(super) fn new() -> Self {
        let partition = PartitionKey {
            model: "m".into(),
            routing_group: "default".into(),
            role: Role::Aggregated,
        };
        let mut fleet = Fleet::default();
        for number in 0..RANKS {
            let spec = WorkerSpec::new(rank(number).worker_id, "http://w", partition.clone());
            fleet.upsert(spec).expect("nothing is wrong with it");
        }
        Self {
            index: PrefixIndex::new(MOST_BLOCKS),
            stats: FeedStats::default(),
            intakes: (0..RANKS).map(|number| Intake::new(rank(number), None)).collect(),
            snapshot: fleet.snapshot(&partition),
            sums: Mutex::default(),
            prompts: Mutex::default(),
            told: 0,
        }
    }

    /// Has one of the intakes do something with this as its sink.
    pub(super) fn with<T>(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut Intake, &FeedStats, &Self) -> T,
    ) -> T {
        let number = number % RANKS;
        let other = Intake::new(rank(number), None);
        let mut intake = std::mem::replace(&mut self.intakes[number], other);
        let done = act(&mut intake, &self.stats, self);
        self.intakes[number] = intake;
        done
    }

    /// So many bytes more are told.
    pub(super) fn told(&mut self, bytes: usize) {
        self.told += bytes;
    }

    /// Looks for a prompt from now on.
    pub(super) fn watch(&self, tokens: &[u32], block_size: u32, scope: Scope) {
        let mut prompts = lock(&self.prompts);
        if prompts.len() < PROMPTS {
            let mut chain = Vec::new();
            sequence_hashes(tokens, block_size, scope, &mut chain);
            prompts.push(chain);
        }
    }

    /// Panics if the index isn't in order.
    pub(super) fn check(&self) {
        let all = self.index.stats();
        let (mut held, mut orphans) = (0, 0);
        for (number, sum) in lock(&self.sums).iter().enumerate() {
            let Some(of_rank) = self.index.rank_stats(rank(number)) else { continue };
            let of_rank_held: usize = of_rank.held.iter().sum();
            held += of_rank_held;
            orphans += of_rank.orphans;
            assert!(of_rank_held <= sum.stored + sum.linked, "{of_rank:?} of {sum:?}");
            // A stretch that waits is counted when it comes and when it goes, by blocks or copies.
            if sum.orphaned == 0 {
                assert_eq!(of_rank_held, sum.stored - sum.removed, "rank {number}: {sum:?}");
            }
        }
        assert_eq!((all.held, all.orphans), (held, orphans), "in sum, and by rank");
        assert!(all.blocks <= MOST_BLOCKS && all.orphans <= MOST_BLOCKS, "{all:?}");
        let blocks = all.blocks + all.held + all.orphans;
        let most = BASE + blocks * MOST_BLOCK_BYTES + self.told * MOST_CONTENT_BYTES;
        assert!(all.bytes <= most, "{all:?}, told in {} bytes", self.told);
        lock(&self.prompts).iter().for_each(|chain| self.check_look_up(chain));
    }

    fn check_look_up(&self, chain: &[u64]) {
        let mut overlap = Overlap::default();
        self.index.look_up(chain, &self.snapshot, &mut overlap);
        for (row, &rank) in self.snapshot.rows.iter().enumerate() {
            let found = Tier::ALL.map(|tier| overlap.of_row(tier, row));
            let alone = self.index.look_up_rank(chain, rank);
            assert_eq!(found, alone.map(|blocks| blocks as f64), "row {row}, and alone");
            assert!(alone.iter().sum::<u64>() <= chain.len() as u64);
            let held = self.index.rank_stats(rank).map_or([0; Tier::COUNT], |of_rank| of_rank.held);
            let fits = alone.iter().zip(held).all(|(&found, held)| found <= held as u64);
            assert!(fits, "{alone:?} found of {held:?} held");
        }
    }

    /// Clears all ranks, and panics if anything is left.
    pub(super) fn clear(mut self) {
        for number in 0..RANKS {
            self.with(number, |intake, _, sink| intake.clear(sink));
        }
        while self.index.tidy() {}
        self.check();
        let left = self.index.stats();
        assert_eq!((left.blocks, left.held, left.orphans), (0, 0, 0), "{left:?}");
        assert!(left.bytes <= BASE, "{left:?}");
        self.index.remove_ranks(|_| true);
        while self.index.tidy() {}
        assert_eq!(self.index.stats().ranks, 0);
    }
}
