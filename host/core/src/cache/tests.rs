//! Promises of a partition's caches: who is believed, and what is forgotten with whom.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::fleet::{Fleet, WorkerSpec};
use crate::ids::{Role, WorkerId};
use crate::index::{Content, Stored, Tier};
use crate::testing::{key, rank, worker};

const CHAIN: [u64; 3] = [1, 2, 3];

fn chain() -> Arc<[u64]> {
    CHAIN.into()
}

fn stored(hashes: &[u64]) -> CacheEvent<'_> {
    let content = Content::Sequences(hashes);
    CacheEvent::Stored(Stored { parent: None, engines: hashes, content, tier: Tier::Device })
}

/// A fleet, its cache, and the epochs of its workers.
#[derive(Default)]
struct Rig {
    fleet: Fleet,
    cache: PartitionCache,
}

impl Rig {
    fn new(workers: u64) -> Self {
        let mut rig = Self { cache: PartitionCache::of_fleet(), ..Self::default() };
        (1..=workers).for_each(|id| rig.join(worker(id)));
        rig
    }

    fn join(&mut self, spec: WorkerSpec) {
        self.fleet.upsert(spec).expect("it is taken");
        self.realign();
    }

    fn leave(&mut self, id: u64) {
        self.fleet.remove(WorkerId(id)).expect("it is there");
        self.realign();
    }

    fn realign(&self) {
        self.cache.realign(&Arc::new(self.fleet.snapshot(&key(Role::Aggregated))));
    }

    fn epoch(&self, id: u64) -> Epoch {
        self.fleet.get(WorkerId(id)).expect("it is there").epoch
    }

    fn record(&self, settings: &RouterSettings, id: u64, now_ms: u64) -> Option<RunningPrompt> {
        let at = (rank(id, 0), self.epoch(id));
        self.cache.record(settings, at, &chain(), Some(100), now_ms)
    }

    /// Device blocks of each worker from 1 on.
    fn device(&self, settings: &RouterSettings) -> Vec<u64> {
        let snapshot = self.fleet.snapshot(&key(Role::Aggregated));
        let all = self.cache.overlaps(settings, &CHAIN, &snapshot);
        let rows = snapshot.rows.iter();
        for (rank, overlap) in rows.zip(&all) {
            assert_eq!(self.cache.row(settings, *rank, &CHAIN), *overlap, "by itself");
        }
        all.iter().map(|overlap| overlap.device_blocks).collect()
    }
}

fn lru() -> RouterSettings {
    RouterSettings {
        use_kv_events: false,
        router_approximate_cache_policy: ApproximateCachePolicy::Lru,
        ..RouterSettings::default()
    }
}

#[test]
fn an_engine_that_tells_is_believed_and_its_predictions_are_forgotten() {
    let rig = Rig::new(2);
    let settings = RouterSettings::default();
    rig.record(&settings, 1, 0);
    rig.record(&settings, 2, 0);
    assert_eq!(rig.device(&settings), [3, 3]);
    rig.cache.expect_events(rank(1, 0));
    assert_eq!(rig.device(&settings), [0, 3]);
    rig.cache.apply(rank(2, 0), stored(&CHAIN[..1]));
    assert_eq!(rig.device(&settings), [0, 1]);
    // What is sent to it isn't predicted any more.
    rig.record(&settings, 2, 0);
    assert_eq!(rig.device(&settings), [0, 1]);
    // Until it tells no more.
    rig.cache.remove_rank(rank(2, 0));
    rig.record(&settings, 2, 0);
    assert_eq!(rig.device(&settings), [0, 3]);
    rig.cache.tidy(120_000);
    assert_eq!(rig.device(&settings), [0, 0]);
}

#[test]
fn a_prompt_may_count_ahead_of_the_events() {
    let rig = Rig::new(1);
    let settings =
        RouterSettings { router_predicted_ttl_secs: Some(2.0), ..RouterSettings::default() };
    rig.cache.apply(rank(1, 0), stored(&CHAIN[..2]));
    rig.record(&settings, 1, 1_000);
    assert_eq!(rig.device(&settings), [3]);
    rig.cache.tidy(3_000);
    assert_eq!(rig.device(&settings), [2], "the events never came");
    rig.record(&settings, 1, 3_000);
    rig.cache.apply(rank(1, 0), stored(&CHAIN));
    rig.cache.tidy(9_000);
    assert_eq!(rig.device(&settings), [3]);
}

#[test]
fn nothing_is_taken_in_of_who_is_not_there() {
    let mut rig = Rig::new(1);
    let settings = RouterSettings::default();
    let strange = Applied { strange: 3, ..Applied::default() };
    assert_eq!(rig.cache.apply(rank(2, 0), stored(&CHAIN)), strange);
    assert_eq!(rig.cache.apply(rank(1, 1), stored(&CHAIN)), strange);
    rig.cache.expect_events(rank(2, 0));
    assert!(!rig.cache.tells(rank(2, 0)));
    // An event, and a booking's prompt, that come after their worker has gone.
    let epoch = rig.epoch(1);
    rig.leave(1);
    assert_eq!(rig.cache.apply(rank(1, 0), stored(&CHAIN)), strange);
    let at = (rank(1, 0), epoch);
    assert!(rig.cache.record(&lru(), at, &chain(), Some(9), 0).is_none());
    // Or after it has come back.
    rig.join(worker(1));
    assert_eq!(rig.cache.apply_in_life(rank(1, 0), epoch, stored(&CHAIN)), strange);
    assert!(rig.cache.record(&lru(), at, &chain(), Some(9), 0).is_none());
    assert_eq!(rig.device(&settings), [0]);
    rig.cache.apply_in_life(rank(1, 0), rig.epoch(1), stored(&CHAIN));
    assert_eq!(rig.device(&settings), [3]);
}

#[test]
fn who_begins_anew_holds_nothing_and_who_stays_keeps_all() {
    let mut rig = Rig::new(3);
    let settings = RouterSettings::default();
    for id in [1, 2] {
        rig.cache.apply(rank(id, 0), stored(&CHAIN));
    }
    rig.record(&settings, 3, 0);
    // Another address is another engine; a mark is not.
    rig.join(WorkerSpec { endpoint: "http://elsewhere".to_owned(), ..worker(1) });
    rig.join(WorkerSpec { total_kv_blocks: Some(50), ..worker(2) });
    rig.join(worker(4));
    assert_eq!(rig.device(&settings), [0, 3, 3, 0]);
    // A fleet that comes late changes nothing.
    rig.cache.realign(&Arc::default());
    assert_eq!(rig.device(&settings), [0, 3, 3, 0]);
    for id in 1..=4 {
        rig.leave(id);
    }
    while rig.cache.tidy(0) {}
    let (told, predicted) = (rig.cache.stats(), rig.cache.predicted_stats());
    assert_eq!((told.ranks, told.held, told.blocks), (0, 0, 0));
    assert_eq!((predicted.ranks, predicted.held, predicted.blocks), (0, 0, 0));
}

#[test]
fn settings_that_change_leave_no_prediction_for_ever() {
    let rig = Rig::new(3);
    let told = RouterSettings::default();
    let ttl = RouterSettings { use_kv_events: false, ..RouterSettings::default() };
    rig.cache.apply(rank(1, 0), stored(&CHAIN[..1]));
    // Events aren't believed: by capacity, for all.
    rig.cache.heed(&lru(), 0);
    let running = rig.record(&lru(), 1, 0);
    assert!(running.is_some());
    for id in [2, 3] {
        rig.record(&lru(), id, 0);
    }
    rig.cache.tidy(1_000_000);
    assert_eq!(rig.device(&lru()), [3, 3, 3]);
    // Now they are: who tells is believed, the others' predictions end in time.
    rig.cache.heed(&told, 1_000_000);
    assert_eq!(rig.device(&told), [1, 3, 3]);
    rig.record(&told, 2, 1_060_000);
    rig.cache.tidy(1_120_000);
    assert_eq!(rig.device(&told), [1, 3, 0]);
    drop(running);
    // And back, with a prediction by time that goes by capacity then.
    rig.cache.heed(&lru(), 1_130_000);
    rig.record(&lru(), 2, 1_130_000);
    rig.cache.tidy(9_000_000);
    assert_eq!(rig.device(&lru()), [0, 3, 0]);
    rig.cache.heed(&ttl, 9_000_000);
    rig.cache.tidy(9_120_000);
    assert_eq!(rig.device(&ttl), [0, 0, 0]);
    assert_eq!(rig.device(&told), [1, 0, 0], "what was told is there still");
    assert_eq!(rig.cache.predicted_stats().held, 0);
}

#[test]
fn threads_that_tell_decide_and_change_the_fleet_leave_nothing_behind() {
    let mut rig = Rig::new(4);
    let over = AtomicBool::new(false);
    let epochs: Vec<Epoch> = (1..=4).map(|id| rig.epoch(id)).collect();
    std::thread::scope(|scope| {
        let (cache, over) = (&rig.cache, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for id in 1..=4 {
                    cache.apply(rank(id, 0), stored(&CHAIN));
                    cache.apply(rank(id, 0), CacheEvent::Cleared);
                    cache.expect_events(rank(id, 0));
                }
            }
        });
        scope.spawn(move || {
            let mut running = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                for (id, &epoch) in (1..=4).zip(&epochs) {
                    let settings = if id % 2 == 0 { RouterSettings::default() } else { lru() };
                    let at = (rank(id, 0), epoch);
                    running.push_back(cache.record(&settings, at, &chain(), Some(5), 0));
                    if running.len() > 8 {
                        running.pop_front();
                    }
                }
            }
        });
        let mut fleet = std::mem::take(&mut rig.fleet);
        for round in 0..400 {
            let id = 1 + round % 4;
            fleet.remove(WorkerId(id)).expect("it is there");
            cache.realign(&Arc::new(fleet.snapshot(&key(Role::Aggregated))));
            cache.tidy(0);
            if round < 396 {
                fleet.upsert(worker(id)).expect("it is taken");
                cache.realign(&Arc::new(fleet.snapshot(&key(Role::Aggregated))));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    while rig.cache.tidy(0) {}
    let (told, predicted) = (rig.cache.stats(), rig.cache.predicted_stats());
    assert_eq!((told.ranks, told.held), (0, 0));
    assert_eq!((predicted.ranks, predicted.held), (0, 0));
}

/// Whoever leaves, is cleared, or is shut out in the middle of a long event gets nothing more of it.
#[test]
fn a_long_event_ends_with_the_life_that_it_is_of() {
    let hashes: Vec<u64> = (1..=10_000).collect();
    for what in ["leaves", "begins anew", "is forgotten"] {
        let Rig { mut fleet, cache } = Rig::new(1);
        let epoch = fleet.get(WorkerId(1)).expect("it is there").epoch;
        let mut entered = 0;
        let applied = cache.apply_while(rank(1, 0), epoch, stored(&hashes), || {
            entered += 1;
            // From within: nothing is held between two steps.
            match (entered, what) {
                (3, "is forgotten") => cache.remove_rank(rank(1, 0)),
                (3, _) => {
                    fleet.remove(WorkerId(1)).expect("it is there");
                    if what == "begins anew" {
                        fleet.upsert(worker(1)).expect("it is taken");
                    }
                    cache.realign(&Arc::new(fleet.snapshot(&key(Role::Aggregated))));
                }
                _ => {}
            }
            Some(())
        });
        assert_eq!(applied.stored + applied.strange, hashes.len(), "{what}");
        assert!(applied.stored > 0 && applied.strange > 0, "{what}");
        assert_eq!(cache.rank_stats(rank(1, 0)), None, "{what}");
    }
    let rig = Rig::new(1);
    let mut times = 0..2;
    let applied = rig.cache.apply_while(rank(1, 0), rig.epoch(1), stored(&hashes), || times.next());
    assert!(applied.stored > 0 && applied.stored < hashes.len());
    assert_eq!(applied.strange, 0);
}
